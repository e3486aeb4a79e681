"""What one training closure tells the coordinator: a flat vector of named numbers."""

from typing import NamedTuple

import numpy as np

from ps_dqn.state import Counters


class Report(NamedTuple):
    """One float64 each.

    Sums over the closure where not said otherwise.
    """

    worker: float  # index
    run_version: float  # the run's counters after this worker's last push
    run_updates: float
    run_env_steps: float
    run_episodes: float
    pushes: float  # applied, as those below that say otherwise are not
    refused: float  # stale, late, or a repetition
    withheld_outliers: float
    withheld_not_finite: float
    staleness: float  # versions others made between its pulls and pushes, of decided pushes
    staleness_max: float  # the largest
    bytes_pulled: float
    bytes_pushed: float
    updates: float  # made, applied or not
    env_steps: float
    episodes: float
    return_sum: float  # of the finished episodes
    return_min: float
    return_max: float
    td_loss: float  # summed over updates
    q_values: float  # mean Q(s, a) of a minibatch, summed over updates
    grad_norm: float  # before clipping, summed over updates
    epsilon: float  # this worker's, at the last push
    replay_size: float  # rows that could be sampled, now
    time_environment: float  # seconds, as the ones below
    time_acting: float
    time_sampling: float
    time_gradient: float
    time_pull: float
    time_push: float
    time_waiting: float  # for other workers (sync)
    pull_max: float  # the longest pull and push (seconds)
    push_max: float

    @classmethod
    def decode(cls, vector: np.ndarray) -> "Report":
        """The report in a vector that a worker made, float64 [number of fields]."""
        return cls(*(float(each) for each in vector))

    @property
    def counters(self) -> Counters:
        """Where the run was after this worker's last push."""
        numbers = (self.run_version, self.run_updates, self.run_env_steps, self.run_episodes)
        return Counters(*(int(each) for each in numbers))

    @property
    def decided(self) -> float:
        """Pushes that came to the parameter servers with a vector."""
        return self.pushes + self.refused

    @property
    def withheld(self) -> float:
        """Pushes whose vector the worker kept to itself."""
        return self.withheld_outliers + self.withheld_not_finite

    @property
    def exchanges(self) -> float:
        """Pulls and pushes there and back."""
        return self.decided + self.withheld


PHASES = ("environment", "acting", "sampling", "gradient", "pull", "push", "waiting")
