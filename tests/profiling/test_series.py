"""Times of one name, more of them than are kept one by one."""

import pytest

from ps_dqn.profiling.series import BETWEEN, FIRST, LAST, Series, Stretch


def filled(number: int, length: float = 0.25) -> Series:
    """One time each second, of so long."""
    series = Series()
    for second in range(number):
        series.add(second, second + length)
    return series


def test_few_are_kept_as_they_were() -> None:
    series = filled(3)
    assert series.stretches == [Stretch(i, i + 0.25, 1, 0.25) for i in range(3)]
    assert (series.times, series.seconds, series.longest) == (3, 0.75, 0.25)


@pytest.mark.parametrize("number", [FIRST, FIRST + LAST, 200, 5_000, 50_000])
def test_many_take_no_more_room_and_nothing_is_lost(number: int) -> None:
    series = filled(number)
    found = series.stretches
    assert len(found) <= FIRST + LAST + 2 * BETWEEN
    assert sum(each.times for each in found) == series.times == number
    assert sum(each.seconds for each in found) == pytest.approx(0.25 * number)
    assert series.seconds == pytest.approx(0.25 * number)
    # The first and the last ones as they were, and all in order.
    assert found[0] == Stretch(0, 0.25, 1, 0.25)
    assert found[-1] == Stretch(number - 1, number - 0.75, 1, 0.25)
    begins = [each.began for each in found]
    assert begins == sorted(begins)
    assert all(each.ended - each.began >= each.seconds - 1e-9 for each in found)


def test_those_between_are_about_equally_long() -> None:
    found = [each for each in filled(20_000).stretches if each.times > 1]
    lengths = sorted(each.ended - each.began for each in found)
    assert lengths[-1] < 6 * lengths[len(lengths) // 2]


def test_one_that_goes_on_is_one() -> None:
    series = Series()
    for began, ended in ((1.0, 2.0), (2.0, 3.0), (3.5, 4.0)):
        series.add(began, ended, processor=0.5)
    assert series.stretches == [Stretch(1.0, 3.0, 1, 2.0), Stretch(3.5, 4.0, 1, 0.5)]
    assert (series.times, series.seconds, series.longest) == (2, 2.5, 2.0)
    assert series.processor == 1.5


def test_times_of_no_length_can_be_put_together() -> None:
    series = Series()
    for _ in range(FIRST + LAST + 2 * BETWEEN + 1):
        series.add(7.0, 7.0)
        series.add(6.0, 6.0)  # else it would go on
    assert sum(each.times for each in series.stretches) == series.times
