"""Where a run is: what pushes were worth, and how many workers push."""

import pytest

from ps_dqn.parameter_server.clock import Clock
from ps_dqn.state import Counters
from ps_dqn.wire.messages import Entry

pytestmark = pytest.mark.usefixtures("looks_back_on_three_rounds")


def entry(**values: int) -> Entry:
    return Entry(**{**dict.fromkeys(Entry._fields, 0), **values})


def seen(clock: Clock, *workers: int, times: int = 1) -> int:
    for _ in range(times):
        for worker in workers:
            clock.see(worker)
    return clock.workers


# How many workers push.


def test_all_workers_count_until_enough_pushes_were_seen() -> None:
    clock = Clock(4)
    assert clock.workers == 4
    # Three pushes of every worker are looked back upon, 12; until then one may only be slow.
    for _ in range(11):
        assert seen(clock, 0) == 4
    assert seen(clock, 0) == 1


def test_one_worker_is_always_one() -> None:
    clock = Clock(1)
    for _ in range(10):
        assert clock.workers == 1
        clock.see(0)


def test_who_pushes_among_the_others_counts() -> None:
    clock = Clock(4)
    assert seen(clock, 0, 1, 2, 3, times=10) == 4
    # A third as fast as the others: once in the last 12 pushes.
    for _ in range(5):
        for worker in [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 3]:
            assert seen(clock, worker) == 4


def test_lost_workers_stop_counting_after_as_many_pushes_as_are_looked_back_upon() -> None:
    clock = Clock(4)
    seen(clock, 0, 1, 2, 3, times=6)
    # The last push of worker 3 is the newest, that of worker 2 the one before it.
    assert seen(clock, 0, 1, times=5) == 4
    assert seen(clock, 0) == 3, "11 pushes after its last, worker 2 is out of sight"
    assert seen(clock, 1) == 2, "and worker 3 one push later"
    assert seen(clock, 0, times=12) == 1


def test_a_worker_that_comes_back_counts_at_once() -> None:
    clock = Clock(3)
    assert seen(clock, 0, times=9) == 1
    assert seen(clock, 2) == 2
    assert seen(clock, 1) == 3
    # And is lost again like any other: each is out of sight after nine pushes of others.
    assert seen(clock, 0, times=7) == 3
    assert seen(clock, 0) == 2
    assert seen(clock, 0) == 1


def test_what_is_looked_back_upon_goes_with_the_number_of_workers() -> None:
    for num_workers in (2, 5):
        clock = Clock(num_workers)
        assert seen(clock, 0, times=3 * num_workers - 1) == num_workers
        assert seen(clock, 0) == 1


# What pushes bring.


def test_counters_move_for_all_pushes_of_a_version() -> None:
    clock = Clock(2)
    assert clock.counters == Counters(0, 0, 0, 0, 0)
    pushes = [entry(updates=64, env_steps=32, episodes=3), entry(updates=64, env_steps=8)]
    clock.count(pushes, 64.0)
    assert clock.counters == Counters(1, 128, 40, 3, 64)
    clock.count([entry(updates=1, env_steps=5, episodes=1)], 1.0)
    assert clock.counters == Counters(2, 129, 45, 4, 65)


def test_pushes_without_a_version_bring_their_steps() -> None:
    clock = Clock(2)
    clock.count([entry(env_steps=32, episodes=3)])
    assert clock.counters == Counters(0, 0, 32, 3, 0)


@pytest.mark.parametrize("local_updates", [1, 2, 64, 100])
@pytest.mark.parametrize("workers", [1, 2, 3, 5, 6, 7, 8, 12, 30])
def test_fractions_of_sequential_updates_add_up_exactly(workers: int, local_updates: int) -> None:
    clock = Clock(workers)
    for push in range(1, 2001):
        clock.count([entry(updates=local_updates)], local_updates / workers)
        # In whole numbers, so that nothing is rounded.
        assert clock.counters.sequential_updates == push * local_updates // workers
        assert clock.counters.updates == push * local_updates


def test_fractions_are_kept_over_pushes_of_other_worth() -> None:
    clock = Clock(4)
    found = []
    # None is a refused push, the last two are of one worker that is left.
    for worth in (0.75, 0.75, None, 0.75, 0.5, 1.25, 3.0, 3.0):
        clock.count([entry()], worth)
        found.append(clock.counters.sequential_updates)
    # 0.75, 1.5, 1.5, 2.25, 2.75, 4, 7, 10
    assert found == [0, 1, 1, 2, 2, 4, 7, 10]
    assert clock.counters.version == 7


def test_counters_that_are_put_back_go_on() -> None:
    clock = Clock(8)
    clock.counters = Counters(9, 576, 700, 2, 72)
    for _ in range(8):
        clock.count([entry(updates=64)], 64 / 8)
    assert clock.counters == Counters(17, 1088, 700, 2, 136)
