"""Rounds whose workers do not all push: those that are away, and those that are back."""

import numpy as np
import pytest
from support.several_servers import Servers, begun, whole
from support.single_server import SIZE, Server, close, start, vector

from ps_dqn.wire.messages import Kind, Status


@pytest.fixture
def server() -> Server:
    return Server(num_workers=3, aggregation="sync")


def absent(server: Server) -> list[int]:
    return server.shard.tally()["absent"]


def test_a_round_that_waits_in_vain_is_made_of_what_it_has(server):
    server.push(vector(0), worker=0)
    server.push(vector(1), worker=2)
    assert server.counters.version == 0
    assert server.status(worker=0) is Status.WAIT
    server.shard.mark(Kind.AWAY, 0)
    assert server.pull()[1] == close(start() + (vector(0) + vector(1)) / 2)
    assert server.counters[:4] == (1, 4, 32, 2)
    assert server.status(worker=0) is Status.READY
    assert absent(server) == [1]


def test_a_worker_may_push_for_a_version_again_that_was_lost():
    lost, successor = [Server(num_workers=2, aggregation="sync") for _ in range(2)]
    early = lost.state
    for server in (lost, successor):
        if server is successor:
            server.shard.restore(early)
        for worker in (0, 1):
            server.push(vector(0), worker=worker, base=0)
        assert server.status(worker=0) is Status.READY
        server.push(vector(0), worker=0, base=1)
        assert server.status(worker=0) is Status.WAIT
        assert server.status(worker=1) is Status.READY


def test_rounds_go_on_without_it_until_it_pushes(server):
    server.push(vector(0), worker=0)
    server.push(vector(1), worker=1)
    server.shard.mark(Kind.AWAY, 0)
    for version in (1, 2):
        server.push(vector(0), worker=0, base=version)
        server.push(vector(1), worker=1, base=version)
        assert server.counters.version == version + 1
    assert server.push(vector(2), worker=2, base=0).kind == Kind.LATE
    assert absent(server) == []
    server.push(vector(0), worker=0, base=3)
    server.push(vector(1), worker=1, base=3)
    assert server.counters.version == 3, "it is waited for again"
    server.push(vector(2), worker=2, base=3)
    assert server.counters.version == 4


def test_one_that_is_back_in_time_counts(server):
    server.shard.mark(Kind.AWAY, 0, 2)
    assert absent(server) == [2]
    server.push(vector(2), worker=2)
    server.push(vector(0), worker=0)
    assert server.counters.version == 0
    server.push(vector(1), worker=1)
    assert server.pull()[1] == close(start() + sum(map(vector, range(3))) / 3)


def test_who_leaves_last_completes_the_round(server):
    server.push(vector(0), worker=0)
    server.push(vector(1), worker=1)
    server.shard.mark(Kind.AWAY, 0, 2)
    assert server.counters.version == 1
    assert server.pull()[1] == close(start() + (vector(0) + vector(1)) / 2)


def test_who_leaves_after_its_push_is_part_of_the_round(server):
    server.push(vector(0), worker=0)
    server.shard.mark(Kind.AWAY, 0, 0)
    server.push(vector(1), worker=1)
    assert server.counters.version == 0
    server.push(vector(2), worker=2)
    assert server.pull()[1] == close(start() + sum(map(vector, range(3))) / 3)


def test_a_round_that_nobody_has_pushed_for_waits_for_the_same_workers(server):
    before = server.state
    server.shard.mark(Kind.AWAY, 0)
    assert absent(server) == []
    assert server.counters.version == 0
    assert server.state.online.tobytes() == before.online.tobytes()


def test_when_all_are_away_the_first_that_is_back_makes_a_round(server):
    for worker in range(3):
        server.shard.mark(Kind.AWAY, 0, worker)
    assert server.counters.version == 0
    server.push(vector(1), worker=1)
    assert server.pull()[1] == close(start() + vector(1))
    assert absent(server) == [0, 2]


def test_backups_are_of_those_that_are_there():
    server = Server(num_workers=4, aggregation="sync", backup_workers=1)
    server.shard.mark(Kind.AWAY, 0, 3)
    server.push(vector(0), worker=0)
    assert server.counters.version == 0
    server.push(vector(1), worker=1)
    assert server.counters.version == 1


@pytest.mark.parametrize(
    ("way", "workers", "fewest"),
    [("trimmed_mean", 4, 3), ("trimmed_mean", 8, 5), ("median", 4, 3), ("median", 5, 5)],
)
def test_garbage_that_a_whole_round_stands_does_not_count_while_others_are_away(
    way, workers, fewest
):
    server = Server(num_workers=workers, aggregation=way)
    honest = [vector(seed) for seed in range(fewest - 1)]
    server.push(np.full(SIZE, 1e30), worker=0)
    for worker, pushed in enumerate(honest[:-1], start=1):
        server.push(pushed, worker=worker)
    server.shard.mark(Kind.AWAY, 0)
    assert server.counters.version == 0, "too few to tell garbage from the others"
    server.push(honest[-1], worker=fewest - 1)
    assert server.counters.version == 1
    change = server.state.online - start()
    assert (change <= np.max(honest, axis=0) + 1e-6).all()
    assert (change >= np.min(honest, axis=0) - 1e-6).all()


def test_nobody_is_away_where_nobody_waits():
    server = Server(num_workers=3, aggregation="async")
    server.shard.mark(Kind.AWAY, 0, 1)
    server.shard.mark(Kind.AWAY, 0)
    assert absent(server) == []
    server.push(vector(0))
    assert server.counters.version == 1


def test_all_servers_end_the_round_alike():
    servers = Servers(3, num_workers=2, aggregation="sync")
    first = begun(servers, ticket=1, worker=0)
    servers.pull(first)
    servers.push(first, whole(4))
    known = min(shard.next_index() for shard in servers.shards)
    servers.follow(servers.shards[0].mark(Kind.AWAY, known))
    assert servers.tallies() == [servers.tallies()[0]] * 3
    assert servers.tallies()[0]["absent"] == [1]
    assert np.array_equal(servers.mark()["online"], whole(4))
