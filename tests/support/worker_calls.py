"""A `WorkerHost`, called as the closures call it, against real shards but without a cluster."""

import pathlib
from typing import Any, NamedTuple

import numpy as np
from test_actor import SMALL

from ps_dqn.config import Config
from ps_dqn.parameter_server.shard import Shard
from ps_dqn.state import Counters, State
from ps_dqn.wire import messages
from ps_dqn.wire.messages import PullRequest, Status, Verdict
from ps_dqn.wire.report import Report
from ps_dqn.worker.host import WorkerHost

SIZE, SLOTS = 5, 2
RUN = 77


class Pulled(NamedTuple):
    """What the host's `pulled` returns."""

    status: Any
    online: Any
    target: Any
    slots: Any
    steps: Any
    rate: Any
    epsilon: Any
    seed: Any
    observations: Any
    state: Any
    more: Any


class Worker:
    """A `WorkerHost` and the parameter servers that it exchanges with, as closures call them."""

    def __init__(
        self,
        index: int = 0,
        num_workers: int = 1,
        num_ps: int = 2,
        worker_dir: pathlib.Path | None = None,
        **values: Any,
    ):
        self.config = Config.from_values(SMALL | values)
        self._num_workers, self._num_ps = num_workers, num_ps
        self.shards = [
            Shard(self.config, RUN, num_ps, num_workers, np.full(size, 1.0, np.float32))
            for size in messages.shard_sizes(SIZE, num_ps)
        ]
        self.host = WorkerHost(index, worker_dir)
        self.ticket, self.oldest = 1 + 1000 * index, 0

    def call(self, method: str, *arguments: Any) -> Any:
        return self.host.methods[method](*arguments)

    def begin(self, run: int = RUN) -> np.ndarray:
        text = self.config.to_json().encode()
        shape = np.array([self._num_workers, self._num_ps, SIZE, SLOTS])
        tickets = np.array([self.ticket, self.oldest])
        self.ticket += 10
        [self._requests] = self.call("begin", np.int64(run), b"a_run", text, shape, tickets)
        return self._requests

    def pull(self) -> Pulled:
        pairs = zip(self.shards, self._requests, strict=True)
        pulled = self.call("pulled", *[shard.pull(request) for shard, request in pairs])
        return Pulled(*pulled)

    def collect(self, action: int = 1, steps: int | None = None) -> int:
        """Steps until the host has enough, or so often; how often."""
        made, more = 0, 1
        state = np.zeros((2, self.config.state_size), np.float32)
        while more and made != steps:
            *_, more = self.call("step", np.full(2, action, np.int32), state)
            made += 1
        return made

    def pack(
        self, vector: Any, slots: float = 0.0, loss: float = 1.0, errors: Any = 0.5
    ) -> list[np.ndarray]:
        sums = np.array([loss, 3.0, 5.0], np.float32)
        drawn = (self.config.parameter_server.local_updates, self.config.learning.batch_size)
        self.packed = self.call(
            "pack",
            np.broadcast_to(np.float32(vector), SIZE).copy(),
            np.full((SLOTS, SIZE), slots, np.float32),
            sums,
            np.broadcast_to(np.float32(errors), drawn),
        )
        return self.packed

    def push(self) -> Verdict:
        """Sends what was packed, as `ParameterStore.push` does with several servers."""
        header, *parts = self.packed
        pairs = zip(self.shards, parts, strict=True)
        known = min(shard.stage(part) for shard, part in pairs)
        numbers = self.shards[0].decide(np.append(header, known))
        for shard in self.shards[1:]:
            shard.follow(numbers)
        verdict = messages.unpack(Verdict, numbers)
        [self._requests] = self.call("pushed", numbers[: len(Verdict._fields)])
        return verdict

    def exchange(self, vector: Any = 0.5, slots: float = 0.0, loss: float = 1.0) -> Verdict:
        """One pull, what is learned, one push."""
        pulled = self.pull()
        assert pulled.status == Status.READY
        if pulled.more:
            self.collect()
        self.call("sample")
        self.pack(vector, slots, loss)
        return self.push()

    def report(self) -> Report:
        *_, vector = self.call("report")
        assert vector.dtype == np.float64
        return Report.decode(vector)

    def online(self) -> np.ndarray:
        self._requests[:, PullRequest._fields.index("contributed")] = -1
        return self.pull().online

    def restore(self, env_steps: int) -> None:
        for shard in self.shards:
            vector = shard.frozen()
            state = State(vector, vector, vector, (), Counters(3, 6, env_steps, 2))
            shard.restore(state)
