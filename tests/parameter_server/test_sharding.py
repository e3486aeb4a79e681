"""How parameters are spread over servers: nothing lost, and nobody has more to do than others."""

import numpy as np
import pytest
from test_shard import SESSION, make_config

from ps_dqn.config import Network, Value
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.parameter_server.shard import Shard
from ps_dqn.telemetry import ledger
from ps_dqn.wire import messages
from ps_dqn.wire.messages import Kind, Verdict
from ps_dqn.worker.parameter_client import ParameterClient

SIZE = 7  # not a multiple of the numbers of servers
MOST = 1.01  # times the mean, of the most loaded server


class Servers:
    """Shards, of zeros if not said otherwise, and the calls that a `ParameterStore` makes."""

    def __init__(self, num_ps: int, num_workers: int = 1, initial=None, **options):
        self.config = make_config(**options)
        initial = np.zeros(SIZE, np.float32) if initial is None else initial
        self.sizes = messages.shard_sizes(len(initial), num_ps)
        self.shards = [
            Shard(self.config, SESSION, num_ps, num_workers, part)
            for part in np.split(initial, np.cumsum(self.sizes)[:-1])
        ]

    def connect(self, worker: int) -> ParameterClient:
        return ParameterClient(self.config.parameter_server, SESSION, worker, self.sizes)

    def pull(self, exchange: ParameterClient):
        requests = exchange.requests()
        return exchange.pulled(
            [shard.pull(each) for shard, each in zip(self.shards, requests, strict=True)]
        )

    def stage(self, packed) -> list[int]:
        return [shard.stage(each) for shard, each in zip(self.shards, packed, strict=True)]

    def decide(self, header, lacking) -> np.ndarray:
        return self.shards[0].decide(np.append(header, min(lacking)))

    def follow(self, verdict) -> None:
        for shard in self.shards[1:]:
            shard.follow(verdict)

    def push(self, exchange: ParameterClient, pushed, kind: Kind = Kind.APPLIED) -> Verdict:
        header, packed = exchange.pack(pushed, kind, 2, 16, 1, 0.1)
        verdict = self.decide(header, self.stage(packed))
        self.follow(verdict)
        return messages.unpack(Verdict, verdict)

    def catch_up(self) -> None:
        """As `ParameterStore.catch_up` does it."""
        if len(self.shards) > 1:
            known = min(shard.next_index() for shard in self.shards)
            self.follow(self.shards[0].entries(known))

    def states(self) -> dict[str, np.ndarray]:
        """Online, target and average when they were marked last."""
        found = [shard.checkpoint() for shard in self.shards]
        return {
            name: np.concatenate([getattr(each, name) for each in found])
            for name in ("online", "target", "average")
        }

    def mark(self) -> dict[str, np.ndarray]:
        known = min(shard.next_index() for shard in self.shards)
        self.follow(self.shards[0].mark(Kind.CHECKPOINT, known))
        return self.states()

    def tallies(self) -> list[dict[str, int]]:
        return [shard.tally() for shard in self.shards]


each_num_ps = pytest.mark.parametrize("num_ps", range(1, 9))


@each_num_ps
@pytest.mark.parametrize(
    "num_parameters", [1_000, 1_003, 4_675, 99_999, 1_000_001, 12_345_678, 50_000_000]
)
def test_servers_hold_equally_many_and_nothing_is_lost(num_parameters, num_ps):
    sizes = messages.shard_sizes(num_parameters, num_ps)
    assert len(sizes) == num_ps
    assert sum(sizes) == num_parameters
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= MOST * num_parameters / num_ps


def test_few_parameters_leave_servers_empty_rather_than_lose_any():
    assert messages.shard_sizes(2, 3) == [1, 1, 0]
    assert messages.shard_sizes(0, 2) == [0, 0]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize(
    ("widths", "least", "most"),
    [((28, 28), 1e3, 1.3e3), ((300, 300), 9e4, 1.1e5), ((1000, 1000), 0.9e6, 1.1e6)],
)
def test_networks_are_spread_evenly(widths, least, most, dtype):
    from ps_dqn import networks  # it takes seconds to import, and others import this file

    environment = EnvironmentSpec((8,), np.dtype(np.float32), 4, None)
    flat = networks.build(Network(hidden_sizes=widths), Value(), environment, seed=0).initial
    assert least <= len(flat) <= most
    for num_ps in range(1, 9):
        servers = Servers(num_ps, initial=flat, push_wire_dtype=dtype)
        exchange = servers.connect(0)
        exchange.begin(1, 0)
        pulled = servers.pull(exchange)
        assert pulled.online.tobytes() == pulled.target.tobytes() == flat.tobytes()
        for _ in range(3):
            servers.push(exchange, np.ones(len(flat), np.float32))
            online = servers.pull(exchange).online
        assert np.abs(online - (flat + 3)).max() < 1e-5, "every number has come to its place"
        loads = [shard.ledger() for shard in servers.shards]
        assert all(load["pulls"] == 4 and load["pushes"] == 3 for load in loads)
        # What travels is nearly all numbers; the headers are the same for everyone.
        assert sum(load["bytes_out"] for load in loads) >= 5 * 4 * len(flat)
        assert ledger.balance(loads) <= MOST
