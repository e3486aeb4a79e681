"""What the run stands: tasks that do not answer, environments that fail."""

import dataclasses

from ps_dqn.config.options import option

# Where nothing is said: of a worker's closures, as a multiple of its slowest of that kind so far,
# but at least so long; and until the first of its kind has ended there (seconds).
USUAL_TIMES, LEAST_SECONDS, FIRST_SECONDS = 20.0, 60.0, 600.0
ANSWER_SECONDS = 6.0
# What environments may do wrong: raise; say what is not finite, or no observation or reward at all;
# not answer; be gone.
ENV_FAILURES = ("raised", "not_finite", "malformed", "hung", "vanished")
# Their failures are counted over so much of a worker's experience (environment steps).
FAILURE_WINDOW = 1000


@dataclasses.dataclass(frozen=True)
class Faults:
    """What the run stands: tasks that do not answer, environments that fail."""

    worker_timeout: float | None = option(
        None,
        "A worker that does not answer for so long, or neither ends its closure nor says that it "
        "has made another step or update, is given up: its closure goes to another one, and where "
        "the task is of this machine it is started again "
        f"(seconds). Default: {ANSWER_SECONDS:.0f} for an answer; for a closure "
        f"{USUAL_TIMES:.0f} times what its slowest of that kind took, at least "
        f"{LEAST_SECONDS:.0f}, and {FIRST_SECONDS:.0f} for its first one.",
        low=1.0,
        finite=False,
    )
    ps_timeout: float = option(
        ANSWER_SECONDS,
        "A parameter server that does not answer for so long is taken for dead: the run goes on "
        "from its newest snapshot once it answers again; where the task is of this machine it is "
        "started again (seconds).",
        low=1.0,
        finite=False,
    )
    ps_recovery_timeout: float = option(
        float("inf"),
        "How long tasks may take to come back, after a parameter server was lost, until the run is "
        "given up (seconds).",
        low=1.0,
        finite=False,
    )
    min_workers: int = option(
        0,
        "Remote workers with which training begins, and goes on after a parameter server was lost; "
        "others are taken in when they come. 0: all at the start, whoever is there later.",
        low=0,
    )
    snapshot_period: float = option(
        5.0,
        "How often the coordinator takes a snapshot of the parameter servers into its memory, from "
        "which a server that was lost goes on; workers keep what they have pushed since, and push "
        "it again. Less often where snapshots take over 1 % of the time; 0: only checkpoints, and "
        "what came after the newest one is lost (seconds).",
        low=0.0,
        finite=True,
    )
    drain_timeout: float = option(
        60.0,
        "At its end the run waits no longer than this for closures that are on their way, and for "
        "evaluations once nobody plays them (seconds).",
        low=0.0,
        finite=False,
    )
    max_env_failures: int = option(
        100,
        f"Failures of environments within {FAILURE_WINDOW:,} environment steps of a worker; with "
        "more than these the run ends, with a checkpoint (failures).",
        low=0,
    )
