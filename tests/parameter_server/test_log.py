"""The log that several servers follow, entry by entry, and what a ticket counts for."""

import pytest
from support.several_servers import Servers, begun, whole
from support.single_server import SESSION, Server, close, start, vector

from ps_dqn.parameter_server import log as log_module
from ps_dqn.wire import messages
from ps_dqn.wire.messages import Kind, Verdict
from ps_dqn.worker.pushes.parameter_client import ParameterClient

# One ticket.


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_ticket_counts_once(attempt):
    server = Server()
    server.push(vector(0), ticket=5, attempt=1)
    before = server.counters
    again = server.push(vector(1), ticket=5, attempt=attempt)
    assert again == Verdict(Kind.APPLIED, 1, 0, 0 if attempt == 1 else messages.NO_NUMBER, *before)
    assert server.counters == before
    assert server.pull()[1] == close(start() + vector(0))
    assert server.shard.ledger()["duplicates"] == 1
    assert server.shard.tally()["staged"] == 0


def test_a_ticket_below_the_oldest_does_not_count():
    server = Server()
    server.push(vector(0), ticket=8, oldest=6)
    assert server.push(vector(1), ticket=5).duplicate == 1
    assert server.push(vector(1), ticket=6).duplicate == 0, "it may still come"
    tally = server.shard.tally()
    assert (tally["version"], tally["sum_of_tickets"], tally["staged"]) == (2, 14, 0)
    # An older message does not lower it again.
    server.push(vector(2), ticket=9, oldest=0)
    assert server.push(vector(1), ticket=5).duplicate == 1


@pytest.mark.parametrize("refusal", [Kind.STALE, Kind.LATE, Kind.WITHHELD])
def test_a_repetition_is_told_what_became_of_the_first(refusal):
    options = {"aggregation": "sync"} if refusal is Kind.LATE else {"max_staleness": 0}
    server = Server(**options)
    server.push(vector(0))
    kind = Kind.WITHHELD if refusal is Kind.WITHHELD else Kind.APPLIED
    first = server.push(vector(1), ticket=5, base=0, kind=kind)
    assert (first.kind, first.duplicate) == (refusal, 0)
    again = server.push(vector(1), ticket=5, base=1)
    assert (again.kind, again.duplicate) == (refusal, 1)
    assert server.counters.env_steps == 32, "the steps of one attempt"


@pytest.fixture
def three() -> Servers:
    return Servers(3)


def test_servers_lack_the_entries_they_have_not_followed(three):
    exchange = begun(three)
    for expected in ([0, 0, 0], [1, 1, 0], [2, 2, 0]):
        header, packed = exchange.pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
        lacking = three.stage(header, packed)
        assert lacking == expected
        verdict = three.decide(header, lacking)
        assert [each.position for each in messages.entries(verdict)] == list(
            range(min(lacking), three.shards[0].next_index())
        )
        assert three.shards[1].follow(verdict) == three.shards[0].next_index()
    assert three.shards[2].follow(verdict) == 3
    assert three.shards[2].follow(verdict) == 3, "what it has, it does not follow again"
    assert three.tallies() == [three.tallies()[0]] * 3
    assert three.mark()["online"].tolist() == whole(3).tolist()


def test_who_comes_next_brings_what_a_dead_worker_left(three):
    dead, next_one = begun(three, 1), begun(three, 2, worker=1)
    header, packed = dead.pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
    three.decide(header, three.stage(header, packed))  # and dies
    assert [tally["version"] for tally in three.tallies()] == [1, 0, 0]
    three.push(next_one, whole(10))
    assert [tally["version"] for tally in three.tallies()] == [2, 2, 2]
    assert three.mark()["online"].tolist() == whole(11).tolist()


def test_catching_up_brings_it_too(three):
    header, packed = begun(three).pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
    three.decide(header, three.stage(header, packed))
    three.catch_up()
    assert three.tallies() == [three.tallies()[0]] * 3
    assert three.mark()["online"].tolist() == whole(1).tolist()


@pytest.mark.parametrize("staged", [0, 1, 2, 3])
def test_a_push_that_was_not_decided_counts_by_its_next_attempt(three, staged):
    exchange = begun(three)
    header, packed = exchange.pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
    for shard, message in list(zip(three.shards, packed, strict=True))[:staged]:
        shard.stage(header, message)
    assert three.push(begun(three), whole(10)).duplicate == 0
    assert three.mark()["online"].tolist() == whole(10).tolist()
    assert [tally["staged"] for tally in three.tallies()] == [0, 0, 0]


