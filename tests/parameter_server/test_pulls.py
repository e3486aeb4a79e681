"""A worker's pulls: what they bring, and when it has to wait."""

import concurrent.futures
import threading
import time
import types

import numpy as np
import pytest
from support.exchange_link import SESSION, Link, each_dtype, each_num_ps, split, vector
from support.numpy_vectors import make_shard
from support.wire_bounds import SIZES as ENCODED_SIZES
from support.wire_bounds import bounds

from ps_dqn.state import Counters
from ps_dqn.wire import messages
from ps_dqn.wire.messages import Kind, PullHeader, Status
from ps_dqn.worker.pushes import parameter_client as exchange_module


@each_num_ps
@each_dtype
def test_pulls_bring_the_parameters_the_target_and_the_counters(dtype, num_ps):
    link = Link(num_ps, initial=vector(4), pull_wire_dtype=dtype)
    link.push(vector(5))
    link.push(vector(6))
    pulled = link.pull()
    assert pulled.counters == Counters(2, updates=4, env_steps=32, episodes=2, sequential_updates=4)
    assert pulled.online.dtype == pulled.target.dtype == np.float32
    for got, true in ((pulled.online, link.online()), (pulled.target, vector(4))):
        for ours, exact in zip(split(link, got), split(link, true), strict=True):
            assert (np.abs(ours - exact) <= bounds(exact)[dtype]).all()
        assert (got != true).any() == (dtype != "float32")


@pytest.mark.usefixtures("looks_back_on_three_rounds")
@each_num_ps
def test_pulls_tell_how_many_workers_push(num_ps):
    link = Link(num_ps, num_workers=2)
    assert link.pull().workers == 2
    # Three pushes of each are looked back upon.
    for _ in range(5):
        link.push(vector(5))
    assert link.pull().workers == 2
    link.push(vector(5))
    pulled = link.pull()
    assert pulled.workers == 1
    # Five pushes of two updates side by side with another's, and one alone.
    assert pulled.counters.sequential_updates == 7


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
        shard.stage(header, message)
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


def test_parameters_of_one_server_are_not_copied_out_of_its_message():
    link = Link(1, initial=vector(4))
    [reply] = link.replies()
    pulled = link.exchange.pulled([reply])
    assert np.shares_memory(pulled.online, reply)
    # The target outlives the message, and would keep all of it.
    assert not np.shares_memory(pulled.target, reply)


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
    stranger = make_shard(link.config, SESSION + 1, 3, 1, np.zeros(333, np.float32))
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
    first, link.exchange = link.exchange, link.connect(1)
    link.exchange.begin(2, 0)
    link.pull()
    link.push(3 * vector())
    link.exchange = first
    pulled = link.pull()
    assert pulled.counters == Counters(1, updates=4, env_steps=32, episodes=2, sequential_updates=2)
    assert pulled.online == pytest.approx(2 * vector(), rel=1e-6)


def test_a_round_is_pulled_of_one_version_only():
    link = Link(3, aggregation="sync")
    link.pull()
    header, packed = link.exchange.pack(vector(), Kind.APPLIED, 2, 16, 1, 0.1)
    for shard, message in zip(link.shards, packed, strict=True):
        shard.stage(header, message)
    verdict = link.shards[0].decide(np.append(header, 0))
    link.shards[1].follow(verdict)
    assert link.pull() is Status.WAIT
    link.shards[2].follow(verdict)
    assert link.pull().online.tolist() == vector().tolist()


def test_patience_ends_and_begins_again_with_a_closure(monkeypatch):
    link = Link(num_workers=2, aggregation="sync")
    link.pull()
    link.push(vector())
    monkeypatch.setattr(exchange_module, "PATIENCE", 60.0)
    assert link.pull() is Status.WAIT
    assert link.pull() is Status.WAIT, "there is patience for more than one question"
    monkeypatch.setattr(exchange_module, "PATIENCE", -1.0)
    assert link.pull() is Status.FINISHED
    monkeypatch.undo()
    link.exchange.begin(3, 0)
    assert link.pull() is Status.WAIT


class Watched(threading.Event):
    """An event that says when somebody waits for it."""

    def __init__(self):
        super().__init__()
        self.is_awaited = threading.Event()

    def wait(self, timeout=None):
        self.is_awaited.set()
        return super().wait(timeout)


@pytest.fixture
def waiting(monkeypatch):
    """The link of a worker that has steps to make, and waits for a round meanwhile."""
    link = Link(num_workers=2, aggregation="sync")
    link.exchange.is_needed = Watched()
    link.exchange.begin(1, 0)
    link.pull()
    link.push(vector())
    link.exchange.is_needed.clear()
    monkeypatch.setattr(exchange_module, "PATIENCE", -1.0)
    for _ in range(6):
        assert link.pull() is Status.WAIT, "it has other things to do than to lose its patience"
    assert link.exchange._wait_beside > exchange_module.LONGEST_WAIT, "it asks seldom"
    return link


def test_a_worker_whose_steps_are_made_asks_at_once(waiting):
    waiting.exchange._wait_beside = 60.0
    waiting.exchange.is_needed.is_awaited.clear()
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        asked = thread.submit(waiting.pull)
        assert waiting.exchange.is_needed.is_awaited.wait(30.0)
        waiting.exchange.is_needed.set()
        assert asked.result(timeout=30.0) is Status.WAIT
    assert waiting.pull() is Status.FINISHED


def test_a_worker_whose_steps_are_made_while_it_asks_does_not_sleep_long(waiting, monkeypatch):
    slept = []
    monkeypatch.undo()  # patience
    # Its own alone: other threads of the process sleep as they do.
    clock = types.SimpleNamespace(sleep=slept.append, perf_counter=time.perf_counter)
    monkeypatch.setattr(exchange_module, "time", clock)
    waiting.exchange.is_needed.set()
    assert waiting.pull() is Status.WAIT
    assert slept == [exchange_module.FIRST_WAIT]


def test_a_closure_after_one_that_was_cut_off_has_patience_that_ends(waiting):
    waiting.exchange.begin(2, 0)
    assert waiting.pull() is Status.FINISHED
