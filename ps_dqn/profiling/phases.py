"""What the time from the command to the result went into: phases one after the other."""

import collections
from collections.abc import Sequence
from typing import NamedTuple

from ps_dqn.profiling.rows import COORDINATOR, Row, Segment, segments
from ps_dqn.profiling.timeline import BESIDE, MAIN

# Of a phase so many spans are named, of at least so long each (seconds); and what is in none of
# them, where that is so much of it.
MOST, LEAST, LEAST_UNKNOWN = 5, 0.005, 0.05
UNKNOWN = "in no span"
SCHEDULED, FIRST_UPDATE = "first closure scheduled", "first update"
FIRST_REPORT, TRAINED = "first report of an update", "end of training"
EVALUATING = "evaluating"  # begins the names of evaluations, as the coordinator sees them


class Phase(NamedTuple):
    """A part of the run; the next one begins where it ends."""

    name: str
    began: float  # seconds from the command, as below
    ended: float
    task: str  # on which it hung
    spans: list[tuple[str, float]]  # of that task: the longest, and their seconds in it

    @property
    def seconds(self) -> float:
        """That it took."""
        return self.ended - self.began


def phases(rows: Sequence[Row], total: float) -> list[Phase]:
    """The phases of a run, which add up to all of it.

    Args:
        rows: of all tasks that were heard, the coordinator's among them.
        total: when the run was over (seconds from the command).
    """
    coordinator = next(each for each in rows if each.task == COORDINATOR)
    known = coordinator.instants
    learner = min(
        (each for each in rows if FIRST_UPDATE in each.instants),
        key=lambda each: each.instants[FIRST_UPDATE],
        default=coordinator,
    )
    trained = known.get(TRAINED, total)
    evaluated = max(
        (
            one.ended
            for named in coordinator.spans
            if named.name.startswith(EVALUATING)
            for one in named.stretches
        ),
        default=trained,
    )
    ends = (
        ("start", known.get(SCHEDULED, trained), coordinator),
        ("until the first update", first_update(rows) or trained, learner),
        ("training", trained, learner),
        ("until the last evaluation ended", evaluated, coordinator),
        ("after the last evaluation", total, coordinator),
    )
    found, began = [], 0.0
    for name, end, row in ends:
        ended = min(max(end, began), total)
        found.append(Phase(name, began, ended, row.task, _longest(row, began, ended)))
        began = ended
    return found


def first_update(rows: Sequence[Row]) -> float | None:
    """When it was made (seconds from the command); None where nobody knows of one.

    A worker that was started again has forgotten those before, of which the coordinator has heard.
    """
    known = [
        row.instants[name]
        for row in rows
        for name in (FIRST_UPDATE, FIRST_REPORT)
        if name in row.instants
    ]
    return min(known, default=None)


def _longest(row: Row, began: float, ended: float) -> list[tuple[str, float]]:
    seconds: dict[str, float] = collections.defaultdict(float)
    for each in segments(row.spans, (MAIN, BESIDE)):
        seconds[each.name] += _within(each, began, ended)
    unknown = ended - began - sum(seconds.values())
    if unknown >= LEAST_UNKNOWN * (ended - began):
        seconds[UNKNOWN] = unknown
    longest = sorted(seconds.items(), key=lambda each: each[1], reverse=True)[:MOST]
    return [(name, spent) for name, spent in longest if spent >= LEAST]


def _within(segment: Segment, began: float, ended: float) -> float:
    overlap = min(segment.ended, ended) - max(segment.began, began)
    return max(overlap, 0.0) * segment.share
