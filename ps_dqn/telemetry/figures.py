"""What each role shows of itself while it goes on; read by its health server.

What is None or NaN is not known.
"""

import dataclasses
import math
from collections.abc import Mapping

from ps_dqn.state import Counters

STATES = ("connecting", "training", "stopping", "ended")
_NOT_KNOWN = Counters(math.nan, math.nan, math.nan, math.nan)


@dataclasses.dataclass(frozen=True)
class RunFigures:
    """What the coordinator knows of its run; what has a default is not known while it connects."""

    state: str  # one of `STATES`
    env_steps_goal: int  # environment steps, all workers
    workers: int  # that the run is for
    checkpoint_period: float  # seconds
    staleness_bound: int | None  # versions; None: there is none
    counters: Counters = _NOT_KNOWN
    episode_return: float = math.nan  # mean of the episodes of the last interval that had any
    eval_return: float = math.nan  # mean of the last evaluation
    best_return: float = math.nan  # of all evaluations
    epsilon: float = math.nan  # probability of a random action
    staleness_mean: float = math.nan  # versions, of the pushes decided in the last interval
    staleness_max: float = math.nan  # likewise
    workers_reporting: float = math.nan
    checkpoint_age: float = math.nan  # seconds; since training began where none was saved
    pushes: Mapping[str, float] = dataclasses.field(default_factory=dict)  # by outcome
    closures_lost: float = math.nan
    phase_seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)  # by phase

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
class EvaluatorFigures:
    """What an evaluator has found."""

    mean_return: float = math.nan
    env_steps: float = math.nan  # of the checkpoint
    evaluations: int = 0
