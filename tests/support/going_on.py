"""Whether a run that was disturbed goes on, by what it says."""

import re

from support import processes as real
from support.processes import Running


def updates(running: Running) -> int:
    """What the run has said last."""
    return int(re.findall(r" updates +([\d,]+)", running.text)[-1].replace(",", ""))


def trains_on(running: Running, beyond: int) -> None:
    """Returns once it has made more updates than so many."""
    real.until(lambda: updates(running) > beyond, 240, f"updates beyond {beyond}:\n{running.text}")


def evaluated(running: Running) -> None:
    """Returns once it has told of an evaluation."""
    real.until(lambda: re.search(r" eval +[\d.]+ ", running.text), 240, "an evaluation")
