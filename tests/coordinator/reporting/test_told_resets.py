"""What people hear of parameters that begin anew."""

from ps_dqn.config import Resets
from ps_dqn.coordinator.reporting.resets import ToldResets
from ps_dqn.state import Counters


def told(period: int, *sequential_updates: float) -> list[str]:
    said: list[str] = []
    resets = ToldResets(Resets(reset_period=period), said.append)
    for number in sequential_updates:
        resets.hear(Counters(1, 1, 1, 1, number))
    return said


def test_each_is_told_of_once() -> None:
    lines = told(100, 0, 90, 99.5, 100, 110, 199, 230, 225, 299, 520)
    assert [line.split(": ")[0] for line in lines] == [
        f"reset {number} (--reset_period=100)" for number in (1, 2, 5)
    ]


def test_one_before_the_run_was_resumed_is_no_news() -> None:
    assert told(100, 350, 399) == []
    assert len(told(100, 350, 400)) == 1


def test_without_resets_nothing_is_said() -> None:
    assert told(0, 0, 10**6) == []
