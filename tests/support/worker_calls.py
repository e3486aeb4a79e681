"""A `WorkerHost`, called as the closures call it, against real shards but without a cluster."""

import pathlib
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ps_dqn.config import Config
from ps_dqn.learning.result import Learned
from ps_dqn.state import Counters, State
from ps_dqn.telemetry.report import Report
from ps_dqn.wire import messages
from ps_dqn.wire.messages import PullRequest, Status, Verdict
from ps_dqn.worker.calls import (
    Acted,
    Begin,
    Packed,
    Plan,
    Playing,
    Pulled,
    Rejoin,
    Sampled,
    Sizes,
    Tickets,
)
from ps_dqn.worker.host import WorkerHost
from support.numpy_vectors import make_shard
from support.paying_env import SMALL

SIZE, SLOTS = 5, 2
RUN = 77


class Worker:
    """A `WorkerHost` and the parameter servers that it exchanges with, as closures call them."""

    def __init__(
        self,
        index: int = 0,
        num_workers: int = 1,
        num_ps: int = 2,
        worker_dir: pathlib.Path | None = None,
        actors: Sequence[str] = (),
        **values: Any,
    ):
        self.config = Config.from_values(SMALL | values)
        self._num_workers, self._num_ps = num_workers, num_ps
        self.shards = [
            make_shard(self.config, RUN, num_ps, num_workers, np.full(size, 1.0, np.float32))
            for size in messages.shard_sizes(SIZE, num_ps)
        ]
        self.others = 0  # workers that go on where this one cannot be used
        self.host = WorkerHost(index, worker_dir, actors)
        self.ticket, self.oldest, self.loss_scale = 1 + 1000 * index, 0, 1

    def call(self, method: str, *arguments: Any) -> Any:
        """A call of the coordinator, or of one that begins a closure."""
        return self.host.methods[method](*arguments)

    def within(self, method: str, *arguments: Any) -> Any:
        """A call of the closure that runs."""
        return self.call(method, self.closure, *arguments)

    def whose(self, run: int = RUN, session: int | None = None) -> Rejoin:
        return Rejoin(
            session=np.int64(run if session is None else session),
            log_id=np.int64(run),
            run_id=f"run_{run}".encode(),
            config=self.config.to_json().encode(),
            sizes=np.array(Sizes(self._num_workers, self._num_ps, SIZE, SLOTS, 0)),
            loss_scale=np.int64(self.loss_scale),
        )

    def begin(self, run: int = RUN, session: int | None = None) -> np.ndarray:
        tickets = np.array(Tickets(self.ticket, self.oldest, 10, others=self.others))
        begin = Begin(*self.whose(run, session), tickets=tickets)
        self.ticket += 10
        self.closure, self.requests = self.call("begin", *begin)
        return self.requests

    def begin_evaluation(
        self, episodes: int, seed: int = 1, run: int = RUN, session: int | None = None
    ) -> Playing:
        whose = self.whose(run, session)
        begin = (*whose, np.int64(seed), np.int32(episodes))
        self.closure, playing = self.call("evaluate_begin", *begin)
        return playing

    def ask(self) -> Pulled:
        """One pull, while the worker may be busy."""
        pairs = zip(self.shards, self.requests, strict=True)
        return self.within("pulled", *[shard.pull(request) for shard, request in pairs])

    def plan(self, pulled: Pulled) -> Plan:
        return self.within("plan", np.int32(pulled.status))

    def pull(self) -> types.SimpleNamespace:
        """One pull and, unless others have to be waited for, the plan: the fields of both."""
        pulled = self.ask()
        plan = {} if pulled.status == Status.WAIT else self.plan(pulled)._asdict()
        return types.SimpleNamespace(**pulled._asdict(), **plan)

    def collect(self, action: int = 1, steps: int | None = None) -> int:
        """Steps until the host has enough, or so often; how often."""
        made, should_act = 0, 1
        state = np.zeros((2, self.config.state_size), np.float32)
        while should_act and made != steps:
            acted = Acted(np.full(2, action, np.int32), state)
            should_act = self.within("step", *acted).should_act
            made += 1
        return made

    def sample(self) -> Sampled:
        return self.within("sample")

    def prepare(self) -> None:
        assert self.within("prepare") == 1

    def pack(
        self,
        vector: Any,
        slots: float = 0.0,
        loss: float = 1.0,
        errors: Any = 0.5,
        scale: tuple[float, ...] = (),
    ) -> Packed:
        drawn = (self.config.parameter_server.local_updates, self.config.learning.batch_size)
        learned = Learned(
            vector=np.broadcast_to(np.float32(vector), SIZE).copy(),
            slots=np.full((SLOTS, SIZE), slots, np.float32),
            td_loss=np.float32(loss),
            q_values=np.float32(3.0),
            grad_norm=np.float32(5.0),
            errors=np.broadcast_to(np.float32(errors), drawn),
            loss_scale=np.array(scale, np.float32),
        )
        self.packed: Packed = self.within("pack", *learned)
        return self.packed

    def push(self) -> Verdict:
        """Sends what was packed, as `ParameterStore.push` does with several servers."""
        pairs = zip(self.shards, self.packed.messages, strict=True)
        known = min(shard.stage(self.packed.header, part) for shard, part in pairs)
        numbers = self.shards[0].decide(np.append(self.packed.header, known))
        for shard in self.shards[1:]:
            shard.follow(numbers)
        verdict = messages.unpack(Verdict, numbers)
        self.requests = self.within("pushed", numbers[: len(Verdict._fields)])
        return verdict

    def exchange(self, vector: Any = 0.5, slots: float = 0.0, loss: float = 1.0) -> Verdict:
        """One pull, what is learned, one push."""
        pulled = self.pull()
        assert pulled.status == Status.READY
        if pulled.acting.should_act:
            self.collect()
        self.sample()
        self.pack(vector, slots, loss)
        return self.push()

    def report(self) -> Report:
        reported = self.within("report")
        assert reported.report.dtype == np.float64
        return Report.decode(reported.report)

    def online(self) -> np.ndarray:
        """What the servers hold, whether or not others have to be waited for."""
        requests = self.requests.copy()
        requests[:, PullRequest._fields.index("worker")] = self._num_workers
        pairs = zip(self.shards, requests, strict=True)
        return self.within("pulled", *[shard.pull(request) for shard, request in pairs]).online

    def restore(self, env_steps: int) -> None:
        for shard in self.shards:
            vector = shard.frozen()
            state = State(vector, vector, vector, (), Counters(3, 6, env_steps, 2, 6))
            shard.restore(state)


Open = Callable[..., Worker]
