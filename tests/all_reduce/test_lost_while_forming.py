"""Workers that are lost, or started again, while the coordinator forms a group of them."""

import collections
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from support.asked_hosts import AskedHosts
from support.processes import until

from ps_dqn.errors import ClusterLostError
from ps_dqn.wire import parcels

P = 6
SECONDS = 60.0


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[AskedHosts]:
    """Three that have made three rounds, of which worker 2 was started again."""
    made = AskedHosts(3, P, monkeypatch)
    for number in range(3):
        for i in range(3):
            made.push(i, 1.0, ticket=10 * (number + 1) + i)
        for i in range(3):
            counters = made.exchange(i).replica
            until(lambda c=counters, n=number: c.counters.version > n, SECONDS, "a round")
    made.restart(2)
    yield made
    made.close()


def at(hosts: AskedHosts, method: str, worker: int, do: Callable[[], None], times: int = 1) -> None:
    """Does something once a worker is asked something, the n-th time."""
    heard = collections.Counter[tuple[str, int]]()

    def before(*question: object) -> None:
        heard[question] += 1  # type: ignore[index]
        if question == (method, worker) and heard[question] == times:  # type: ignore[index]
            do()

    hosts.before = before


def same(hosts: AskedHosts, *workers: int) -> None:
    first, *others = (hosts.exchange(each).replica.complete() for each in workers)
    assert first.counters.version == 3
    for each in others:
        np.testing.assert_array_equal(each.online, first.online)
        assert (each.counters, each.log) == (first.counters, first.log)


def test_one_that_was_given_nothing_yet_holds_nothing_where_all_others_are_lost(
    hosts: AskedHosts,
) -> None:
    def lose() -> None:
        hosts.gone |= {0, 1}

    at(hosts, "checkpoint", 0, lose)
    with pytest.raises(ClusterLostError, match="no worker is left that holds the parameters"):
        hosts.store.take_in(2)


@pytest.mark.parametrize("method", ["form", "start", "pause"])
def test_a_member_that_is_another_process_meanwhile_is_taken_in_later(
    hosts: AskedHosts, method: str
) -> None:
    at(hosts, method, 1, lambda: hosts.restart(1))
    hosts.store.take_in(2)
    assert not hosts.errors
    same(hosts, 0, 2)
    hosts.store.take_in(1)
    same(hosts, 0, 1, 2)


def test_a_source_that_is_another_process_meanwhile_is_none(hosts: AskedHosts) -> None:
    at(hosts, "checkpoint", 0, lambda: hosts.restart(0))
    hosts.store.take_in(2)
    assert not hosts.errors
    same(hosts, 1, 2)
    hosts.store.take_in(0)
    same(hosts, 0, 1, 2)


def test_one_that_is_another_process_between_two_parcels_gets_all_of_them_later(
    hosts: AskedHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parcels, "PARCEL", 1)
    at(hosts, "restore", 2, lambda: hosts.restart(2), times=2)
    hosts.store.take_in(2)
    assert not hosts.errors
    same(hosts, 0, 1)
    hosts.store.take_in(2)
    same(hosts, 0, 1, 2)
