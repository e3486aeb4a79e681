"""Which pushes a worker keeps, and for how long."""

import numpy as np
import pytest

from ps_dqn.wire import messages
from ps_dqn.wire.messages import NO_NUMBER, UNDECIDED, Kind, PushHeader, Verdict
from ps_dqn.worker.pushes.kept_pushes import COLUMNS, KeptPushes


def header(ticket: int) -> np.ndarray:
    return messages.pack(PushHeader(*[0] * len(PushHeader._fields))._replace(ticket=ticket))


def verdict(number: int) -> Verdict:
    return Verdict(Kind.LATE, 0, 1, number, 8, 2, 3, 4, 5)


def kept(*numbers: int, most_bytes: int = 1000) -> KeptPushes:
    """Pushes of tickets 10, 11, …, each of 10 bytes, of these numbers."""
    pushes = KeptPushes(most_bytes)
    for i, number in enumerate(numbers):
        pushes.add(header(10 + i), [np.full(6, i, np.uint8), np.full(4, i, np.uint8)])
        pushes.decided(verdict(number))
    return pushes


def tickets(pushes: KeptPushes) -> list[int]:
    return [pushes[i].ticket for i in range(len(pushes))]


def test_a_push_is_kept_until_a_snapshot_has_it():
    pushes = kept(3, 5, 6)
    pushes.forget(safe=5, oldest=100)
    assert tickets(pushes) == [11, 12]
    pushes.forget(safe=7, oldest=0)
    assert tickets(pushes) == []


def test_one_that_nobody_has_decided_is_kept_while_its_ticket_may_come():
    pushes = kept(3, UNDECIDED)
    assert pushes.awaits_verdict
    pushes.forget(safe=100, oldest=11)
    assert tickets(pushes) == [11]
    pushes.forget(safe=100, oldest=12)
    assert tickets(pushes) == []
    assert not pushes.awaits_verdict


def test_of_a_repetition_the_servers_have_another_vector():
    pushes = kept(0, UNDECIDED, UNDECIDED)
    pushes.decided(verdict(NO_NUMBER), 1)
    assert len(pushes[1].messages) == 0
    assert tickets(pushes) == [10, 11, 12], "places stay as the coordinator knows them"
    pushes.forget(safe=0, oldest=0)
    assert tickets(pushes) == [10, 12]


def test_the_oldest_go_where_memory_ends_but_never_the_last():
    assert tickets(kept(0, 1, 2, 3, most_bytes=25)) == [12, 13]
    assert tickets(kept(0, 1, 2, most_bytes=1)) == [12]
    # What was let go leaves its room.
    pushes = kept(0, 1, most_bytes=25)
    pushes.forget(safe=2, oldest=0)
    for ticket in (20, 21):
        pushes.add(header(ticket), [np.zeros(12, np.uint8)])
    assert tickets(pushes) == [20, 21]


def test_the_table_has_each_header_and_number():
    table = kept(4, UNDECIDED).table()
    assert table.dtype == np.int64
    tickets = [messages.unpack(PushHeader, line[3:]).ticket for line in table]
    assert (table[:, 0].tolist(), tickets) == ([4, UNDECIDED], [10, 11])
    assert table[0, 1:3].tolist() == [Kind.LATE, 8]
    assert kept().table().shape == (0, COLUMNS)


@pytest.mark.parametrize(("first", "most", "places"), [(0, 1000, 4), (1, 20, 2), (3, 5, 1)])
def test_several_are_sent_at_once(first: int, most: int, places: int):
    sizes, left, right = kept(0, 1, 2, 3).several(first, most)
    assert sizes.tolist() == [[6, 4]] * places
    numbers = range(first, first + places)
    np.testing.assert_array_equal(left, np.repeat(numbers, 6))
    np.testing.assert_array_equal(right, np.repeat(numbers, 4))


def test_one_whose_vector_is_another_is_not_sent():
    pushes = kept(0, 1, NO_NUMBER, 3)
    assert pushes.several(0, 99)[0].tolist() == [[6, 4]] * 2
    assert pushes.several(3, 99)[0].tolist() == [[6, 4]]
