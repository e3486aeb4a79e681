"""How parameters are spread over servers: nothing lost, and nobody has more to do than others."""

import numpy as np
import pytest
from support.several_servers import Servers

from ps_dqn import networks
from ps_dqn.config import Network, Value
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.telemetry import ledger
from ps_dqn.wire import messages

MOST = 1.01  # times the mean, of the most loaded server


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
