"""What one training closure tells the coordinator: a flat vector of named numbers."""

from typing import NamedTuple

import numpy as np


class Report(NamedTuple):
    """One float64 each.

    Sums over the closure where not said otherwise.
    """

    worker: float  # index
    version: float  # of the parameters after its last push
    staleness: float  # versions others made between its pulls and pushes
    pushes: float
    updates: float
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


PHASES = ("environment", "acting", "sampling", "gradient", "pull", "push")


def decode(vector: np.ndarray) -> Report:
    """The report in a vector that a worker made, float64 [number of fields]."""
    return Report(*(float(each) for each in vector))
