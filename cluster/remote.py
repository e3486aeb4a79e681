"""Waits for tasks that others start."""

import concurrent.futures
import math
import time
from collections.abc import Callable

from ps_dqn.cluster import health
from ps_dqn.cluster.arrivals import tasks_there
from ps_dqn.cluster.spec import ClusterSpec, Task

# From one look at the tasks that are missing to the next, and how long one may take to answer
# (seconds).
PERIOD, TIMEOUT = 0.25, 2.0
# From one line about them to the next: where fewer are missing, and where as many are (seconds).
PATIENCE, REMINDER = 2.0, 30.0
# Tasks that are looked at at the same time: one whose node is gone takes the whole of TIMEOUT.
AT_ONCE = 32


def wait_until_serving(
    spec: ClusterSpec,
    say: Callable[[str], None],
    least_workers: int,
    limit: float = math.inf,
    advice: str = "",
) -> tuple[int, ...]:
    """Returns once every parameter server of a cluster answers, and enough workers do.

    TensorFlow would wait too, but in C++, where no signal is heard, and without a word about whom.

    Args:
        spec: the cluster.
        say: takes a line for people whenever fewer are missing, and now and then.
        least_workers: how many workers are enough.
        limit: how long they may take (seconds).
        advice: ends a line about workers alone.

    Returns:
        The indices of the workers that answer.

    Raises:
        TimeoutError: they took longer; says which.
    """
    missing = list(spec.tasks())
    new: list[Task] = []  # that people have not heard of
    started = said_at = time.monotonic()
    said = len(missing) + 1
    while True:
        before = missing
        missing = silent(spec, missing)
        if _are_enough(spec, missing, least_workers):  # some may have answered long ago
            missing = silent(spec, list(spec.tasks()))
            if _are_enough(spec, missing, least_workers):
                return tuple(
                    i for i in range(len(spec.workers)) if Task("worker", i) not in missing
                )
        new += [task for task in before if task not in missing]
        now = time.monotonic()
        if now - started > limit:
            raise TimeoutError(f"{_named(spec, missing)} did not serve within {limit:g} s")
        if now - said_at > (PATIENCE if len(missing) < said else REMINDER):
            are_workers = all(task.job == "worker" for task in missing)
            if new:
                say(tasks_there(spec, new, len(spec.tasks()) - len(missing), len(spec.tasks())))
            say(f"waiting for {_named(spec, missing)}{advice if are_workers else ''}")
            said, said_at, new = len(missing), now, []
        time.sleep(PERIOD)


def _are_enough(spec: ClusterSpec, missing: list[Task], least_workers: int) -> bool:
    """Whether workers alone are missing, and not too many of them."""
    are_workers = all(task.job == "worker" for task in missing)
    return are_workers and len(spec.workers) - len(missing) >= least_workers


def silent(spec: ClusterSpec, tasks: list[Task]) -> list[Task]:
    """Those of the tasks that do not answer."""

    def answers(task: Task) -> bool:
        return health.answers(spec.addresses(task.job)[task.index], TIMEOUT)

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        are_there = pool.map(answers, tasks)
        return [task for task, is_there in zip(tasks, are_there, strict=True) if not is_there]


def _named(spec: ClusterSpec, missing: list[Task]) -> str:
    first = missing[0]
    others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"{first} at {spec.addresses(first.job)[first.index]}{others}"
