"""A worker's side of pull and push, against shards that are really there."""

import numpy as np
import pytest
from test_encoding import SIZES as ENCODED_SIZES
from test_encoding import bounds

from ps_dqn import exchange as exchange_module
from ps_dqn import messages
from ps_dqn.config import Config
from ps_dqn.exchange import Exchange, largest
from ps_dqn.messages import Kind, PullHeader, PushHeader, Status, Verdict
from ps_dqn.run_options import WIRE_DTYPES
from ps_dqn.shard import Shard
from ps_dqn.state import Counters

SIZE = 1000  # over three servers 334, 333 and 333; none is a multiple of 256
SESSION = 77

each_dtype = pytest.mark.parametrize("dtype", WIRE_DTYPES)
each_num_ps = pytest.mark.parametrize("num_ps", [1, 3])


def make_config(**options) -> Config:
    defaults = {
        "num_envs_per_worker": 1,
        # Pushes are changes that are added as they are.
        "local_updates": 2,
        "outer_learning_rate": 1.0,
        "outer_momentum": 0.0,
        "average_decay": 0.0,
        "target_update_period": 10**6,
    }
    return Config.from_values({**defaults, **options})


class Link:
    """Some servers that begin at zero, and one worker's exchange with them."""

    def __init__(self, num_ps: int = 1, size: int = SIZE, initial=None, num_workers=1, **options):
        self.config = make_config(**options)
        initial = np.zeros(size, np.float32) if initial is None else initial
        self.sizes = messages.shard_sizes(len(initial), num_ps)
        parts = np.split(initial, np.cumsum(self.sizes)[:-1])
        self.shards = [Shard(self.config, SESSION, num_ps, num_workers, each) for each in parts]
        self.exchange = self.connect(0)
        self.exchange.begin(1, 0)

    def connect(self, worker: int) -> Exchange:
        return Exchange(self.config.parameter_server, SESSION, worker, self.sizes)

    def replies(self) -> list[np.ndarray]:
        requests = self.exchange.requests()
        return [shard.pull(each) for shard, each in zip(self.shards, requests, strict=True)]

    def pull(self):
        return self.exchange.pulled(self.replies())

    def push(self, vector, kind: Kind = Kind.APPLIED) -> list[np.ndarray]:
        """Pushes, and hears what became of it; the messages."""
        header, packed = self.exchange.pack(vector, kind, 2, 16, 1, 0.1)
        lacking = [shard.stage(each) for shard, each in zip(self.shards, packed, strict=True)]
        verdict = self.shards[0].decide(np.append(header, min(lacking)))
        for shard in self.shards[1:]:
            shard.follow(verdict)
        self.exchange.pushed(messages.unpack(Verdict, verdict))
        return packed

    def online(self) -> np.ndarray:
        """What the servers hold, whatever pulls do to it."""
        for shard in self.shards:
            shard.mark(Kind.CHECKPOINT, shard.next_index())
        return np.concatenate([shard.checkpoint().online for shard in self.shards])

    def residual(self) -> np.ndarray:
        return self.exchange._residual


