"""The replicas of several workers in this process, asked as the coordinator asks theirs."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ps_dqn.all_reduce import host as hosting
from ps_dqn.all_reduce.host import ReplicaHost
from ps_dqn.all_reduce.store import ReplicaStore
from ps_dqn.errors import ClusterLostError
from ps_dqn.parameter_server import vectors
from ps_dqn.wire import bridge, messages
from ps_dqn.wire.messages import Verdict
from support.adding_up import Ring, header, make_config
from support.numpy_vectors import NumpyVectors


class _Tensor:
    """A result of TensorFlow's."""

    def __init__(self, value: Any):
        self._value = value.encode() if isinstance(value, str) else np.array(value)

    def numpy(self) -> Any:
        return self._value


class AskedHosts:
    """Replica hosts by worker, and a store that asks them; groups are of threads."""

    def __init__(self, num_workers: int, size: int, monkeypatch: pytest.MonkeyPatch):
        """The store has created them."""
        self.ring = Ring(num_workers)
        monkeypatch.setattr(hosting, "CollectiveGroup", lambda worker, _: self.ring.groups[worker])
        monkeypatch.setattr(
            vectors, "make", lambda config, initial, _: NumpyVectors(config, initial)
        )
        monkeypatch.setattr(bridge, "_make_host", self._make_host, raising=False)
        monkeypatch.setattr(bridge, "_hosts", {})
        monkeypatch.setattr(bridge, "_errors", {})
        monkeypatch.setattr(bridge, "call", self._call)
        monkeypatch.setattr(bridge, "take_error", self._take_error)
        self.gone: set[int] = set()
        # Hears of each question, its method and worker, before it is answered.
        self.before: Callable[[str, int], None] = lambda method, worker: None
        self._made: list[ReplicaHost] = []
        self.size, self._num_workers = size, num_workers
        self.store = self.connect_anew()
        self.store.create("run", np.zeros(size, np.float32))

    def connect_anew(self) -> ReplicaStore:
        """Another session's store, which has created nothing."""
        workers = range(self._num_workers)
        return ReplicaStore(make_config(), [f"localhost:{each}" for each in workers], workers)

    def exchange(self, worker: int) -> Any:
        return bridge._hosts[bridge.server(worker)]._in_run  # type: ignore[attr-defined]

    def restart(self, worker: int) -> None:
        """Its process is another one, which holds nothing."""
        del bridge._hosts[bridge.server(worker)]

    @property
    def errors(self) -> dict[int, str]:
        """What has failed, by task."""
        return bridge._errors

    def answer(self, worker: int, method: str, *zeros: Any) -> list[Any]:
        """What a closure on a worker gets that asks its replica; `zeros` where there is nothing."""
        kinds = json.dumps([(each.shape, each.dtype.name) for each in zeros])
        return bridge._answer(method, bridge.server(worker), kinds.encode(), [])

    def push(self, worker: int, value: float, ticket: int, **fields: Any) -> Verdict:
        """As a closure of the worker's does it, on what it holds."""
        base = int(self.exchange(worker).replica.counters.version)
        numbers = header(worker, ticket, base, **{"session": self.store.session, **fields})
        vector = np.full(self.size, value, np.float32).view(np.uint8)
        return messages.unpack(Verdict, self.exchange(worker).push(messages.pack(numbers), vector))

    def close(self) -> None:
        for host in self._made:
            if host._exchange is not None:
                host._exchange.close()

    def _make_host(self, number: int) -> ReplicaHost:
        self._made.append(ReplicaHost(bridge.server(number)))
        return self._made[-1]

    def _call(
        self, method: str, task: int, inputs: Sequence[Any], outputs: Sequence[Any], **_: Any
    ) -> list[Any]:
        """Without TensorFlow's operation, by which there would be a coordinator."""
        self.before(method, bridge.server(task))
        self._raise_if_gone(task)
        given = [each.encode() if isinstance(each, str) else np.array(each) for each in inputs]
        zeros = json.dumps(
            [([size or 0 for size in each.shape], each.dtype.name) for each in outputs]
        )
        results = bridge._answer(method, task, zeros.encode(), given)
        return [_Tensor(each) for each in results]

    def _take_error(self, task: int, after: Sequence[Any] = ()) -> Any:
        self._raise_if_gone(task)
        return _Tensor(bridge._errors.pop(task, ""))

    def _raise_if_gone(self, task: int) -> None:
        if bridge.server(task) in self.gone:
            raise ClusterLostError(f"worker {bridge.server(task)} is gone")
