"""Pushes and pulls while masks change: none is of two masks, and none has what is zero."""

import numpy as np
import pytest
from support.pruned_servers import MAGNITUDE, RIGL, SIZE, VECTORS, gone_on, made, masks, pushed
from support.several_servers import begun

from ps_dqn.wire import encoding, messages
from ps_dqn.wire.messages import Kind, Status


def test_what_was_computed_with_another_mask_is_refused():
    servers = made(2, 2, aggregation="async")
    early, late = (begun(servers, ticket, worker=i) for i, ticket in enumerate((1, 100)))
    servers.pull(early)
    for number in range(1, 4):
        servers.pull(late)
        assert servers.push(late, pushed(number)).kind == Kind.APPLIED
    before = servers.mark()
    assert servers.push(early, pushed(50)).kind == Kind.STALE
    after = servers.mark()
    for name in VECTORS:
        np.testing.assert_array_equal(before[name], after[name])
    assert servers.tallies()[0]["env_steps"] == 4 * 16, "they were made"
    servers.pull(early)
    assert servers.push(early, pushed(51)).kind == Kind.APPLIED


@pytest.mark.parametrize("aggregation", ["sync", "trimmed_mean", "median"])
@pytest.mark.parametrize("options", [MAGNITUDE, RIGL], ids=["magnitude", "rigl"])
def test_rounds_end_with_their_mask(aggregation: str, options):
    servers = made(2, 2, aggregation=aggregation, **options)
    workers = [begun(servers, 1 + 100 * i, worker=i) for i in range(2)]
    for number in range(8):
        for i, each in enumerate(workers):
            pulled = servers.pull(each)
            np.testing.assert_array_equal(pulled.mask, masks(servers))
            growth = pushed(1000 + number) if options is RIGL else np.zeros(0, np.float32)
            assert servers.push(each, pushed(2 * number + i), growth=growth).kind == Kind.APPLIED
    found = servers.mark()
    for name in VECTORS:
        np.testing.assert_array_equal(found[name] != 0, masks(servers))
    assert servers.shards[0]._pruning.mask.number == 3 + (options is RIGL)


def test_nobody_pulls_half_of_a_mask():
    servers = made(2, 2, aggregation="async")
    exchange, other = begun(servers), begun(servers, ticket=100, worker=1)
    for number in range(1, 3):
        servers.pull(other)
        servers.push(other, pushed(number))
    for each in (exchange, other):
        servers.pull(each)
    header, packed = other.pack(pushed(3), Kind.APPLIED, 2, 16, 1, 0.1)
    numbers = servers.decide(header, servers.stage(header, packed))
    # The first server has changed its mask, the second has not heard of it.
    assert servers.pull(exchange) is Status.WAIT
    servers.follow(numbers)
    np.testing.assert_array_equal(servers.pull(exchange).mask, masks(servers))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_only_what_is_not_zero_travels(dtype: str):
    wire = {"pull_wire_dtype": dtype, "push_wire_dtype": dtype}
    servers, whole = made(2, **wire), made(2, **wire, pruning_start=1000, pruning_end=1600)
    exchange, dense = begun(servers), begun(whole)
    for each, of in ((exchange, servers), (dense, whole)):
        for number in range(1, 9):
            of.pull(each)
            each.pushed(of.push(each, pushed(number)))
        of.pull(each)
        each.bytes_pulled = each.bytes_pushed = 0
        of.push(each, pushed(9))
        of.pull(each)
    header = 2 * 8 * len(messages.PushHeader._fields)
    kept = [int(shard._pruning.mask.count) for shard in servers.shards]
    sizes = [encoding.size(count, dtype) for count in kept]
    assert exchange.bytes_pushed == header + sum(sizes) + 2 * 4, "and a checksum each"
    assert exchange.bytes_pulled == 2 * messages.HEADER + sum(map(encoding.padded, sizes))
    assert dense.bytes_pushed == header + 2 * encoding.size(20, dtype)
    assert exchange.bytes_pushed < dense.bytes_pushed
    pulled = servers.pull(exchange)
    assert np.abs(pulled.online - servers.mark()["online"]).max() < 0.05
    assert not pulled.online[~masks(servers)].any()


@pytest.mark.parametrize("wire", [{"push_wire_dtype": "int8"}, {"push_top_k": 0.3}])
def test_what_is_left_over_of_weights_that_are_gone_is_gone(wire):
    servers = made(2, **wire)
    found = gone_on(servers, range(1, 20))
    kept = masks(servers)
    assert not found["online"][~kept].any()
    exchange = begun(servers, ticket=100)
    exchange.pulled([shard.pull(each) for shard, each in
                     zip(servers.shards, exchange.requests(), strict=True)])  # fmt: skip
    exchange.packing.residual = np.ones(SIZE, np.float32)
    exchange.packing.take_masks(exchange.packing.masks)
    np.testing.assert_array_equal(exchange.packing.residual, kept)
