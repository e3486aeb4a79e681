"""A worker's pushes: what is said, what is left over."""

import numpy as np
import pytest
from support.exchange_link import (
    SESSION,
    SIZE,
    Link,
    each_dtype,
    each_num_ps,
    split,
    vector,
)
from support.wire_bounds import SIZES as ENCODED_SIZES
from support.wire_bounds import bounds

from ps_dqn.wire import messages
from ps_dqn.wire.messages import Kind, PushHeader
from ps_dqn.worker.pushes.packing import largest


@each_num_ps
@each_dtype
def test_what_the_servers_decode_and_what_is_left_over_is_what_was_given(dtype, num_ps):
    link = Link(num_ps, push_wire_dtype=dtype)
    link.push(vector())
    error = np.abs(link.online() - vector())
    for part, allowed in zip(split(link, error), split(link, vector()), strict=True):
        assert (part <= bounds(allowed)[dtype]).all()
    if dtype == "float32":
        assert link.online().tolist() == vector().tolist()
        assert link.residual().size == 0, "there is nothing to remember"
    else:
        assert error.any(), "else the dtype was ignored"
        np.testing.assert_allclose(link.online() + link.residual(), vector(), rtol=0, atol=1e-6)


@each_num_ps
@each_dtype
@pytest.mark.parametrize("top_k", [0.1, 0.5])
def test_only_the_largest_travel_and_the_others_are_left_over(dtype, top_k, num_ps):
    link = Link(num_ps, push_wire_dtype=dtype, push_top_k=top_k)
    count = round(top_k * SIZE)
    packed = link.push(vector())
    # Their number first; an index is four bytes, beside its number.
    counts = [int(each[:4].view(np.uint32)[0]) for each in packed]
    assert sum(counts) == count
    assert [len(each) for each in packed] == [4 + 4 * n + ENCODED_SIZES[dtype](n) for n in counts]
    order = np.argsort(-np.abs(vector()))
    online = link.online()
    assert not online[order[count:]].any()
    tolerance = {"float32": 0.0, "bfloat16": 2e-2, "float16": 2e-3, "int8": 2e-2}[dtype]
    np.testing.assert_allclose(online[order[:count]], vector()[order[:count]], 0, tolerance)
    np.testing.assert_allclose(online + link.residual(), vector(), rtol=0, atol=1e-6)


@each_num_ps
@each_dtype
@pytest.mark.parametrize("top_k", [1.0, 0.05])
def test_over_many_pushes_only_the_last_residual_is_missing(dtype, top_k, num_ps):
    link = Link(num_ps, push_wire_dtype=dtype, push_top_k=top_k)
    given = np.zeros(SIZE)
    for seed in range(60):
        link.push(vector(seed))
        given += vector(seed)
    missing = link.residual() if link.residual().size else np.zeros(SIZE)
    np.testing.assert_allclose(link.online() + missing, given, rtol=0, atol=2e-4)
    if top_k == 1.0:
        # Without feedback the errors would add up like a random walk; so they stay those of one
        # push, whose numbers are at most about four.
        assert np.abs(missing).max() <= {"float32": 0, "int8": 0.04}.get(dtype, 0.02)


@each_num_ps
@each_dtype
def test_what_is_left_over_goes_with_the_next_pushes_until_all_is_said(dtype, num_ps):
    link = Link(num_ps, push_wire_dtype=dtype, push_top_k=0.25)
    link.push(vector())
    said = [np.count_nonzero(link.online())]
    for _ in range(7):
        link.push(np.zeros(SIZE, np.float32))
        said.append(np.count_nonzero(link.online()))
    assert said[0] == 250
    assert said[-1] == SIZE
    np.testing.assert_allclose(link.online(), vector(), rtol=0, atol=2e-2)


@each_dtype
def test_the_sizes_of_messages_are_those_of_the_encoding(dtype):
    link = Link(3, push_wire_dtype=dtype)
    packed = link.push(vector())
    sizes = [ENCODED_SIZES[dtype](n) for n in (334, 333, 333)]
    assert [len(each) for each in packed] == sizes
    numbers = 3 * 8 * len(PushHeader._fields)
    assert link.exchange.bytes_pushed == numbers + sum(sizes)
    link.push(vector(1))
    assert link.exchange.bytes_pushed == 2 * (numbers + sum(sizes))


def test_the_choice_is_among_all_servers():
    # All that is large is on the first; the others are sent nothing.
    link = Link(3, push_top_k=0.2)
    given = vector()
    given[:334] *= 1e4
    packed = link.push(given)
    assert [len(each) for each in packed] == [4 + 200 * 8, 4, 4]
    assert np.count_nonzero(link.online()) == 200


