"""Waits for tasks that others start."""

import time
from collections.abc import Callable

from cluster import health
from cluster.spec import ClusterSpec, Task

# From one look at the tasks that are missing to the next, and how long one may take to answer
# (seconds).
PERIOD, TIMEOUT = 0.25, 2.0
# From one line about them to the next: where fewer are missing, and where as many are (seconds).
PATIENCE, REMINDER = 2.0, 30.0


def wait_until_serving(spec: ClusterSpec, say: Callable[[str], None]) -> None:
    """Returns once every worker and parameter server of a cluster answers.

    TensorFlow would wait too, but in C++, where no signal is heard, and without a word about whom.

    Args:
        spec: the cluster.
        say: takes a line for people whenever fewer are missing, and now and then.
    """
    missing = list(spec.tasks())
    said, said_at = len(missing) + 1, time.monotonic()
    while True:
        missing = [task for task in missing if not _answers(spec, task)]
        if not missing:
            return
        now = time.monotonic()
        if now - said_at > (PATIENCE if len(missing) < said else REMINDER):
            say(f"waiting for {_named(spec, missing)}")
            said, said_at = len(missing), now
        time.sleep(PERIOD)


def _answers(spec: ClusterSpec, task: Task) -> bool:
    return health.answers(spec.addresses(task.job)[task.index], TIMEOUT)


def _named(spec: ClusterSpec, missing: list[Task]) -> str:
    first = missing[0]
    others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"{first} at {spec.addresses(first.job)[first.index]}{others}"
