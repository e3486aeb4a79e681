"""How a hyperparameter changes over a run, and epsilon from environment to environment."""

import math
from typing import NamedTuple

import numpy as np

from ps_dqn.config import Config, Exploration, Learning
from ps_dqn.config.options import env_steps as steps_of
from ps_dqn.config.topology import Rungs


class Scheduled(NamedTuple):
    """What depends on how far the run is."""

    progress: float  # share of the run that is done
    learning_rate: float
    epsilons: np.ndarray  # of each environment of the worker, float [E]


def at(config: Config, env_steps: int, worker: int = 0) -> Scheduled:
    """All of it, for a worker, after so many environment steps of all workers."""
    total = config.run.total_env_steps
    rungs = config.topology.rungs(worker, config.environment.envs_per_worker)
    return Scheduled(
        min(env_steps / total, 1.0),
        learning_rate(config.learning, env_steps, total),
        epsilon(config.exploration, env_steps, total, rungs),
    )


class Horizon(NamedTuple):
    """How far returns reach."""

    n_step: int
    gamma: float


def horizon(config: Config, sequential_updates: int) -> Horizon:
    """Of what is learned from after so many sequential updates (BBF, Schwarzer et al. 2023).

    The length of returns, and the distance of the discount to 1, change by the same factor at every
    update from the start of the run and from each reset on.
    """
    resets, learning = config.resets, config.learning
    n_step, rest = float(learning.n_step), 1.0 - learning.gamma
    way = resets.anneal_updates, resets.since(sequential_updates)
    if resets.n_step_start:
        n_step = value("exponential", resets.n_step_start, n_step, *way)
    if resets.gamma_start:
        rest = value("exponential", 1.0 - resets.gamma_start, rest, *way)
    return Horizon(round(n_step), 1.0 - rest)


def value(kind: str, start: float, end: float, length: int, step: int) -> float:
    """A value that goes from `start` to `end` in `length` steps and stays there.

    "constant" stays at `start` for ever. "linear" is a straight line, "cosine" half a period of
    the cosine (Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts), and "exponential"
    multiplies by the same factor at every step.

    Args:
        kind: "constant", "linear", "cosine" or "exponential".
        start: the value at step 0.
        end: the value from step `length` on.
        length: steps of the way.
        step: where we are, counted from 0.

    Raises:
        ValueError: there is no such kind, or an exponential schedule's `start` or `end` is not
            above 0.
    """
    if kind not in ("constant", "linear", "cosine", "exponential"):
        raise ValueError(f"no schedule is called {kind!r}")
    if kind == "exponential" and min(start, end) <= 0:
        raise ValueError(f"an exponential schedule from {start} to {end}: both must be above 0")
    if kind == "constant":
        return start
    if step >= length:
        return end
    way = step / length
    if kind == "cosine":
        way = (1.0 - math.cos(math.pi * way)) / 2.0
    if kind == "exponential":
        return start * (end / start) ** way
    return start + way * (end - start)


def ladder(epsilon: float, rungs: Rungs) -> np.ndarray:
    """Environment i of E explores with epsilon^(1 + 7i/(E-1)), float [environments of a worker].

    Horgan et al. 2018, arXiv:1803.00933, where i is an actor's number. Ape-X's actors share one
    replay, and E are the environments of all of them. Where each worker has its own, each has all
    of the ladder: the last of many workers would otherwise learn from greedy actions alone.

    Args:
        epsilon: the schedule's value.
        rungs: the worker's environments among E, which are 2 or more.
    """
    numbers = rungs.first + np.arange(rungs.envs)
    return epsilon ** (1.0 + 7.0 * numbers / (rungs.of_all - 1))


def learning_rate(options: Learning, env_steps: int, total: int) -> float:
    """The step size after so many of the `total` environment steps of all workers."""
    return value(
        options.learning_rate_schedule,
        options.learning_rate,
        options.learning_rate_end,
        steps_of(options.learning_rate_decay_steps, total),
        env_steps,
    )


def epsilon(options: Exploration, env_steps: int, total: int, rungs: Rungs) -> np.ndarray:
    """How often each environment of a worker is acted in at random, float [E].

    Args:
        options: the schedule, and whether it differs from environment to environment.
        env_steps: made so far, of all workers.
        total: of the run.
        rungs: the environments of the worker.
    """
    scheduled = value(
        options.epsilon_schedule,
        options.epsilon_start,
        options.epsilon_end,
        options.decay(total),
        env_steps,
    )
    if options.epsilon_ladder:
        return ladder(scheduled, rungs)
    return np.full(rungs.envs, scheduled)