def vector(seed: int = 0, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


def payload(message: np.ndarray) -> bytes:
    return message[messages.HEADER :].tobytes()


# Pushes: what is said, what is left over.


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


def split(link: Link, whole: np.ndarray) -> list[np.ndarray]:
    return np.split(whole, np.cumsum(link.sizes)[:-1])


@each_num_ps
@each_dtype
@pytest.mark.parametrize("top_k", [0.1, 0.5])
def test_only_the_largest_travel_and_the_others_are_left_over(dtype, top_k, num_ps):
    link = Link(num_ps, push_wire_dtype=dtype, push_top_k=top_k)
    count = round(top_k * SIZE)
    packed = link.push(vector())
    # A place is four bytes, beside its number.
    counts = [messages.header(PushHeader, each).num_values for each in packed]
    assert sum(counts) == count
    assert [len(each) - messages.HEADER for each in packed] == [
        4 * n + ENCODED_SIZES[dtype](n) for n in counts
    ]
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
    sizes = [messages.HEADER + ENCODED_SIZES[dtype](n) for n in (334, 333, 333)]
    assert [len(each) for each in packed] == sizes
    assert link.exchange.bytes_pushed == sum(sizes)
    link.push(vector(1))
    assert link.exchange.bytes_pushed == 2 * sum(sizes)


def test_the_choice_is_among_all_servers():
    # All that is large is on the first; the others are sent nothing but the header.
    link = Link(3, push_top_k=0.2)
    given = vector()
    given[:334] *= 1e4
    packed = link.push(given)
    assert [messages.header(PushHeader, each).num_values for each in packed] == [200, 0, 0]
    assert [len(each) for each in packed[1:]] == [messages.HEADER] * 2
    assert np.count_nonzero(link.online()) == 200


def test_at_least_one_number_travels():
    link = Link(3, push_top_k=1e-6)
    packed = link.push(vector())
    assert sum(messages.header(PushHeader, each).num_values for each in packed) == 1
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
    assert len(message) == messages.HEADER, "the vector stays with the worker"
    assert link.residual().tolist() == before.tolist()
    [mine], [wanted] = link.push(vector(3)), other.push(vector(3))
    assert payload(mine) == payload(wanted)


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
    [wanted] = other.push(vector(3))
    fresh = Link(**options)
    fresh.push(vector(1))
    assert fresh.residual().tolist() == before.tolist()
    [mine] = fresh.push(vector(3))
    assert payload(mine) == payload(wanted)


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
        assert all(message[: 8 * len(header)].tobytes() == header.tobytes() for message in packed)
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


# Pulls.


@each_num_ps
@each_dtype
def test_pulls_bring_the_parameters_the_target_and_the_counters(dtype, num_ps):
    link = Link(num_ps, initial=vector(4), pull_wire_dtype=dtype)
    link.push(vector(5))
    link.push(vector(6))
    pulled = link.pull()
    assert pulled.counters == Counters(version=2, updates=4, env_steps=32, episodes=2)
    assert pulled.online.dtype == pulled.target.dtype == np.float32
    for got, true in ((pulled.online, link.online()), (pulled.target, vector(4))):
        for ours, exact in zip(split(link, got), split(link, true), strict=True):
            assert (np.abs(ours - exact) <= bounds(exact)[dtype]).all()
        assert (got != true).any() == (dtype != "float32")


def answer_size(dtype: str, counts, vectors: int) -> int:
    """Bytes of the servers' answers; vectors of a message begin at multiples of 64."""
    sizes = [-(-ENCODED_SIZES[dtype](count) // 64) * 64 for count in counts]
    return sum(messages.HEADER + vectors * size for size in sizes)


@each_num_ps
@each_dtype
def test_the_target_travels_only_when_it_has_changed(dtype, num_ps):
    # It is copied at every second push, of two updates each.
    link = Link(num_ps, pull_wire_dtype=dtype, target_update_period=4)
    expected = []
    for vectors_sent, pushes in [(2, 0), (1, 0), (1, 1), (2, 1), (1, 0), (2, 3), (1, 0)]:
        for _ in range(pushes):
            link.push(vector(7))
        before = link.exchange.bytes_pulled
        pulled = link.pull()
        assert link.exchange.bytes_pulled - before == answer_size(dtype, link.sizes, vectors_sent)
        if vectors_sent == 2:
            expected = pulled.target.tolist()
        assert pulled.target.tolist() == expected
    assert np.abs(pulled.target - 4 * vector(7)).max() < 0.2, "it was copied after four pushes"
    assert np.abs(pulled.online - 5 * vector(7)).max() < 0.2


def test_each_server_sends_the_target_when_its_own_has_changed():
    link = Link(3, target_update_period=2)
    link.pull()
    header, packed = link.exchange.pack(vector(), Kind.APPLIED, 2, 16, 1, 0.1)
    for shard, message in zip(link.shards, packed, strict=True):
        shard.stage(message)
    verdict = link.shards[0].decide(np.append(header, 0))
    first = link.replies()
    pulled = link.exchange.pulled(first)
    assert [messages.header(PullHeader, each).has_target for each in first] == [1, 0, 0]
    wanted = np.concatenate([vector()[:334], np.zeros(666, np.float32)])
    assert pulled.target.tolist() == pulled.online.tolist() == wanted.tolist()
    for shard in link.shards[1:]:
        shard.follow(verdict)
    second = link.replies()
    assert [messages.header(PullHeader, each).has_target for each in second] == [0, 1, 1]
    assert link.exchange.pulled(second).target.tolist() == vector().tolist()


@each_num_ps
@each_dtype
def test_what_was_pulled_stays_as_it_is(dtype, num_ps):
    link = Link(num_ps, initial=vector(4), pull_wire_dtype=dtype, target_update_period=2)
    kept = []
    for seed in range(4):
        pulled = link.pull()
        kept.append((pulled, pulled.online.copy(), pulled.target.copy()))
        link.push(vector(seed))
    for pulled, online, target in kept:
        assert pulled.online.tolist() == online.tolist()
        assert pulled.target.tolist() == target.tolist()
    assert (kept[0][1] != kept[3][1]).any()
    assert (kept[0][2] != kept[3][2]).any()


def test_a_server_that_failed_or_serves_another_run_is_an_error():
    link = Link(3)
    good, nothing = link.replies(), np.zeros(0, np.uint8)
    with pytest.raises(RuntimeError, match="another run"):
        link.exchange.pulled([good[0], nothing, good[2]])
    stranger = Shard(link.config, SESSION + 1, 3, 1, np.zeros(333, np.float32))
    with pytest.raises(RuntimeError, match="another run"):
        link.exchange.pulled([*good[:2], stranger.pull(link.exchange.requests()[2])])


def test_a_run_that_was_ended_anywhere_is_over():
    link = Link(3)
    link.shards[2].halt()
    assert link.pull() is Status.FINISHED


@each_num_ps
def test_a_worker_that_has_pushed_for_a_round_waits_for_the_others(num_ps):
    link = Link(num_ps, num_workers=2, aggregation="sync")
    link.pull()
    link.push(vector())
    assert link.pull() is Status.WAIT
    mine, link.exchange = link.exchange, link.connect(1)
    link.exchange.begin(2, 0)
    link.pull()
    link.push(3 * vector())
    link.exchange = mine
    pulled = link.pull()
    assert pulled.counters == Counters(version=1, updates=4, env_steps=32, episodes=2)
    assert pulled.online == pytest.approx(2 * vector(), rel=1e-6)


def test_a_round_is_pulled_of_one_version_only():
    link = Link(3, aggregation="sync")
    link.pull()
    header, packed = link.exchange.pack(vector(), Kind.APPLIED, 2, 16, 1, 0.1)
    for shard, message in zip(link.shards, packed, strict=True):
        shard.stage(message)
    verdict = link.shards[0].decide(np.append(header, 0))
    link.shards[1].follow(verdict)
    assert link.pull() is Status.WAIT
    link.shards[2].follow(verdict)
    assert link.pull().online.tolist() == vector().tolist()


def test_patience_ends_and_begins_again_with_a_closure(monkeypatch):
    link = Link(num_workers=2, aggregation="sync")
    link.pull()
    link.push(vector())
    assert link.pull() is Status.WAIT
    assert link.pull() is Status.WAIT, "there is patience for more than one question"
    monkeypatch.setattr(exchange_module, "PATIENCE", -1.0)
    assert link.pull() is Status.FINISHED
    monkeypatch.undo()
    link.exchange.begin(3, 0)
    assert link.pull() is Status.WAIT


# The choice itself.


@pytest.mark.parametrize("count", [1, 2, 10, 99, 100, 1000])
def test_largest_are_those_of_largest_size_in_order(count):
    given = vector(9, 100)
    wanted = np.sort(np.argsort(np.abs(given))[max(0, 100 - count) :])
    assert largest(given, count).tolist() == wanted.tolist()


def test_largest_takes_as_many_as_asked_where_all_are_equal():
    for given in (np.zeros(20, np.float32), np.full(20, -3, np.float32)):
        places = largest(given, 7)
        assert len(set(places.tolist())) == 7
        assert (np.diff(places) > 0).all()
