"""How the clock of another machine differs from this one's, by asking it (Cristian 1989).

What it says was so at some moment between question and answer. The quickest answer of some says it
best, and is wrong by half of what it took at most, however the way there and the way back differ.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

# Questions to a task: the first ones make the connection.
QUESTIONS = 8


class Offset(NamedTuple):
    """What is to be added to times of another clock for times of this one."""

    seconds: float
    within: float  # so far it may be from the truth, on either side (seconds)


SAME = Offset(0.0, 0.0)


def offset(ask: Callable[[], float], now: Callable[[], float] = time.perf_counter) -> Offset:
    """Asks another clock.

    Processes of one machine have one clock. So where the answers allow that, no offset is made of
    what is only the time that they took.

    Args:
        ask: returns what the other clock says (seconds).
        now: this one (seconds).
    """
    answers = []
    for _ in range(QUESTIONS):
        asked = now()
        said = ask()
        answered = now()
        answers.append(((answered - asked) / 2, (answered + asked) / 2 - said))
    within, seconds = min(answers)
    return SAME if abs(seconds) <= within else Offset(seconds, within)
