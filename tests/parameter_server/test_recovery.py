"""Hundreds of losses of all that parameter servers hold: no push is missing, and none counts twice.

They are simulated: workers are generators that may be left at any step between two requests.
"""

import numpy as np
import pytest
from support.recovered_servers import Fleet

from ps_dqn.state import Segment, State
from ps_dqn.wire import messages
from ps_dqn.wire.messages import Kind, PushHeader
from ps_dqn.worker.pushes import parameter_client

NUM_WORKERS, MOST = 3, 120
SEGMENTS = [Segment(1, 3, False, 3), Segment(3, 7, True, 4)]
VECTORS = ("online", "target", "average")
# In 5760 environment steps.
PRUNED = {"sparsity": 0.6, "pruning_start": 400, "pruning_end": 4400, "pruning_changes": 8}
PUSH = (Kind.APPLIED, 2, 16, 1, 0.1)


@pytest.fixture(autouse=True)
def _nobody_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parameter_client, "FIRST_WAIT", 0.0)
    monkeypatch.setattr(parameter_client, "LONGEST_WAIT", 0.0)


def played(seed: int, num_ps: int, losses: float, **options) -> Fleet:
    options = {"average_decay": 0.9, "target_update_period": 30, "segments": SEGMENTS, **options}
    fleet = Fleet(seed, num_ps, NUM_WORKERS, MOST, **options)
    fleet.run(losses, snapshots=0.02)
    return fleet


def same(found: State, wanted: State) -> None:
    """Asserts that they are, bit by bit."""
    assert (found.counters, found.begun_at) == (wanted.counters, wanted.begun_at)
    for name in VECTORS:
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


@pytest.mark.parametrize("num_ps", [1, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"outer_momentum": 0.5}, marks=pytest.mark.thorough),
        pytest.param({"push_wire_dtype": "bfloat16"}, marks=pytest.mark.thorough),
        pytest.param(
            {"outer_momentum": 0.5, "local_updates": 1, "outer_learning_rate": None},
            marks=pytest.mark.thorough,
        ),
        {"reset_period": 30, "push_wire_dtype": "bfloat16", "outer_momentum": 0.5},
        pytest.param(
            {
                **{"pruning": "magnitude", **PRUNED, "push_wire_dtype": "bfloat16"},
                "outer_momentum": 0.5,
            },
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"pruning": "rigl", **PRUNED, "outer_momentum": 0.5}, marks=pytest.mark.thorough
        ),
    ],
    ids=lambda options: ",".join(options) or "plain",
)
def test_rounds_come_to_the_same_bits_whatever_is_lost(num_ps, options):
    if options.get("local_updates") == 1:
        options = {"local_updates": 1, "outer_learning_rate": None, "outer_momentum": None}
    undisturbed = played(0, num_ps, 0.0, aggregation="sync", **options)
    wanted = undisturbed.stations.snapshot()
    assert wanted.counters.version == MOST
    if "reset_period" in options:
        assert wanted.begun_at == wanted.counters.version == MOST, "the eighth was the last"
    if "pruning" in options:
        assert wanted.mask_number == 8 + (options["pruning"] == "rigl")
        assert not wanted.online[wanted.mask == 0].any()
        assert not wanted.mask.all()
    for seed in (1, 2):
        fleet = played(seed, num_ps, 0.05, aggregation="sync", **options)
        assert fleet.losses > 50
        assert fleet.again > 50
        assert fleet.lost == 0
        same(fleet.stations.snapshot(), wanted)
        np.testing.assert_array_equal(fleet.stations.snapshot().mask, wanted.mask)