@pytest.mark.parametrize("oldest", [0, 5])
def test_a_late_attempt_changes_nothing(three, oldest):
    # Its ticket was decided, or is below what may still come; it has slept since before that.
    zombie, rerun = begun(three), begun(three)
    header, packed = zombie.pack(whole(100), Kind.APPLIED, 9, 99, 9, 0.1)
    lacking = three.stage(header, packed)
    three.push(rerun, whole(1))
    three.push(begun(three, 5, oldest), whole(10))
    before = three.tallies()
    lacking = three.stage(header, packed) if oldest else lacking
    verdict = three.decide(header, lacking)
    three.follow(verdict)
    assert messages.unpack(Verdict, verdict).duplicate == 1
    assert three.tallies() == before
    assert three.mark()["online"].tolist() == whole(11).tolist()


def test_a_repetition_leaves_nothing_staged_on_any_server(three):
    three.push(begun(three), whole(1))
    three.push(begun(three), whole(10))
    assert [tally["staged"] for tally in three.tallies()] == [0, 0, 0]


def test_a_push_of_another_run_is_neither_kept_nor_decided(three):
    stranger = ParameterClient(three.config.parameter_server, SESSION + 1, 0, three.sizes)
    stranger.begin(1, 50)
    before = three.tallies()
    assert three.push(stranger, whole(1)).duplicate == 1
    assert three.tallies() == before
    assert three.push(begun(three), whole(1)).duplicate == 0


def test_a_gap_in_the_log_is_an_error(three):
    exchange = begun(three)
    three.push(exchange, whole(1))
    header, packed = exchange.pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
    three.stage(header, packed)
    three.decide(header, [1])
    header, packed = exchange.pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
    three.stage(header, packed)
    with pytest.raises(RuntimeError, match="goes on at 2, this server lacks entry 1"):
        three.shards[1].follow(three.decide(header, [2]))


def test_a_server_too_far_behind_is_an_error(monkeypatch):
    monkeypatch.setattr(log_module, "LOG_LENGTH", 3)
    servers = Servers(2)
    exchange = begun(servers)
    for _ in range(3):
        header, packed = exchange.pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
        servers.stage(header, packed)
        servers.decide(header, [servers.shards[0].next_index()])
    servers.shards[0].entries(0)
    header, packed = exchange.pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
    lacking = servers.stage(header, packed)
    verdict = servers.decide(header, lacking)
    with pytest.raises(RuntimeError, match="the log goes on at 1, this server lacks entry 0"):
        servers.follow(verdict)


def test_a_worker_may_pause_between_its_calls_for_longer_than_entries_are_kept(monkeypatch):
    monkeypatch.setattr(log_module, "LOG_LENGTH", 3)
    servers = Servers(2, num_workers=2)
    slow, quick = begun(servers), begun(servers, ticket=100, worker=1)
    header, packed = slow.pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
    lacking = servers.stage(header, packed)
    for _ in range(5):
        servers.push(quick, whole(1))
    verdict = servers.decide(header, lacking)
    servers.follow(verdict)
    assert messages.unpack(Verdict, verdict).kind == Kind.APPLIED
    assert [shard.next_index() for shard in servers.shards] == [6, 6]


def test_a_single_server_sends_no_log():
    server = Server()
    server.push(vector(0))
    assert len(server.shard.entries(0)) == len(Verdict._fields)


def test_a_mark_is_of_one_moment_on_all_servers():
    servers = Servers(3, average_decay=0.5)
    exchange = begun(servers)
    first, second = servers.shards[0], servers.shards[1:]
    for number in (1, 10):
        header, packed = exchange.pack(whole(number), Kind.APPLIED, 2, 16, 1, 0.1)
        lacking = servers.stage(header, packed)
        servers.decide(header, lacking)
        if number == 1:  # the others have not heard of anything yet
            first.mark(Kind.FREEZE, 0)
            first.mark(Kind.CHECKPOINT, 0)
    for shard in second:
        shard.follow(first.entries(0))
    assert servers.states()["online"].tolist() == whole(1).tolist()
    assert servers.states()["average"].tolist() == whole(0.75).tolist()
    assert [shard.frozen().tolist() for shard in second] == [[0.75] * 2] * 2
    assert first.frozen().tolist() == [0.75] * 3
    assert {shard.checkpoint().counters for shard in servers.shards} == {(1, 2, 16, 1, 2)}


def test_a_log_of_another_session_is_not_followed():
    servers = Servers(2)
    exchange = begun(servers)
    header, packed = exchange.pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1)
    late = servers.decide(header, servers.stage(header, packed))
    servers.follow(late)
    servers.push(exchange, whole(1))
    anew = Servers(2, session=SESSION + 1)  # the run was begun anew meanwhile
    anew.follow(late)
    anew.follow(servers.shards[0].entries(1))
    assert [shard.next_index() for shard in anew.shards] == [0, 0]
