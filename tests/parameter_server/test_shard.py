"""One parameter server: what each request does to it, written out in NumPy."""

import numpy as np
import pytest
from support.numpy_vectors import make_shard
from support.single_server import SESSION, SIZE, Server, close, make_config, start, vector

from ps_dqn.state import Counters
from ps_dqn.wire import messages
from ps_dqn.wire.messages import Kind, PullRequest, PushHeader, Status, Verdict

# Without waiting (async).


def test_each_push_is_applied_as_it_comes():
    server = Server()
    expected = start()
    for version in range(1, 4):
        verdict = server.push(vector(version), base=version - 1)
        expected = expected + vector(version)
        counted = Counters(version, 2 * version, 16 * version, version, 2 * version)
        assert verdict == Verdict(Kind.APPLIED, 0, 0, version - 1, *counted)
        header, online, _ = server.pull()
        assert online == close(expected)
        assert tuple(getattr(header, name) for name in Counters._fields) == counted


def test_staleness_is_the_versions_made_since_the_pull():
    server = Server(num_workers=3)
    server.push(vector(1), base=0)
    server.push(vector(2), base=1)
    assert server.push(vector(3), worker=1, base=0).staleness == 2
    # What makes no version makes nothing older.
    server.push(vector(4), base=3, kind=Kind.WITHHELD)
    assert server.push(vector(5), worker=2, base=1).staleness == 2
    assert server.push(vector(6), worker=2, base=9).staleness == 0


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_pushes_older_than_the_bound_are_refused_but_their_steps_count(bound):
    server = Server(max_staleness=bound, average_decay=0.5, target_update_period=4)
    for version in range(bound):
        server.push(vector(version), base=version)
    assert server.push(vector(90), base=0).kind == Kind.APPLIED, "as old as the bound"
    before, steps = server.state, server.counters
    refused = server.push(vector(91), base=0, env_steps=5, episodes=3, updates=7)
    assert refused[:3] == (Kind.STALE, 0, bound + 1)
    counted = steps._replace(env_steps=steps.env_steps + 5, episodes=steps.episodes + 3)
    assert server.counters == counted == Counters(*refused[4:])
    for name in ("online", "target", "average"):
        assert getattr(server.state, name).tolist() == getattr(before, name).tolist()
    assert server.push(vector(92), base=1).kind == Kind.APPLIED


def test_without_a_bound_no_age_is_too_much():
    server = Server()
    for _ in range(200):
        assert server.push(vector(0), base=0).kind == Kind.APPLIED
    assert server.push(vector(0), base=0).staleness == 200


