"""How a hyperparameter changes over a run, and epsilon from worker to worker."""

import math

from ps_dqn.config import Exploration, Learning


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


def ladder(epsilon: float, worker: int, num_workers: int) -> float:
    """Worker i of N explores with epsilon^(1 + 7i/(N-1)) (Horgan et al. 2018, arXiv:1803.00933).

    Args:
        epsilon: the schedule's value.
        worker: i, counted from 0.
        num_workers: N; a single worker uses epsilon itself.
    """
    return float(epsilon ** (1.0 + 7.0 * worker / max(num_workers - 1, 1)))


def learning_rate(options: Learning, env_steps: int) -> float:
    """The step size after so many environment steps of all workers."""
    return value(
        options.learning_rate_schedule,
        options.learning_rate,
        options.learning_rate_end,
        options.learning_rate_decay_steps,
        env_steps,
    )


def epsilon(options: Exploration, env_steps: int, worker: int, num_workers: int) -> float:
    """How often a worker acts at random after so many environment steps of all workers.

    Args:
        options: the schedule, and whether it differs from worker to worker.
        env_steps: of all workers.
        worker: index.
        num_workers: of the run.
    """
    scheduled = value(
        options.epsilon_schedule,
        options.epsilon_start,
        options.epsilon_end,
        options.epsilon_decay_steps,
        env_steps,
    )
    return ladder(scheduled, worker, num_workers) if options.epsilon_ladder else scheduled
