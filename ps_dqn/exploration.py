"""How much each worker explores."""


def ladder(epsilon: float, worker: int, num_workers: int) -> float:
    """Worker i of N explores with epsilon^(1 + 7i/(N-1)) (Horgan et al. 2018, arXiv:1803.00933).

    Args:
        epsilon: the schedule's value.
        worker: i, counted from 0.
        num_workers: N; a single worker uses epsilon itself.
    """
    return float(epsilon ** (1.0 + 7.0 * worker / max(num_workers - 1, 1)))