@pytest.mark.parametrize("num_ps", [1, 3])
@pytest.mark.parametrize(("seed", "reset_period"), [(1, 0), (2, 0), (3, 0), (4, 9)])
def test_without_rounds_they_hold_what_their_log_says(num_ps, seed, reset_period):
    options = {"aggregation": "async", "outer_momentum": 0.5, "reset_period": reset_period}
    fleet = played(seed, num_ps, 0.05, **options)
    assert fleet.losses > 50
    assert (fleet.lost, sorted(fleet.log)) == (0, list(range(NUM_WORKERS * MOST)))
    tickets = [messages.unpack(PushHeader, header).ticket for header, _ in fleet.log.values()]
    assert len(set(tickets)) == len(tickets)
    [first, *_] = tallies = fleet.stations.servers.tallies()
    assert all(each == first for each in tallies)
    refused = len(tickets) - first["applied"]
    assert bool(refused) == bool(reset_period), "those from before a reset"
    assert refused or first["sum_of_tickets"] == sum(tickets)
    assert first["updates"] == 2 * first["applied"]

    fresh = Fleet(0, num_ps, NUM_WORKERS, MOST, average_decay=0.9, target_update_period=30,
                  segments=SEGMENTS, **options)  # fmt: skip
    for number in sorted(fleet.log):
        header, packed = fleet.log[number]
        header = messages.unpack(PushHeader, header)._replace(session=1)
        fresh.stations.push_now(messages.pack(header), packed)
    wanted, found = fresh.stations.snapshot(), fleet.stations.snapshot()
    same(found, wanted)


def test_what_nobody_has_kept_is_counted():
    fleet = played(1, 2, 0.0, aggregation="async")
    kept = fleet.clients[1].kept.table()[:, 0]
    first = fleet.newest.counters.updates // 2
    fleet.clients[1].kept.clear()  # its process is another one
    fleet.lose_servers()
    # Of those after its last one nobody knows whether there were any.
    last = max(each for each in fleet.log if each not in kept)
    assert fleet.lost == sum(first <= each <= last for each in kept) > 0
    tally = fleet.stations.servers.tallies()[0]
    assert tally["applied"] == NUM_WORKERS * MOST - sum(kept >= first)
    # What was pushed again has another number now, and goes on to be kept by it.
    fleet.lose_servers()
    assert fleet.stations.servers.tallies()[0]["applied"] == tally["applied"]


def test_rounds_after_a_gap_that_all_share_are_rounds_still():
    fleet = Fleet(1, 2, NUM_WORKERS, MOST, aggregation="sync")
    fleet.run(0.0, snapshots=0.0)
    for client in fleet.clients:
        for _ in range(20):
            client.kept._pushes.popleft()
    fleet.lose_servers()
    assert fleet.lost == 20 * NUM_WORKERS
    counters = fleet.stations.snapshot().counters
    assert (counters.version, counters.updates) == (MOST - 20, 2 * NUM_WORKERS * (MOST - 20))


@pytest.mark.parametrize("num_ps", [1, 2])
def test_a_push_that_was_too_late_for_its_round_is_so_again(num_ps):
    fleet = Fleet(1, num_ps, NUM_WORKERS, MOST, aggregation="sync", average_decay=0.9)
    servers, [a, b, c] = fleet.stations.servers, fleet.clients

    def push(client) -> Kind:
        header, packed = client.pack(fleet._learn(client._worker, client.online), *PUSH)
        verdict = fleet.stations.push_now(header, packed)
        client.pushed(verdict)
        return Kind(verdict.kind)

    def pull(*clients) -> None:
        for client in clients:
            client.begin(fleet.next_ticket, 0, 0)
            fleet.next_ticket += 1
            client.online = servers.pull(client).online

    pull(a, b, c)
    assert [push(a), push(b)] == [Kind.APPLIED] * 2
    known = min(shard.next_index() for shard in servers.shards)
    servers.follow(servers.shards[0].mark(Kind.AWAY, known, 2))
    assert push(c) is Kind.LATE
    pull(a, b, c)
    assert [push(c), push(a), push(b)] == [Kind.APPLIED] * 3
    wanted = fleet.stations.snapshot()
    assert wanted.counters.version == 2

    fleet.lose_servers()

    assert (fleet.again, fleet.lost) == (6, 0)
    same(fleet.stations.snapshot(), wanted)


@pytest.mark.parametrize("num_ps", [1, 2])
def test_a_last_round_that_was_made_without_others_is_so_again(num_ps):
    fleet = Fleet(1, num_ps, NUM_WORKERS, MOST, aggregation="sync", average_decay=0.9)
    for worker in (0, 1):
        closure = fleet._steps(worker)
        while next(closure) != "pushed":
            pass
    fleet.stations.go_on()
    wanted = fleet.stations.snapshot()
    assert wanted.counters.version == 1
    fleet.lose_servers()
    assert (fleet.again, fleet.lost) == (2, 0)
    same(fleet.stations.snapshot(), wanted)
