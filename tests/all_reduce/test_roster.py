"""What the coordinator makes of a group that breaks, with the hosts of real workers."""

from collections.abc import Iterator

import numpy as np
import pytest
from support.asked_hosts import AskedHosts
from support.processes import until

from ps_dqn.store import Frozen
from ps_dqn.wire.messages import Kind

P = 6
# For what takes milliseconds where others do not want the processors too.
SECONDS = 60.0


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[AskedHosts]:
    """Three, in a group."""
    made = AskedHosts(3, P, monkeypatch)
    yield made
    made.close()


def same(hosts: AskedHosts, *workers: int) -> None:
    first, *others = (hosts.exchange(each).replica.complete() for each in workers)
    for each in others:
        np.testing.assert_array_equal(each.online, first.online)
        assert (each.counters, each.log) == (first.counters, first.log)


def withhold_a_round_that_only_the_last_hears_of(hosts: AskedHosts) -> None:
    key = hosts.exchange(0).standing["generation"]
    hosts.ring.not_heard = {(0, key, 1), (1, key, 1)}
    for i in range(3):
        hosts.push(i, 1.0, ticket=i + 1, kind=int(Kind.WITHHELD))
    for i in (0, 1):
        until(lambda i=i: not hosts.exchange(i).standing["generation"], SECONDS, "the break")
    until(lambda: hosts.exchange(2).replica.counters.env_steps == 24, SECONDS, "the sum")


def test_a_round_that_made_no_version_is_brought_to_who_has_not_heard_of_it(
    hosts: AskedHosts,
) -> None:
    withhold_a_round_that_only_the_last_hears_of(hosts)
    hosts.gone.add(0)
    assert hosts.store.go_on(0) == [0]
    same(hosts, 1, 2)
    assert hosts.store.counters().env_steps == 24


def test_another_connection_goes_on_from_who_has_that_round(hosts: AskedHosts) -> None:
    withhold_a_round_that_only_the_last_hears_of(hosts)
    held = hosts.connect_anew().held("run", P)
    assert held is not None
    assert held.counters.env_steps == 24


def freeze(hosts: AskedHosts, worker: int) -> Frozen:
    """What a closure on the worker gets."""
    nothing = np.int64(0), np.zeros(0, np.int64), np.zeros(0, np.float32)
    return Frozen(worker, *map(np.asarray, hosts.answer(worker, "freeze", *nothing)))


def make_a_round(hosts: AskedHosts, *workers: int) -> None:
    before = hosts.exchange(workers[0]).replica.counters.version
    for i in workers:
        hosts.push(i, 1.0, ticket=100 * (before + 1) + i)
    for i in workers:
        until(lambda i=i: hosts.exchange(i).replica.counters.version > before, SECONDS, "a round")


def test_one_that_was_started_again_has_nothing_to_freeze_until_it_is_taken_in(
    hosts: AskedHosts,
) -> None:
    make_a_round(hosts, 0, 1, 2)
    hosts.restart(1)
    nothing = freeze(hosts, 1)
    assert nothing.counters.size == nothing.average.size == 0
    assert not hosts.errors
    assert not hosts.store.is_newest(nothing)
    hosts.store.take_in(1)
    assert not hosts.store.is_newest(nothing), "it came before"
    frozen, other = freeze(hosts, 1), freeze(hosts, 0)
    assert hosts.store.is_newest(frozen)
    assert frozen.counters.tolist() == other.counters.tolist()
    assert frozen.counters[0] == 1
    assert frozen.average.tolist() == other.average.tolist() != [0] * P


def test_one_that_was_away_has_no_newest_average_until_it_is_taken_in(hosts: AskedHosts) -> None:
    for i in (0, 1):
        hosts.push(i, 1.0, ticket=i + 1)
    hosts.store.go_on()  # worker 2 plays an evaluation for long
    until(lambda: hosts.exchange(0).replica.counters.version, SECONDS, "a round of the two")
    old = freeze(hosts, 2)
    assert old.counters[0] == 0
    assert not hosts.store.is_newest(old)
    assert hosts.store.is_newest(freeze(hosts, 0))
    hosts.store.take_in(2)
    same(hosts, 0, 1, 2)
    assert not hosts.store.is_newest(old)
    assert hosts.store.is_newest(freeze(hosts, 2))


def test_the_coordinator_reads_from_no_worker_that_was_started_again(hosts: AskedHosts) -> None:
    make_a_round(hosts, 0, 1, 2)
    hosts.restart(0)  # whose loss nobody has heard of yet
    assert hosts.store.counters().version == 1
    assert hosts.store.state().counters.version == 1
    hosts.restart(1)
    hosts.store.halt()
    assert not hosts.errors


def test_errors_are_asked_of_those_too_that_rounds_go_on_without(hosts: AskedHosts) -> None:
    hosts.store.go_on(2)
    hosts.store.go_on(1)
    hosts.gone.add(1)
    hosts.answer(2, "restore")  # with nothing, which fails
    assert hosts.store.errors().startswith("the replica of worker 2:\nTraceback")
    assert not hosts.store.errors()
