"""The parameters on the parameter servers, as the coordinator and its closures reach them.

A network's parameters are one flat float32 vector of P numbers, cut into one shard for each
parameter server, sizes equal to within one. `shard.py` says what a server does with its own;
here are the calls. With several servers a push takes three of them: every server gets its part
(`stage`), the first decides and writes its log (`decide`), the others do as the log says
(`follow`). With one, all of that is one call.
"""

import itertools
import json
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.parameter_server import standing
from ps_dqn.parameter_server.creation import Creation, Sizes
from ps_dqn.parameter_server.rule import Rule
from ps_dqn.state import Counters, Segment, State
from ps_dqn.store import Frozen, Store, this_worker
from ps_dqn.wire import asking, bridge, messages, parcels
from ps_dqn.wire.messages import Kind, Verdict

_MESSAGE = tf.TensorSpec([None], tf.uint8)
_NUMBERS = tf.TensorSpec([None], tf.int64)
_NUMBER = tf.TensorSpec([], tf.int64)
_MARK = tf.TensorSpec([], tf.int32)
_TEXT = tf.TensorSpec([], tf.string)


class ParameterStore(Store):
    """The parameter servers of one run."""

    keeps_frozen, holder = True, "a parameter server"

    def __init__(self, config: Config, num_ps: int, num_workers: int):
        """Names a session; the cluster must be connected.

        Args:
            config: says how pushes are applied and how the target follows.
            num_ps: parameter servers to spread over.
            num_workers: workers that push.
        """
        self.session = self.log_id = secrets.randbits(62)
        self.num_ps, self.num_workers = num_ps, num_workers
        self._devices = [f"/job:ps/replica:0/task:{i}/device:CPU:0" for i in range(num_ps)]
        self._config = config

    def create(
        self,
        run_id: str,
        initial: np.ndarray,
        state: State | None = None,
        num_moments: int = 0,
        segments: Sequence[Segment] = (),
    ) -> None:
        """Gives every server its part: see `Store`."""
        self._cut(len(initial))
        for i, (start, stop) in enumerate(itertools.pairwise(self._starts)):
            asking.clear_error(self._devices[i], bridge.server(i))  # of an earlier run
            sizes = Sizes(self.num_ps, self.num_workers, len(initial), start, num_moments)
            part = sizes, initial, segments, stop
            given = Creation.of(self.session, self._config, *part, run_id)
            self._ask("create", i, given, [_MARK])
        if state is not None:
            self.restore(state)
        for i in range(self.num_ps):
            self._ask("name", i, [self._run(run_id, len(initial))], [_MARK])

    def held(self, run_id: str, num_parameters: int) -> State | None:
        """What the servers hold of an earlier session, if all of them do: see `Store`."""
        if self.errors():
            return None
        found = {self._ask("run", i, [], [_TEXT])[0] for i in range(self.num_ps)}
        if found != {self._run(run_id, num_parameters).encode()}:
            return None
        self._cut(num_parameters)
        return self.state()

    def _run(self, run_id: str, num_parameters: int) -> str:
        """What servers hold that are in a session of this run, of as many tasks."""
        sizes = [self.num_ps, self.num_workers, num_parameters]
        return json.dumps({"run_id": run_id, "sizes": sizes, "config": self._config.to_json()})

    def _cut(self, num_parameters: int) -> None:
        self.sizes = messages.shard_sizes(num_parameters, self.num_ps)
        self._starts = np.cumsum([0, *self.sizes])

    # In closures, which are traced by the coordinator and run on workers.

    def pull(self, requests: tf.Tensor) -> list[tf.Tensor]:
        """Asks every server for its part: see `Store`."""
        return [self._call("pull", i, [requests[i]], _MESSAGE) for i in range(self.num_ps)]

    def push(self, header: tf.Tensor, packed: Sequence[tf.Tensor]) -> tf.Tensor:
        """Gives every server its part; the first decides: see `Store`."""
        if self.num_ps == 1:
            return self._verdict(self._call("push", 0, [header, *packed], _NUMBERS))
        lacking = [
            self._call("stage", i, [header, message], _NUMBER) for i, message in enumerate(packed)
        ]
        request = tf.concat([header, [tf.reduce_min(tf.stack(lacking))]], axis=0)
        return self._followed(self._call("decide", 0, [request], _NUMBERS))

    def freeze(self) -> Frozen:
        """Freezes the average, which every server keeps: see `Store`."""
        counters = self._mark(Kind.FREEZE, tf.constant(messages.NO_WORKER, tf.int64))
        return Frozen(this_worker(), tf.constant(0, tf.int64), counters, tf.zeros([0]))

    def leave(self, worker: tf.Tensor) -> tf.Tensor:
        """Lets rounds go on without a worker, int64 [], until it pushes; the counters [fields]."""
        return self._mark(Kind.AWAY, worker)

    def pull_frozen(self, after: tf.Tensor, brought: tf.Tensor) -> tf.Tensor:
        """The average frozen last: see `Store`."""
        with tf.control_dependencies([after]):
            parts = [
                self._call("frozen", i, [], tf.TensorSpec([size], tf.float32))
                for i, size in enumerate(self.sizes)
            ]
        return tf.concat(parts, axis=0)

    def _mark(self, kind: Kind, worker: tf.Tensor) -> tf.Tensor:
        """Writes an entry that is no push; the counters after it, int64 [fields]."""
        lacking = [self._call("next_index", i, [], _NUMBER) for i in range(self.num_ps)]
        known = tf.reduce_min(tf.stack(lacking))
        numbers = [tf.constant(int(kind), tf.int32), known, worker]
        verdict = self._followed(self._call("mark", 0, numbers, _NUMBERS))
        return verdict[-len(Counters._fields) :]

    def _call(
        self, method: str, server: int, inputs: Sequence[Any], output: tf.TensorSpec
    ) -> tf.Tensor:
        """A call of one server, at the same time as those of the others."""
        with tf.device(self._devices[server]):
            [result] = bridge.call(method, bridge.server(server), inputs, [output], in_order=False)
        return result

    def _followed(self, verdict: tf.Tensor) -> tf.Tensor:
        """Brings a verdict's entries to the servers beside the first; the `Verdict`."""
        # By way of this worker, so that servers need not reach each other.
        verdict = tf.ensure_shape(verdict, [None])
        followed = [self._call("follow", i, [verdict], _NUMBER) for i in range(1, self.num_ps)]
        with tf.control_dependencies(followed):
            return self._verdict(tf.identity(verdict))

    @staticmethod
    def _verdict(numbers: tf.Tensor) -> tf.Tensor:
        # Nothing at all where the server failed; then the worker says so.
        return tf.ensure_shape(numbers, [None])[: len(Verdict._fields)]

    # On the coordinator.

    def counters(self) -> Counters:
        """Where the run is."""
        [tally] = self.tallies(first_only=True)
        return Counters(*(tally[name] for name in Counters._fields))

    def frozen(self) -> np.ndarray:
        """The average frozen last, float32 [P]."""
        parts = [
            self._ask("frozen", i, [], [tf.TensorSpec([size], tf.float32)])[0]
            for i, size in enumerate(self.sizes)
        ]
        return np.concatenate(parts)

    def state(self) -> State:
        """Everything at one point of the log, for a checkpoint; completes half-made pushes."""
        self._mark_now(Kind.CHECKPOINT)
        states = [parcels.fetch(self._asker(i), size) for i, size in enumerate(self.sizes)]
        _, numbers, log = states[0]  # the same on all
        return State.from_arrays(np.concatenate([each[0] for each in states], 1), numbers, log)

    def restore(self, state: State) -> None:
        """Puts a state back; before the first push.

        Raises:
            ValueError: it is of another network or another way of applying pushes.
        """
        Rule(self._config).check(state, int(self._starts[-1]))
        vectors, numbers, text = state.as_arrays()
        for i, part in enumerate(np.split(vectors, self._starts[1:-1], axis=1)):
            parcels.give(self._asker(i), part, numbers, text)
        self.log_id = standing.log_id(state.log) if state.log else self.session

    def push_now(self, header: np.ndarray, packed: Sequence[np.ndarray]) -> Verdict:
        """As `push`, from the coordinator: a push that a worker has kept."""
        if self.num_ps == 1:
            verdict = self._ask("push", 0, [header, *packed], [_NUMBERS])[0]
        else:
            lacking = [
                int(self._ask("stage", i, [header, message], [_NUMBER])[0])
                for i, message in enumerate(packed)
            ]
            request = np.append(header, min(lacking))
            verdict = self._ask("decide", 0, [request], [_NUMBERS])[0]
            self._bring(verdict)
        return messages.unpack(Verdict, verdict)

    def catch_up(self) -> None:
        """Completes what a worker that died has left half-made: every server reads the log."""
        if self.num_ps > 1:
            known = np.int64(min(self._next_indices()))
            self._bring(self._ask("entries", 0, [known], [_NUMBERS])[0])

    def go_on(self, worker: int = messages.NO_WORKER) -> list[int]:
        """Rounds no longer wait for a worker, or for all whose push the present one lacks.

        Returns:
            All workers that rounds go on without.
        """
        self._mark_now(Kind.AWAY, worker)
        return list(self.tallies(first_only=True)[0]["absent"])

    def is_newest(self, frozen: Frozen) -> bool:
        """Always: workers hold nothing."""
        return True

    def take_in(self, worker: int) -> None:
        """Nothing is to be done: the servers see that it pushes."""

    def halt(self) -> None:
        """Ends the run: closures end at their next pull."""
        for i in range(self.num_ps):
            self._ask("halt", i, [], [_MARK])

    def tallies(self, first_only: bool = False) -> list[dict[str, Any]]:
        """`Shard.tally` of each server: equal on all of them once they have caught up."""
        servers = range(1 if first_only else self.num_ps)
        return [json.loads(self._ask("tally", i, [], [_TEXT])[0]) for i in servers]

    def ledgers(self) -> list[dict[str, Any]]:
        """`ServerLedger.as_dict` of each server."""
        ledgers = [self._ask("ledger", i, [], [_TEXT])[0] for i in range(self.num_ps)]
        return [json.loads(each) for each in ledgers]

    def errors(self) -> str:
        """The tracebacks of parameter servers that failed, or an empty text."""
        found = []
        for i, device in enumerate(self._devices):
            text = asking.clear_error(device, bridge.server(i))
            if text:
                found.append(f"parameter server {i}:\n{text}")
        return "\n".join(found)

    def _next_indices(self) -> list[int]:
        return [int(self._ask("next_index", i, [], [_NUMBER])[0]) for i in range(self.num_ps)]

    def _mark_now(self, kind: Kind, worker: int = messages.NO_WORKER) -> None:
        """Writes an entry on all servers."""
        known = np.int64(min(self._next_indices()))
        entry = [np.int32(kind), known, np.int64(worker)]
        self._bring(self._ask("mark", 0, entry, [_NUMBERS])[0])

    def _bring(self, verdict: np.ndarray) -> None:
        for i in range(1, self.num_ps):
            self._ask("follow", i, [verdict], [_NUMBER])

    def _asker(self, server: int) -> parcels.Ask:
        return lambda method, *what: self._ask(method, server, *what)

    def _ask(
        self, method: str, server: int, inputs: Sequence[Any], outputs: Sequence[tf.TensorSpec]
    ) -> list[Any]:
        """Calls a server at once, from the coordinator.

        Raises:
            ClusterLostError: it does not answer.
            WorkerError: its Python failed.
        """
        return asking.ask(self._devices[server], bridge.server(server), method, inputs, outputs)
