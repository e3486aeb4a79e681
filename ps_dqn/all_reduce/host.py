"""What a worker task hosts behind the bridge beside its `WorkerHost`: its replica of a run.

Its number there is that of the parameter server it takes the place of, one for each worker. The
worker's own closures call `pull`, `push` and `freeze`, on the same task; the coordinator calls the
others. A worker that was started again has no replica until it is taken in: what it is asked then
is answered by nothing, and is no failure.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ps_dqn import moments
from ps_dqn.all_reduce.contributions import Contributions
from ps_dqn.all_reduce.exchange import Exchange, Members
from ps_dqn.all_reduce.group import CollectiveGroup, Group
from ps_dqn.all_reduce.replica import Replica
from ps_dqn.config import Config
from ps_dqn.errors import UsageError
from ps_dqn.parameter_server import vectors
from ps_dqn.parameter_server.creation import Creation, Sizes
from ps_dqn.parameter_server.normalizing import Normalizing
from ps_dqn.parameter_server.resets import Resets
from ps_dqn.profiling import timeline
from ps_dqn.profiling.recording import Recording
from ps_dqn.wire import bridge, messages
from ps_dqn.wire.messages import PullHeader, PushHeader, Status
from ps_dqn.wire.parcels import Parcels

_DONE = np.int32(1)


class ReplicaHost:
    """The bridge's host for one worker's replica."""

    figures = pulse = None  # the worker's own say what it is at

    def __init__(
        self,
        worker: int,
        port: int = 0,
        recording: Callable[[], Recording | None] = lambda: None,
    ):
        """Holds nothing yet.

        Args:
            worker: index.
            port: where collectives reach this worker; 0: any that is free.
            recording: the worker's own, which has its replica too.
        """
        self._worker, self._port, self._recording = worker, port, recording
        self._group: Group | None = None
        self._exchange: Exchange | None = None
        self._run = ""  # JSON: which run the replica is of; no text while it is being made
        parcels = Parcels(
            lambda: self._in_run.replica.complete(), lambda state: self._in_run.restore(state)
        )
        # All of it from the beginning: a closure may run here before the run is known.
        self.methods: dict[str, Callable[..., Sequence[Any]]] = {
            "create": self._create,
            "name": self._name,
            "run": lambda: [self._run],
            "standing": lambda: [json.dumps(self._standing())],
            "pause": self._pause,
            "restore": parcels.restore,
            "form": self._form,
            "start": self._start,
            "pull": self._pull,
            "push": lambda *push: [self._in_run.push(*push)],
            "freeze": self._freeze,
            "counters": lambda: [messages.pack(self._in_run.replica.counters)],
            "checkpoint": parcels.checkpoint,
            "halt": self._halt,
        }

    @property
    def recording(self) -> Recording | None:
        """The worker's: see `profiling.recording`."""
        return self._recording()

    def leave(self) -> None:
        """Nothing is to be done: what is under way goes on until the process ends."""

    @property
    def _in_run(self) -> Exchange:
        if self._exchange is None:  # this worker has come later; the others take it in
            raise bridge.Superseded("it holds no replica yet")
        return self._exchange

    def _create(self, *inputs: Any) -> list[Any]:
        self._run = ""
        if self._group is None:
            try:
                self._group = CollectiveGroup(self._worker, self._port)
            except ValueError as error:
                raise UsageError(f"worker {self._worker}: {error}") from None
        if self._exchange is not None:
            self._exchange.close()
        given = Creation(*inputs)
        sizes, config = Sizes(*map(int, given.sizes)), Config.from_json(given.config.decode())
        num_returns = int(config.value.normalize_returns == "on")
        with timeline.span("creating its replica"):
            replica = Replica(
                config,
                int(given.session),
                sizes.num_workers,
                vectors.make(config, given.initial, sizes.num_parameters),
                Normalizing(sizes.num_moments, num_returns),
                Resets(config, 0, sizes.num_parameters, given.segments, given.drawn),
            )
        numbers = len(PushHeader._fields) + moments.num_numbers(sizes.num_moments)
        contributions = Contributions(sizes.num_parameters, numbers, sizes.num_workers)
        self._exchange = Exchange(replica, self._group, self._worker, contributions)
        return [_DONE]

    def _name(self, run: bytes) -> list[Any]:
        """Says which run the replica is of, now that it holds all that the run begins with."""
        self._run = run.decode()
        return [_DONE]

    def _standing(self) -> dict[str, Any]:
        # Before it is named it may not have been given what others hold.
        if self._exchange is None or self._group is None or not self._run:
            return {"session": 0, "port": 0}
        return self._exchange.standing | {"port": self._group.port}

    def _pause(self) -> list[Any]:
        if self._exchange is not None:
            self._exchange.pause()
        return [json.dumps(self._standing())]

    def _form(self, key: Any, addresses: bytes) -> list[Any]:
        if self._group is None:
            raise bridge.Superseded("another process was to be in it")
        given = json.loads(addresses)
        self._group.form(int(key), {int(worker): given[worker] for worker in given})
        return [_DONE]

    def _start(self, key: Any, workers: np.ndarray) -> list[Any]:
        with timeline.span("forming a group"):
            self._in_run.start(Members(int(key), tuple(map(int, workers))))
        return [_DONE]

    def _pull(self, request: np.ndarray) -> list[Any]:
        if self._exchange is None:
            return [messages.new(PullHeader(Status.WAIT, *[0] * (len(PullHeader._fields) - 1)), 0)]
        return [self._exchange.pull(request)]

    def _freeze(self) -> list[Any]:
        generation, counters, average = self._in_run.freeze()
        return [np.int64(generation), messages.pack(counters), average]

    def _halt(self) -> list[Any]:
        self._in_run.halt()
        return [_DONE]
