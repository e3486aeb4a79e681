"""Kills workers in the middle of pushes, and counts; `test_exactly_once.py` runs this.

Arguments: a folder for logs, how many parameter servers, how often to kill, and a seed. Prints one
line of JSON.
"""

import faulthandler
import functools
import os
import pathlib
import random
import signal
import sys
import time
from typing import Any

import numpy as np
import tensorflow as tf

from ps_dqn.cluster import server
from ps_dqn.cluster.ports import on_this_machine
from ps_dqn.cluster.spec import ClusterSpec, Placement, Task, TaskOptions
from ps_dqn.coordinator.connecting import connection
from ps_dqn.coordinator.scheduling.dispatch import LOST, Outcome, Schedule
from ps_dqn.parameter_server.store import ParameterStore
from ps_dqn.wire import bridge, failures
from ps_dqn.wire.messages import PullRequest
from support.counted_pushes import (
    CONFIG,
    INITIAL,
    LATEST_SECONDS,
    PART,
    PUSHES,
    Pusher,
    SlowServer,
    differences,
)
from support.processes import Nursery, accepts, until
from support.programs import end_with

NUM_WORKERS, WINDOW = 4, 2
SILENCE_SECONDS = 60.0
INT64, BYTES = tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.uint8)
REQUESTS = tf.TensorSpec([None, len(PullRequest._fields)], tf.int64)
MARK = tf.TensorSpec([], tf.int32)


def trace(store: ParameterStore) -> Any:
    """A closure of its first ticket and the oldest: pulls and pushes, as `closures` does.

    Returns:
        The worker, its process and an error text.
    """

    def closure(tickets: tf.Tensor) -> Any:
        worker = tf.distribute.coordinator.experimental_get_current_worker_index()
        number = tf.TensorSpec([], tf.int64)
        session = tf.constant(store.session, tf.int64)
        pid, requests = bridge.call("begin", worker, [session, tickets], [number, REQUESTS])

        def exchange(i: tf.Tensor, requests: tf.Tensor, ok: tf.Tensor) -> Any:
            outputs = [MARK, INT64, *[BYTES] * store.num_ps]
            ok, header, *packed = bridge.call("pack", worker, store.pull(requests), outputs)

            def push() -> tf.Tensor:
                return bridge.call("pushed", worker, [store.push(header, packed)], [REQUESTS])[0]

            return i + 1, tf.cond(ok > 0, push, lambda: requests), ok

        _, _, ok = tf.while_loop(
            lambda i, requests, ok: (i < PUSHES) & (ok > 0),
            exchange,
            (tf.constant(0), requests, tf.constant(1)),
            shape_invariants=(tf.TensorShape([]), REQUESTS.shape, tf.TensorShape([])),
            parallel_iterations=1,
        )
        return worker, pid, bridge.take_error(worker, after=[ok])

    return tf.function(closure, autograph=False).get_concrete_function(tf.TensorSpec([2], tf.int64))


