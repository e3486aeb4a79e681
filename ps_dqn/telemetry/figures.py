"""What each role shows of itself while it goes on; read by its health server.

What is None or NaN is not known.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from ps_dqn.config import Config
from ps_dqn.state import Counters

STATES = ("connecting", "training", "stopping", "ended")
_NOT_KNOWN = Counters(*[math.nan] * len(Counters._fields))


@dataclasses.dataclass(frozen=True)
class TaskFailure:
    """Failures of one kind of one task, all together."""

    task: str  # as people call it
    kind: str  # lost, silent or overdue
    failures: int = 0
    detection_seconds: float = 0.0  # from the last sign of it until each was noticed
    recoveries: int = 0  # after which it has worked again
    recovery_seconds: float = 0.0  # from the notice until then


@dataclasses.dataclass(frozen=True)
class RecoveryFigures:
    """What a run has lost so far in this process, and what that has cost."""

    recoveries: float = math.nan  # connections made again
    recovery_seconds: float = math.nan  # without a connection to train on
    pushes_again: float = math.nan  # that servers had lost
    updates_lost: float = math.nan
    goodput: float = math.nan  # share of the time with a connection to train on
    task_failures: Sequence[TaskFailure] = ()

    def of_tasks(self, number: str) -> Mapping[tuple[str, str], float]:
        """A number of `TaskFailure` by task and kind."""
        return {(row.task, row.kind): getattr(row, number) for row in self.task_failures}


@dataclasses.dataclass(frozen=True)
class TaskFigures:
    """What a worker or a parameter server is at."""

    name: str  # as people call it
    is_worker: bool
    doing: str  # a phase, or what is wrong with it
    seconds: float = math.nan  # for so long
    env_steps_per_second: float = math.nan
    updates_per_second: float = math.nan
    pushes_per_second: float = math.nan  # that come to it
    adds_per_second: float = math.nan  # transitions that come to it
    samples_per_second: float = math.nan  # that are drawn from it
    staleness: float = math.nan  # of its last push (versions)
    replay_rows: float = math.nan
    replay_goal: float = math.nan  # rows without which nothing is learned
    version: float = math.nan  # of the parameters that it has
    memory: float = math.nan  # bytes

    is_heard: bool = True  # it says what it is at

    @property
    def is_filling(self) -> bool:
        """Whether its replay has not enough to learn from."""
        return self.replay_rows < self.replay_goal


@dataclasses.dataclass(frozen=True)
class RunFigures:
    """What the coordinator knows of its run; what has a default is not known while it connects."""

    state: str  # one of `STATES`
    env_steps_goal: int  # environment steps, all workers
    workers: int  # that the run is for
    checkpoint_period: float  # seconds
    staleness_bound: int | None  # versions; None: there is none
    target_return: float = math.nan  # inf: there is none
    seconds: float = math.nan  # of training, earlier sessions included
    counters: Counters = _NOT_KNOWN
    eval_return: float = math.nan  # mean of the last evaluation
    best_return: float = math.nan  # of the best checkpoint
    workers_reporting: float = math.nan
    checkpoint_age: float = math.nan  # seconds; since training began where none was saved
    closures_lost: float = math.nan
    failed_writes: float = math.nan  # to the run directory
    recovery: RecoveryFigures = RecoveryFigures()
    # Metrics by their names in `metrics.METRICS`: of the last moments, or of those before where
    # nothing was measured; and of the whole session.
    recent: Mapping[str, float] = dataclasses.field(default_factory=dict)
    session: Mapping[str, float] = dataclasses.field(default_factory=dict)
    is_news: bool = False  # workers were heard of since the last look
    # Where the run is by what tasks say between their reports too, which may be a little ahead.
    env_steps_now: float = math.nan
    updates_now: float = math.nan
    seconds_left: float = math.nan  # until the last step, at the pace of the last minute
    memory: float = math.nan  # bytes of the coordinator's process
    tasks: Sequence[TaskFigures] = ()

    def rate(self, name: str) -> float:
        """A rate of all workers: `env_steps_per_second` or `updates_per_second`."""
        known = [getattr(each, name) for each in self.tasks]
        said = [value for value in known if not math.isnan(value)]
        return math.fsum(said) if said else self.recent.get(f"rate/{name}", math.nan)

    @classmethod
    def planned(cls, config: Config, num_workers: int) -> "RunFigures":
        """What is known of a run before it has connected."""
        return cls(
            state="connecting",
            env_steps_goal=config.run.total_env_steps,
            workers=num_workers,
            checkpoint_period=config.run.checkpoint_period,
            staleness_bound=config.parameter_server.max_staleness,
        )

    @property
    def states(self) -> Mapping[str, float]:
        """1 for the present state, 0 for the others."""
        return {state: float(state == self.state) for state in STATES}


@dataclasses.dataclass(frozen=True)
class WorkerFigures:
    """What a worker has done since it joined the run, up to its last report."""

    env_steps: float
    updates: float  # made, applied or not
    closures: float
    replay_rows: float
    replay_bytes: float
    phase_seconds: Mapping[str, float]  # by phase


@dataclasses.dataclass(frozen=True)
class ServerFigures:
    """What a parameter server holds, and what it has done since the run began."""

    version: int
    parameters: int
    pulls: int
    pushes: int
    sent_bytes: int
    received_bytes: int
    busy_seconds: float


@dataclasses.dataclass(frozen=True)
class ReplayFigures:
    """What a replay server holds, and what it has done since the run began or it was started."""

    rows: int  # that can be drawn
    bytes_held: int  # once it is full
    adds: int  # transitions
    samples: int  # likewise
    updates: int  # of priorities
    bytes_in: int
    bytes_out: int
    seconds: float  # busy
    alive_seconds: float  # of which it is in this run


@dataclasses.dataclass(frozen=True)
class ActorFigures:
    """What an actor task has done since it was started."""

    connected: int = 0  # 1: a learner has it
    steps: int = 0  # of all of its environments together
    env_steps: int = 0
    waited_seconds: float = 0.0  # for actions
    env_seconds: float = 0.0  # in its environments


@dataclasses.dataclass(frozen=True)
class EvaluatorFigures:
    """What an evaluator has found."""

    mean_return: float = math.nan
    env_steps: float = math.nan  # of the checkpoint
    evaluations: int = 0