def test_at_least_one_number_travels():
    link = Link(3, push_top_k=1e-6)
    packed = link.push(vector())
    assert sorted(len(each) for each in packed) == [4, 4, 12]
    assert np.flatnonzero(link.online()).tolist() == [np.abs(vector()).argmax()]


@each_dtype
@pytest.mark.parametrize("top_k", [1.0, 0.4])
def test_there_may_be_more_servers_than_parameters(dtype, top_k):
    link = Link(3, size=2, push_wire_dtype=dtype, push_top_k=top_k, pull_wire_dtype=dtype)
    given = np.array([1.0, -127.0], np.float32)
    for _ in range(3):
        link.push(given)
    missing = link.residual() if link.residual().size else np.zeros(2)
    np.testing.assert_allclose(link.online() + missing, 3 * given, rtol=1e-6)
    np.testing.assert_allclose(link.pull().online, link.online(), rtol=1e-2)


LOSSY = [{"push_wire_dtype": "int8"}, {"push_top_k": 0.1}]


@pytest.mark.parametrize("options", LOSSY)
def test_a_withheld_push_leaves_the_residual_as_it_was(options):
    link, other = Link(**options), Link(**options)
    for each in (link, other):
        each.push(vector(1))
    before = link.residual().copy()
    [message] = link.push(np.full(SIZE, np.nan, np.float32), Kind.WITHHELD)
    assert len(message) == 0, "the vector stays with the worker"
    assert link.residual().tolist() == before.tolist()
    [pushed], [expected] = link.push(vector(3)), other.push(vector(3))
    assert pushed.tolist() == expected.tolist()


@pytest.mark.parametrize("options", LOSSY)
def test_a_refused_push_leaves_the_residual_as_it_was(options):
    link, other = (Link(max_staleness=0, **options) for _ in range(2))
    for each in (link, other):
        each.push(vector(1))
        each.push(vector(2))  # computed on what was before the first: refused
    before = link.residual().copy()
    link.pull()
    other.pull()
    link.push(vector(3))
    [expected] = other.push(vector(3))
    fresh = Link(**options)
    fresh.push(vector(1))
    assert fresh.residual().tolist() == before.tolist()
    [pushed] = fresh.push(vector(3))
    assert pushed.tolist() == expected.tolist()


@pytest.mark.parametrize("options", LOSSY)
def test_a_repetition_leaves_the_residual_as_it_was(options):
    # The vector that counts was that of another attempt, which had a residual of its own.
    link = Link(**options)
    link.push(vector(1))
    before = link.residual().copy()
    link.exchange.begin(1, 0)
    link.push(vector(2))
    assert link.shards[0].tally()["applied"] == 1
    assert link.residual().tolist() == before.tolist()


def test_pushes_say_who_and_what_they_are():
    link = Link(3)
    link.push(vector())
    link.pull()
    link.exchange.begin(5, 3)
    headers = []
    for kind in (Kind.APPLIED, Kind.WITHHELD, Kind.APPLIED):
        header, packed = link.exchange.pack(vector(), kind, 7, 30, 2, 0.125)
        travels = kind is Kind.APPLIED
        assert [len(each) for each in packed] == [4 * n * travels for n in link.sizes]
        headers.append(messages.unpack(PushHeader, header))
    # Every push has a ticket, whether its vector travels or not.
    assert [each.ticket for each in headers] == [5, 6, 7]
    assert [each.kind for each in headers] == [Kind.APPLIED, Kind.WITHHELD, Kind.APPLIED]
    assert len({each.attempt for each in headers}) == 1
    for each in headers:
        assert (each.session, each.worker, each.oldest, each.base_version) == (SESSION, 0, 3, 1)
        assert (each.updates, each.env_steps, each.episodes) == (7, 30, 2)
        assert messages.rate(each.rate_bits) == 0.125
    link.exchange.begin(5, 3)
    again = messages.unpack(PushHeader, link.exchange.pack(vector(), Kind.APPLIED, 1, 1, 0, 1.0)[0])
    assert again.ticket == 5
    assert again.attempt != headers[0].attempt


# The choice itself.


@pytest.mark.parametrize("count", [1, 2, 10, 99, 100, 1000])
def test_largest_are_those_of_largest_size_in_order(count):
    given = vector(9, 100)
    expected = np.sort(np.argsort(np.abs(given))[max(0, 100 - count) :])
    assert largest(given, count).tolist() == expected.tolist()


def test_largest_takes_the_given_count_where_all_are_equal():
    for given in (np.zeros(20, np.float32), np.full(20, -3, np.float32)):
        indices = largest(given, 7)
        assert len(set(indices.tolist())) == 7
        assert (np.diff(indices) > 0).all()