class Killer:
    """Keeps closures going on a cluster whose workers it kills and replaces."""

    def __init__(
        self,
        store: ParameterStore,
        schedule: Schedule,
        nursery: Nursery,
        pids: list[int],
        seed: int,
    ):
        self._store, self._schedule, self._nursery = store, schedule, nursery
        self._closure = trace(store)
        self._pids = pids  # of the workers
        self._random = random.Random(seed)
        self._at_work: set[int] = set()  # workers that have ended a closure in this life
        self._next_ticket, self._tickets = 1, []  # as the coordinator gives them out
        self.kills = self.lost_results = self.all_dead = self.behind = self.hung = 0

    @property
    def tickets(self) -> int:
        """How many were given out: 1, 2, … so many."""
        return self._next_ticket - 1

    def kill(self, times: int) -> None:
        """Until so many workers were killed, and everything scheduled has ended."""
        results = 0
        while self.kills < times:
            while self._schedule.outstanding("push") < NUM_WORKERS * WINDOW:
                self._submit()
            self._hear()
            results -= 1
            if results <= 0 and len(self._at_work) > 1:
                # So that it may be any moment of a closure.
                time.sleep(self._random.uniform(0, 2 * LATEST_SECONDS))
                if self._random.random() < 0.4:
                    self._kill_all()
                else:
                    self._kill_some()
                results = self._random.randint(1, 10)
        self._drain()

    def push_once_more(self) -> None:
        """One closure by itself: it tells the servers that all others have ended."""
        self._submit()
        self._drain()

    def _start(self, worker: int) -> None:
        self._pids[worker] = self._nursery.start(Task("worker", worker))

    def _drain(self) -> None:
        while self._schedule.outstanding("push"):
            self._hear()

    def _submit(self) -> None:
        ticket = self._next_ticket
        self._next_ticket += PUSHES
        self._tickets.append(ticket)
        tickets = np.array([ticket, self._tickets[0]], np.int64)
        self._schedule.submit("push", self._closure, [tickets])

    def _hear(self) -> None:
        outcome = self._next()
        if outcome is None and self._end_hung():
            outcome = self._next()
        if outcome is None:
            raise RuntimeError(f"no closure has ended for {SILENCE_SECONDS} s")
        self._tickets.remove(int(outcome.args[0][0]))
        if outcome.value is None:
            self.lost_results += 1
            self._store.catch_up()
            return
        worker, pid, error = outcome.value
        failures.check_error(error)
        if pid == self._pids[int(worker)]:  # not of one that was killed since
            self._at_work.add(int(worker))

    def _next(self) -> Outcome | None:
        """Of a closure; None where none has ended for long."""
        outcome = self._schedule.next(SILENCE_SECONDS)
        while outcome is not None and outcome.kind == LOST:
            outcome = self._schedule.next(SILENCE_SECONDS)
        return outcome

    def _end_hung(self) -> bool:
        """Starts workers anew whose closures do not end, as the watchdog of a run does."""
        hung = list(self._schedule.in_flight.seconds())
        print(f"workers whose closures do not end: {hung}", file=sys.stderr, flush=True)
        faulthandler.dump_traceback()
        for worker in hung:
            self._kill(worker)
            self._start(worker)
        self.hung += len(hung)
        return bool(hung)

    def _kill_some(self) -> None:
        """One or more; one stays, so that the work goes on around those that are lost."""
        count = self._random.randint(1, len(self._at_work) - 1)
        victims = self._random.sample(sorted(self._at_work), count)
        for worker in victims:
            self._kill(worker)
            if self._random.random() < 0.5:
                time.sleep(self._random.uniform(0, LATEST_SECONDS))
        for worker in victims:
            self._start(worker)

    def _kill_all(self) -> None:
        """Nobody is left to complete what they leave half-made, and so it shows."""
        for worker in range(NUM_WORKERS):
            self._kill(worker)
        self.all_dead += 1
        self.behind += not self._agree()

        def caught_up() -> bool:
            self._store.catch_up()
            return self._agree()

        # Else those who come next do it.
        if self._random.random() < 0.5:
            # At once, but that a server may still be answering a dead worker's last call.
            until(caught_up, 60, "the servers to agree with no worker alive")
        for worker in range(NUM_WORKERS):
            self._start(worker)

    def _kill(self, worker: int) -> None:
        os.kill(self._pids[worker], signal.SIGKILL)
        self._at_work.discard(worker)
        self.kills += 1

    def _agree(self) -> bool:
        names = ("entries", "version", "updates", "env_steps", "applied", "sum_of_tickets")
        return len({tuple(tally[name] for name in names) for tally in self._store.tallies()}) == 1


def serve(spec: ClusterSpec, diary: pathlib.Path, task: Task) -> None:
    def host(number: int) -> bridge.Host:
        return Pusher(number, len(spec.ps), diary) if number >= 0 else SlowServer()

    bridge.install(host)
    server.serve(spec, task, TaskOptions())


def main(folder: pathlib.Path, num_ps: int, kills: int, seed: int) -> dict[str, Any]:
    started = time.monotonic()
    spec = on_this_machine(num_ps, NUM_WORKERS)
    diary = folder / "diary"
    with Nursery(lambda task: serve(spec, diary, task), folder) as nursery:
        pids = [nursery.start(task) for task in spec.tasks()]
        for address in (*spec.ps, *spec.workers):
            until(functools.partial(accepts, address), 60, f"a server at {address}")
        connected = connection.connect(Placement("local", spec, "fork", 1, 2))
        initial = np.full(num_ps * PART, INITIAL, np.float32)
        store = ParameterStore(CONFIG, num_ps, NUM_WORKERS)
        store.create("run", initial)
        schedule = Schedule(connected.coordinator, NUM_WORKERS * WINDOW, in_order=False)
        killer = Killer(store, schedule, nursery, pids[num_ps:], seed)
        try:
            killer.kill(kills)
            killer.push_once_more()
        except Exception:
            # Which thread waits for what; first, for a server that hangs is not asked in time.
            faulthandler.dump_traceback()
            held, there = schedule.in_flight.seconds(), connected.members.present
            print(f"closures: {held}; workers: {sorted(there)}", file=sys.stderr)
            print(store.errors(), file=sys.stderr)
            raise
        store.catch_up()
        tallies = store.tallies()
        notes = [line.split()[0] for line in diary.read_text().splitlines()]
        return {
            "kills": killer.kills,
            "closures": killer.tickets // PUSHES,
            "run_again": notes.count("begin") - killer.tickets // PUSHES,
            "pushes": killer.tickets,
            "cut_in_a_push": notes.count("pack") - notes.count("pushed"),
            "duplicates": store.ledgers()[0]["duplicates"],
            "lost_results": killer.lost_results,
            "all_dead": killer.all_dead,
            "then_behind": killer.behind,
            "hung": killer.hung,
            "differences": differences(store, tallies, killer.tickets, NUM_WORKERS),
            "tallies": tallies,
            "seconds": round(time.monotonic() - started, 1),
        }


if __name__ == "__main__":
    end_with(lambda: main(pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:])))
