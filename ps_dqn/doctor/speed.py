"""Where a run's time goes, and what is lost on the way between workers and servers."""

import math

from ps_dqn.config.run import FIRST_PUSHES, ROUNDS
from ps_dqn.doctor.patient import Finding, Patient, number, rounded

# A step of an environment that takes so long is worth a process of its own (seconds).
LONG_STEP = 1e-3
# Shares of the workers' time, and of the pushes, above which something is wrong.
MOST_EVALUATION, MOST_DISPATCH, MOST_REFUSED = 0.25, 0.2, 0.2
WANTED_EVALUATION = 0.1
# A worker is slow that takes so many times what the median one takes for an update.
SLOW = 2.0


# A change for who adds up gradients, and what comes of it.
WITH_SERVERS = (
    "--strategy=parameter_server",
    "nobody waits for others after every update, and --local_updates spares pulls and pushes",
)
WITHOUT_THE_LAST = (
    "--backup_workers=1",
    "rounds go on without the last push; what it held is dropped",
)


def bottleneck(patient: Patient) -> Finding | None:
    """What takes most of the workers' time; None where nothing is known yet."""
    phases = patient.phases
    if not sum(phases.values()):
        return None
    phase = max(phases, key=lambda each: phases[each])
    shares = {each: patient.phase_share(each) for each in phases}
    others = sorted((each for each in shares if each != phase), key=lambda each: -shares[each])
    shown = ", ".join(f"{each} {shares[each]:.0%}" for each in others if shares[each] >= 0.01)
    seen = f"{phase} takes {shares[phase]:.0%} of the workers' time ({shown})"
    return Finding(phase, seen, *_faster(patient, phase))


def _faster(patient: Patient, phase: str) -> tuple[str, str]:
    """A change that makes a phase shorter, and what comes of it."""
    config, workers = patient.config, patient.num_workers
    options, environment = config.parameter_server, config.environment
    if phase in ("environment", "acting"):
        step = patient.phases["environment"] / max(patient.env_steps, 1)
        if phase == "environment" and step >= LONG_STEP:
            if environment.vectorization != "async":
                return (
                    "--vectorization=async",
                    f"environments, at {number(1e3 * step)} ms a step, are stepped side by side",
                )
            return f"--num_workers={workers + 1}", "more environments, on cores of their own"
        name = "num_envs" if environment.num_envs_per_worker is None else "num_envs_per_worker"
        return (
            f"--{name}={2 * getattr(environment, name)}",
            "one call steps twice as many environments, so fewer calls",
        )
    if phase == "gradient":
        return (
            f"--update_period={rounded(2 * options.update_period)}",
            "half as many updates for the same steps: faster, and less is learned from each step",
        )
    if phase == "sampling":
        if config.replay.replay == "prioritized":
            return "--replay=uniform", "minibatches are drawn without priorities"
        return f"--batch_size={max(config.learning.batch_size // 2, 1)}", "half as much is drawn"
    if phase in ("pull", "push", "waiting") and not options.has_servers:
        return WITH_SERVERS
    if phase in ("pull", "push"):
        if options.local_updates == 1:
            return "--local_updates=16", "a sixteenth of the pulls and pushes"
        wire = f"{phase}_wire_dtype"
        if getattr(options, wire) == "float32":
            return f"--{wire}=bfloat16", "half of the bytes"
        return f"--local_updates={2 * options.local_updates}", "half of the pulls and pushes"
    if phase == "waiting":
        if workers > 1 and patient.late("workers/slowest") > SLOW:
            return WITHOUT_THE_LAST
        return "--aggregation=async", "nobody waits for others, and pushes are older"
    if phase == "dispatch":
        pushes = 4 * (options.pushes_per_closure or FIRST_PUSHES)
        return f"--pushes_per_closure={pushes}", "fewer closures, each with more work"
    period = _eval_period(patient)
    return f"--eval_period={period}", f"evaluations take {WANTED_EVALUATION:.0%} of the time"


def evaluation_takes_long(patient: Patient) -> Finding | None:
    """Workers play for others to see, rather than learn."""
    share = patient.phase_share("evaluation")
    if share <= MOST_EVALUATION:
        return None
    return Finding(
        "evaluation_takes_long",
        f"{share:.0%} of the workers' time goes into {len(patient.evaluations)} evaluations of "
        f"{patient.config.run.eval_episodes} episodes",
        f"--eval_period={_eval_period(patient)}",
        f"evaluations take {WANTED_EVALUATION:.0%} of the time; the target is noticed later",
    )


def _eval_period(patient: Patient) -> int:
    """From one evaluation to the next, for them to take `WANTED_EVALUATION` of the time."""
    share = min(patient.phase_share("evaluation"), 0.99)
    factor = share / (1 - share) * (1 - WANTED_EVALUATION) / WANTED_EVALUATION
    return int(float(f"{patient.config.run.eval_period * max(factor, 1.5):.2g}"))


def dispatch_takes_long(patient: Patient) -> Finding | None:
    """Workers wait for the coordinator from one closure to the next."""
    share = patient.phase_share("dispatch")
    if share <= MOST_DISPATCH:
        return None
    return Finding(
        "dispatch_takes_long",
        f"{share:.0%} of the workers' time they wait for the coordinator between closures",
        *_faster(patient, "dispatch"),
    )


def slow_worker(patient: Patient) -> Finding | None:
    """All wait for one in every round."""
    slowest = patient.late("workers/slowest")
    options = patient.config.parameter_server
    in_rounds = patient.num_workers > 1 and patient.aggregation in ROUNDS
    if not in_rounds or options.backup_workers or not slowest > SLOW:
        return None
    return Finding(
        "slow_worker",
        f"the slowest worker takes {number(slowest)} times what the median one takes for an "
        f"update, and every round waits for it",
        *(WITHOUT_THE_LAST if options.has_servers else WITH_SERVERS),
    )


def stale_pushes(patient: Patient) -> Finding | None:
    """Gradients are of parameters that the others have long changed."""
    staleness, workers = patient.late("train/staleness"), patient.num_workers
    options = patient.config.parameter_server
    usual = max(2 * workers, 4)
    # Others may only be refused where nobody waits, and where nothing refuses them yet.
    if patient.aggregation != "async" or options.max_staleness is not None:
        return None
    if not staleness > usual:
        return None
    return Finding(
        "stale_pushes",
        f"pushes are {number(staleness)} versions old in the mean (at most "
        f"{number(max(patient.run.values('train/staleness_max'), default=math.nan))}), with "
        f"{workers} workers",
        f"--max_staleness={usual}",
        "older pushes are refused: less is pushed, nothing pulls the parameters back",
    )


def refused_pushes(patient: Patient) -> Finding | None:
    """Work is thrown away."""
    refused, applied = patient.total("push/refused"), patient.total("push/applied")
    limit = patient.config.parameter_server.max_staleness
    if limit is None or not refused > MOST_REFUSED * (refused + applied):
        return None
    return Finding(
        "refused_pushes",
        f"{refused / (refused + applied):.0%} of {refused + applied:,.0f} pushes were refused as "
        f"older than --max_staleness={limit}",
        f"--max_staleness={max(2 * limit, patient.num_workers)}",
        "most pushes count, some of them late",
    )


RULES = (
    evaluation_takes_long,
    dispatch_takes_long,
    slow_worker,
    stale_pushes,
    refused_pushes,
)
