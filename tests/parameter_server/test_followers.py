"""What follows the parameters of a server, and what its workers share: counted side by side."""

import math

import numpy as np
import pytest
from support.single_server import SIZE, Server, close, make_config, start, vector

from ps_dqn.parameter_server import ways
from ps_dqn.state import Counters
from ps_dqn.wire import messages
from ps_dqn.wire.messages import Entry, Kind


def entry(worker: int) -> Entry:
    """Of a push two versions old, with the step size 0.3."""
    values = {"worker": worker, "staleness": 2, "rate_bits": messages.bits(0.3)}
    return Entry(**{**dict.fromkeys(Entry._fields, 0), **values})


# What follows the parameters.


def follows_target(server: Server, copies_at: list[int]) -> None:
    """Every push is added; the target is a copy after these of them."""
    online, target, copies = start(), start(), 0
    for push in range(1, copies_at[-1] + 1):
        # What a worker says of its updates does not count.
        server.push(vector(push), updates=99)
        online = online + vector(push)
        if push in copies_at:
            target, copies = online, copies + 1
        header, _, got = server.pull()
        assert got == close(target)
        assert header.target_version == copies


def test_the_target_is_copied_when_a_push_crosses_the_period():
    # 2, 4, 6, 8, 10, 12, 14, 16 updates: 5 and 15 themselves are jumped over.
    follows_target(Server(target_update_period=5), [3, 5, 8])
    # 7, 14, 21, 28 and 35: one push may cross it more than once.
    follows_target(Server(target_update_period=3, local_updates=7), [1, 2, 3, 4, 5])


def test_the_period_of_the_target_is_of_sequential_updates():
    # 2/4 update each, as four workers push side by side: 5, 10 and 15 are of pushes 10, 20 and 30.
    follows_target(Server(num_workers=4, target_update_period=5, max_staleness=None), [10])


@pytest.mark.parametrize(
    ("workers", "local_updates", "updates"), [(1, 1, 1), (1, 3, 3), (2, 1, 1), (2, 6, 3)]
)
def test_a_soft_target_follows_as_after_that_many_updates(workers, local_updates, updates):
    options = {"local_updates": local_updates, "optimizer": "sgd", "momentum": 0.0}
    server = Server(num_workers=workers, tau=0.2, **options)
    target = start().astype(np.float64)
    for version in range(1, 6):
        server.push(vector(version), worker=version % workers, rate=1.0)
        online = server.state.online
        for _ in range(updates):
            target = target + 0.2 * (online - target)
        header, _, got = server.pull(target_version=version - 1)
        assert got == close(target)
        assert header.target_version == version


@pytest.mark.parametrize(("workers", "keeps"), [(1, 0.8**2), (2, 0.8), (4, 0.8**0.5)])
def test_the_average_follows_sequential_updates(workers, keeps):
    server = Server(num_workers=workers, average_decay=0.8)
    average = start().astype(np.float64)
    for seed in range(4):
        server.push(vector(seed), worker=seed % workers)
        average = keeps * average + (1 - keeps) * server.state.online
        assert server.state.average == close(average)


# What a version is made with.


@pytest.mark.parametrize(
    ("options", "workers", "wanted"),
    [
        # Weight, sequential updates, step size and momentum; 2 local updates, rate 0.3.
        ({}, 1, (1.0, 2.0, 0.5, 0.5)),
        ({}, 4, (0.25, 0.5, 1.0, 0.0)),
        ({"outer_momentum": 0.9}, 4, (0.25, 0.5, 1 - 0.9, 0.9)),
        ({"outer_learning_rate": 0.7}, 4, (1.0, 0.5, 0.7, 0.0)),
        ({"local_updates": 1}, 4, (1.0, 1.0, 0.3, 0.0)),
        ({"staleness_decay": math.log(2)}, 4, (0.0625, 0.5, 1.0, 0.0)),
    ],
    ids=str,
)
def test_a_push_alone_is_its_workers_share(options, workers, wanted):
    defaults = {"outer_learning_rate": None, "outer_momentum": None}
    config = make_config(**defaults | options)
    pushed = vector(0)
    found = ways.make(config, 9).add(entry(3), pushed, workers)
    assert found is not None
    assert found.vector is pushed
    assert found[1:5] == pytest.approx(wanted)
    assert [each.worker for each in found.entries] == [3]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [({}, (1.0, 2.0, 0.5 * 4 ** (1 / 3), 0.5)), ({"local_updates": 1}, (1.0, 1.0, 0.3, 0.5))],
    ids=str,
)
def test_a_round_is_as_one_workers_push_with_a_longer_step(options, wanted):
    defaults = {"outer_learning_rate": None, "outer_momentum": None}
    config = make_config(aggregation="sync", **defaults | options)
    way = ways.make(config, 4)
    *earlier, found = [way.add(entry(worker), vector(worker), 4) for worker in (2, 0, 3, 1)]
    assert earlier == [None] * 3
    assert found is not None
    assert found[1:5] == pytest.approx(wanted)
    assert [each.worker for each in found.entries] == [0, 1, 2, 3]


# How many workers push.


@pytest.mark.usefixtures("looks_back_on_three_rounds")
def test_pushes_count_less_the_more_workers_push():
    # Two workers, none of whose pushes is waited for: no momentum is added, and each counts half.
    server = Server(num_workers=2, outer_learning_rate=None, outer_momentum=None)
    expected, velocity = start().astype(np.float64), np.zeros(SIZE)
    pushes = [0, 1] * 3 + [0] * 6 + [1, 0]
    workers_then = [2] * 11 + [1] + [2, 2]  # the last six were of worker 0 alone
    updates_then = [1] * 11 + [2] + [1, 1]  # of two that each made
    done = 0
    for seed, (worker, workers) in enumerate(zip(pushes, workers_then, strict=True)):
        verdict = server.push(vector(seed), worker=worker)
        momentum = 0.5 if workers == 1 else 0.0
        change = vector(seed) / workers
        velocity = momentum * velocity - change
        expected = expected + (1 - momentum) * (change - momentum * velocity)
        header, online, _ = server.pull()
        assert online == close(expected)
        assert server.state.slots[0] == close(velocity)
        assert header.workers == workers
        done += updates_then[seed]
        assert verdict.sequential_updates == header.sequential_updates == done
    assert server.counters == Counters(14, 28, 16 * 14, 14, 15)


@pytest.mark.usefixtures("looks_back_on_three_rounds")
def test_who_is_refused_or_withholds_its_push_still_counts_as_one_who_pushes():
    server = Server(num_workers=2, max_staleness=0)
    for version in range(8):
        server.push(vector(0), worker=0, base=version)
        if version % 2:
            server.push(vector(0), worker=1, base=0)
        else:
            server.push(vector(0), worker=1, kind=Kind.WITHHELD)
    assert server.pull()[0].workers == 2
    assert server.shard.ledger()["kinds"][1] == {"stale": 4, "withheld": 4}
    for version in range(8, 14):
        server.push(vector(0), worker=0, base=version)
    assert server.pull()[0].workers == 1
