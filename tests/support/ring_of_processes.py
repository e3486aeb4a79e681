"""Real workers that add up by TensorFlow's collectives: what is left of them when one dies.

A program, which is forked from a process that has imported TensorFlow: prints what each step gave.
"""

import json
import multiprocessing
import os
import signal
import threading
import time
from typing import Any

import numpy as np

SIZE = 3000
PATIENCE = 60.0


def work(worker: int, orders) -> None:
    """A member: does what it is told until it is told nothing more."""
    import tensorflow as tf

    from ps_dqn.all_reduce.group import CollectiveGroup

    # As in a worker: a server of another cluster is there before.
    spec = tf.train.ClusterSpec({"worker": {0: "localhost:0"}})
    _server = tf.distribute.Server(spec, job_name="worker", task_index=0)
    group = CollectiveGroup(worker)
    held = tf.Variable(np.float32([worker]))
    double = tf.function(lambda: held.assign_add(held), autograph=False)
    orders.send(group.port)
    aborting: threading.Timer | None = None
    while (order := orders.recv()) is not None:
        kind, *given = order
        try:
            if kind == "form":
                if aborting is not None:
                    aborting.join()  # or it would abort what is formed now
                group.form(*given)
                orders.send(True)
            elif kind == "abort in":
                aborting = threading.Timer(given[0], group.abort)
                aborting.start()
                orders.send(True)
            else:
                vector = np.full(SIZE, 1.0 + worker, np.float32)
                total = [group.reduce(vector) for _ in range(given[0])][-1]
                double()
                assert np.ptp(total) == 0
                orders.send([float(total[0]), float(held.numpy()[0])])
        except tf.errors.OpError as error:
            orders.send(type(error).__name__)
    os._exit(0)


class Members:
    """The processes."""

    def __init__(self):
        self._fork = multiprocessing.get_context("fork")
        self.processes, self._pipes, self.ports = {}, {}, {}

    def start(self, worker: int) -> None:
        ours, theirs = self._fork.Pipe()
        process = self._fork.Process(target=work, args=(worker, theirs), daemon=True)
        process.start()
        self.processes[worker], self._pipes[worker] = process, ours

    def serve(self, *workers: int) -> None:
        for worker in workers:
            self.ports[worker] = self.answer(worker)

    def tell(self, worker: int, *order) -> None:
        self._pipes[worker].send(order)

    def answer(self, worker: int):
        assert self._pipes[worker].poll(PATIENCE), f"worker {worker} says nothing"
        return self._pipes[worker].recv()

    def ask(self, workers, *order) -> list:
        for worker in workers:
            self.tell(worker, *order)
        return [self.answer(worker) for worker in workers]

    def form(self, key: int, *workers: int) -> None:
        addresses = {worker: f"localhost:{self.ports[worker]}" for worker in workers}
        assert all(self.ask(workers, "form", key, addresses))


def main() -> None:
    members = Members()
    try:
        print(json.dumps(story(members)))
    finally:
        for process in members.processes.values():
            process.kill()  # one that stands still hears of nothing else
            process.join()


def story(members: Members) -> dict[str, Any]:
    """What each step gave."""
    found: dict[str, Any] = {}
    for worker in range(3):
        members.start(worker)
    members.serve(0, 1, 2)
    members.form(1, 0, 1, 2)
    found["all"] = members.ask([0, 1, 2], "add", 20)

    for worker in (0, 2):
        members.tell(worker, "add", 100_000_000)
    died = time.monotonic()
    members.processes[1].kill()
    found["one died"] = [members.answer(worker) for worker in (0, 2)]
    found["noticed after"] = time.monotonic() - died
    members.form(2, 0, 2)
    found["two are left"] = members.ask([0, 2], "add", 5)

    members.start(1)
    members.serve(1)
    members.form(3, 0, 1, 2)
    found["one is back"] = members.ask([0, 1, 2], "add", 5)

    os.kill(members.processes[0].pid, signal.SIGSTOP)
    members.ask([1, 2], "abort in", 0.5)
    found["the first stands still"] = members.ask([1, 2], "add", 1)
    members.form(4, 1, 2)
    found["without it"] = members.ask([1, 2], "add", 5)
    os.kill(members.processes[0].pid, signal.SIGCONT)
    members.form(5, 0, 1, 2)
    found["with it"] = members.ask([0, 1, 2], "add", 5)
    return found


if __name__ == "__main__":
    main()
