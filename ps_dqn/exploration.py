"""How much workers explore, and how fast anything else declines over a run."""


def linear(start: float, end: float, length: int, step: int) -> float:
    """A value that goes from `start` to `end` in a straight line and stays there.

    Args:
        start: the value at step 0.
        end: the value from step `length` on.
        length: steps of the way.
        step: where we are.
    """
    return start + min(step / length, 1.0) * (end - start)


def ladder(epsilon: float, worker: int, num_workers: int) -> float:
    """Worker i of N explores with epsilon^(1 + 7i/(N-1)) (Horgan et al. 2018, arXiv:1803.00933).

    Args:
        epsilon: the schedule's value.
        worker: i, counted from 0.
        num_workers: N; a single worker uses epsilon itself.
    """
    return float(epsilon ** (1.0 + 7.0 * worker / max(num_workers - 1, 1)))
