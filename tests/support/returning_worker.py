"""One worker is gone for good as another comes back; `test_returning_worker.py` runs this.

Arguments: a folder for logs. Prints one line of JSON.
"""

import functools
import os
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from ps_dqn.cluster import server
from ps_dqn.cluster.ports import on_this_machine
from ps_dqn.cluster.spec import Placement, Task, TaskOptions
from ps_dqn.coordinator.connecting import connection
from ps_dqn.coordinator.scheduling.dispatch import LOST, Schedule
from support.processes import Nursery, accepts, until
from support.programs import end_with

NUM_WORKERS = 3
BACK, GONE = 0, 1  # the worker that comes back, and the one that does not
SECONDS = 60.0


class Load:
    """Closures that keep all workers busy."""

    def __init__(self, schedule: Schedule):
        self._schedule = schedule
        index = tf.distribute.coordinator.experimental_get_current_worker_index
        self._closure = tf.function(lambda: (index(),)).get_concrete_function()

    def until(self, is_so: Callable[[int | None], bool], what: str) -> float:
        """Until something holds, asked after each result with its worker; the seconds it took."""
        began = time.monotonic()
        while time.monotonic() - began < SECONDS:
            while self._schedule.outstanding("any") < 2 * NUM_WORKERS:
                self._schedule.submit("any", self._closure)
            outcome = self._schedule.next(0.1)
            has_result = outcome is not None and outcome.kind != LOST and outcome.value is not None
            if is_so(int(outcome.value[0]) if outcome is not None and has_result else None):
                return time.monotonic() - began
        raise TimeoutError(f"not in {SECONDS:.0f} s: {what}")

    def forget_results(self) -> None:
        """Results that have come until now are of no worker that comes later."""
        while self._schedule.next(0.0) is not None:
            pass


def when_it_connects() -> threading.Event:
    """Is set as TensorFlow begins to connect anew."""
    begun, connect = threading.Event(), context.Context.update_server_def

    def update(self: context.Context, *args: Any) -> None:
        begun.set()
        connect(self, *args)

    context.Context.update_server_def = update
    return begun


def main(folder: pathlib.Path) -> dict[str, Any]:
    spec = on_this_machine(1, NUM_WORKERS)
    with Nursery(lambda task: server.serve(spec, task, TaskOptions()), folder) as nursery:
        tasks = {task: nursery.start(task) for task in spec.tasks()}
        for address in (*spec.ps, *spec.workers):
            until(functools.partial(accepts, address), SECONDS, f"a server at {address}")
        coordinator, members = connection.connect(Placement("local", spec, "fork", 1, 2))
        load = Load(Schedule(coordinator, 2 * NUM_WORKERS, in_order=False))
        seen: set[int | None] = {None}

        def all_work(worker: int | None) -> bool:
            seen.add(worker)
            return len(seen) == 1 + NUM_WORKERS

        load.until(all_work, "all work")

        os.kill(tasks[Task("worker", GONE)], signal.SIGSTOP)  # it is silent
        os.kill(tasks[Task("worker", BACK)], signal.SIGKILL)
        load.until(lambda _: BACK not in members.present, "the first is missed")
        load.forget_results()
        connecting = when_it_connects()
        nursery.start(Task("worker", BACK))
        load.until(lambda _: connecting.is_set(), "TensorFlow connects to the first")
        os.kill(tasks[Task("worker", GONE)], signal.SIGKILL)
        back = load.until(lambda worker: worker == BACK, "the first works again")
        present = sorted(members.present)

        nursery.start(Task("worker", GONE))
        load.until(lambda worker: worker == GONE, "the second, too")
        return {"seconds": back, "present": present, "at_the_end": sorted(members.present)}


if __name__ == "__main__":
    end_with(lambda: main(pathlib.Path(sys.argv[1])))