WEIGHTS = {
    "exponential": ({"staleness_decay": 0.4}, lambda age: np.exp(-0.4 * age)),
    "gate": ({"staleness_cutoff": 4}, lambda age: (1 + np.cos(np.pi * min(age, 4) / 4)) / 2),
    "both": (
        {"staleness_decay": 0.4, "staleness_cutoff": 4},
        lambda age: np.exp(-0.4 * age) * (1 + np.cos(np.pi * min(age, 4) / 4)) / 2,
    ),
    "neither": ({}, lambda age: 1.0),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_old_changes_count_less(name):
    options, weight = WEIGHTS[name]
    server = Server(**options)
    expected = start().astype(np.float64)
    for age in range(6):
        assert server.push(vector(age), base=0).staleness == age
        expected = expected + weight(age) * vector(age)
        assert server.pull()[1] == close(expected)


@pytest.mark.parametrize("name", WEIGHTS)
def test_old_gradients_take_smaller_steps(name):
    # Adam divides the size of a gradient out again, so a weight of the gradient would do nothing.
    options, weight = WEIGHTS[name]
    server = Server(local_updates=1, optimizer="adam", optimizer_epsilon=1e-4, **options)
    expected, mean, square = start().astype(np.float64), np.zeros(SIZE), np.zeros(SIZE)
    for age in range(6):
        server.push(vector(age), base=0, rate=0.02)
        gradient = vector(age).astype(np.float64)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        first, second = mean / (1 - 0.9 ** (age + 1)), square / (1 - 0.999 ** (age + 1))
        epsilon = 1e-4 / np.sqrt(1 - 0.999 ** (age + 1))
        expected = expected - 0.02 * weight(age) * first / (np.sqrt(second) + epsilon)
        assert server.pull()[1] == pytest.approx(expected, abs=3e-6)
        for slot, wanted in zip(server.state.slots, (mean, square), strict=True):
            assert slot == pytest.approx(wanted, rel=1e-4, abs=1e-7)


def test_the_ledger_has_ages_and_kinds_of_each_worker():
    server = Server(num_workers=2, max_staleness=1)
    for worker, base in [(0, 0), (1, 0), (1, 0), (0, 2), (1, 1)]:
        server.push(vector(0), worker=worker, base=base)
    server.push(vector(0), worker=0, kind=Kind.WITHHELD)
    book = server.shard.ledger()
    assert book["staleness"] == {0: [2], 1: [0, 1, 2]}
    assert book["kinds"] == {0: {"applied": 2, "withheld": 1}, 1: {"applied": 1, "stale": 2}}
    assert (book["pushes"], book["bytes_in"]) == (6, 6 * (8 * len(PushHeader._fields) + 4 * SIZE))
    server.pull()
    server.pull(target_version=0)
    assert (book := server.shard.ledger())["pulls"] == 2
    assert book["bytes_out"] == 2 * messages.HEADER + 3 * 64, "the second without the target"


def test_a_withheld_push_only_counts_steps():
    for options in ({}, {"aggregation": "sync"}):
        server = Server(**options)
        verdict = server.push(np.zeros(0), kind=Kind.WITHHELD)
        assert verdict == Verdict(Kind.WITHHELD, 0, 0, 0, 0, 0, 16, 1, 0)
        assert server.pull()[1] == start().tolist()
        assert server.status(worker=0) is Status.READY


# What answers hold.


def test_a_worker_with_the_newest_target_is_not_sent_it():
    server = Server(target_update_period=4)
    for pushes, known, is_sent in [(0, -1, 1), (0, 0, 0), (1, 0, 0), (1, 0, 1), (0, 1, 0)]:
        for _ in range(pushes):
            server.push(vector(0))
        header, online, target = server.pull(target_version=known)
        assert header.has_target == is_sent
        assert (target != []) == bool(is_sent)
        assert online == server.state.online.tolist()


def test_an_answer_is_not_changed_by_later_pushes():
    server = Server()
    request = messages.pack(PullRequest(SESSION, 0, -1))
    answer = server.shard.pull(request)
    assert server.shard.pull(request) is answer, "it is encoded once"
    before = answer.tobytes()
    server.push(vector(0))
    assert answer.tobytes() == before
    assert server.shard.pull(request).tobytes() != before


def test_optimizers_count_the_steps_they_make():
    # Adam's first steps are as long as its step size, if it knows that they are the first.
    server = Server(local_updates=1, optimizer="adam", optimizer_epsilon=1e-12)
    server.push(np.full(SIZE, 7.0), rate=0.25)
    assert server.state.online == close(start() - 0.25)


# Runs, their ends, and what is kept of them.


def test_a_push_of_another_run_changes_nothing():
    server = Server()
    server.push(vector(0), ticket=3)
    before, tally = server.state, server.shard.tally()
    # Neither its vector nor its steps, nor what it says of old tickets.
    server.push(vector(1), session=SESSION + 1, ticket=4, oldest=100)
    assert server.shard.tally() == {**tally, "entries": server.shard.next_index()}
    assert server.state.online.tolist() == before.online.tolist()
    assert server.push(vector(2), ticket=4).duplicate == 0


def test_a_pull_of_another_run_is_told_so():
    server = Server()
    assert server.status(session=SESSION + 1) is Status.FOREIGN
    server.shard.halt()
    assert server.status(session=SESSION + 1) is Status.FOREIGN
    assert server.shard.ledger()["pulls"] == 0


@pytest.mark.parametrize("aggregation", ["async", "sync"])
def test_after_the_end_pulls_say_so_and_pushes_still_count(aggregation):
    server = Server(num_workers=1, aggregation=aggregation)
    server.shard.halt()
    header, online, _ = server.pull()
    assert Status(header.status) is Status.FINISHED
    assert online == []
    assert server.push(vector(0)).version == 1


def test_the_average_is_frozen_until_it_is_frozen_again():
    server = Server(average_decay=0.5)
    assert server.shard.frozen().tolist() == start().tolist()
    for seed in range(2):
        server.push(vector(seed))
        verdict = messages.unpack(Verdict, server.shard.mark(Kind.FREEZE, 0))
        wanted = Counters(seed + 1, 2 * seed + 2, 16 * seed + 16, seed + 1, 2 * seed + 2)
        assert verdict[4:] == server.counters == wanted
        frozen, average = server.shard.frozen(), server.state.average.tolist()
        server.push(np.zeros(SIZE), kind=Kind.WITHHELD)
        assert frozen.tolist() == server.shard.frozen().tolist() == average
        assert frozen.tolist() != server.state.online.tolist()
        server = Server(average_decay=0.5) if seed == 0 else server
        server.push(vector(seed))
    assert frozen.tolist() == average, "what was handed out stays as it is"


def test_a_checkpoint_is_of_one_moment_and_restores_all_of_it():
    options = {"outer_momentum": 0.9, "average_decay": 0.5, "target_update_period": 4}
    server, other = Server(**options), Server(**options)
    for seed in range(3):
        server.push(vector(seed), base=seed)
    state = server.state
    names = ("online", "target", "average")
    kept = [getattr(state, name).tolist() for name in names] + [state.slots[0].tolist()]
    assert len({str(each) for each in [*kept, start().tolist()]}) == 5, "all differ"
    server.push(vector(3), base=3)
    assert [getattr(state, name).tolist() for name in names] == kept[:3]
    assert state.slots[0].tolist() == kept[3]

    other.pull()
    other.shard.restore(state)
    assert other.counters == state.counters == Counters(3, 6, 48, 3, 6)
    assert other.shard.frozen().tolist() == kept[2]
    # A worker that has the first target is to take this one.
    assert other.pull(target_version=0)[1:] == (kept[0], kept[1])
    other.push(vector(3), base=3, ticket=4)
    for name in names:
        assert getattr(other.state, name).tobytes() == getattr(server.state, name).tobytes()
    assert [getattr(state, name).tolist() for name in names] == kept[:3]


def test_what_it_was_given_at_the_start_is_not_changed():
    initial = start()
    shard = make_shard(make_config(), SESSION, 1, 1, initial)
    server = Server()
    server.shard = shard
    server.push(vector(0))
    assert initial.tolist() == start().tolist()
