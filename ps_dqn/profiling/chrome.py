"""Timelines as a file that Perfetto and chrome://tracing open: Chrome's trace-event format.

What viewers do not know, and leave alone, is under the key `ps_dqn`: each task's totals by name,
its clock, and the phases of the run. Times of events are microseconds from the command on.
"""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

from ps_dqn.profiling.phases import Phase
from ps_dqn.profiling.rows import Row
from ps_dqn.profiling.timeline import BESIDE

# Of the format of `ps_dqn`; another one where a key changes its meaning.
VERSION = 1
_MICRO = 1e6


@dataclasses.dataclass(frozen=True)
class _Lane:
    """A line of a task in a viewer."""

    number: int
    name: str

    def tid(self, place: int) -> int:
        """As a thread's number, which no other process has: some viewers take it for that."""
        return len(_LANES) * place + self.number


_LANES = {
    (False, False): _Lane(0, "what it did"),
    (True, False): _Lane(1, "and beside that"),
    (False, True): _Lane(2, "what it did, many times put together"),
    (True, True): _Lane(3, "and beside that, many times put together"),
}


def encode(rows: Sequence[Row], phases: Sequence[Phase], total: float) -> str:
    """The text of the file.

    Args:
        rows: of all tasks.
        phases: of the run.
        total: from the command to its end (seconds).
    """
    # To viewers process 0 and thread 0 are no work at all.
    events = [event for place, row in enumerate(rows, start=1) for event in _events(place, row)]
    content = {
        "displayTimeUnit": "ms",
        "traceEvents": events,
        "ps_dqn": {
            "version": VERSION,
            "total_seconds": round(total, 6),
            "phases": [_phase(each) for each in phases],
            "tasks": {row.task: _task(row) for row in rows},
        },
    }
    return json.dumps(content, allow_nan=False) + "\n"


def _events(place: int, row: Row) -> Iterator[dict[str, Any]]:
    first = _LANES[False, False].tid(place)
    yield _named("process_name", place, first, {"name": row.task})
    yield _named("process_sort_index", place, first, {"sort_index": place})
    used = set()
    for named in row.spans:
        for one in named.stretches:
            lane = _LANES[named.lane == BESIDE, one.times > 1]
            used.add(lane)
            event = {
                "ph": "X",
                "name": named.name,
                "cat": named.name.split()[0],
                "pid": place,
                "tid": lane.tid(place),
                "ts": round(one.began * _MICRO, 1),
                "dur": round((one.ended - one.began) * _MICRO, 1),
            }
            if one.times > 1:
                event["args"] = {"times": one.times, "seconds": round(one.seconds, 6)}
            yield event
    for lane in used:
        yield _named("thread_name", place, lane.tid(place), {"name": lane.name})
    for name, at in row.instants.items():
        yield {
            "ph": "i",
            "s": "p",
            "name": name,
            "pid": place,
            "tid": first,
            "ts": round(at * _MICRO, 1),
        }


def _named(kind: str, place: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": place, "tid": tid, "args": args}


def _phase(phase: Phase) -> dict[str, Any]:
    return {
        "name": phase.name,
        "seconds": round(phase.seconds, 6),
        "task": phase.task,
        "spans": {name: round(seconds, 6) for name, seconds in phase.spans},
    }


def _task(row: Row) -> dict[str, Any]:
    totals = {}
    for named in row.spans:
        key = f"{named.name} ({named.lane})" if named.lane else named.name
        totals[key] = {
            "times": named.times,
            "seconds": round(named.seconds, 6),
            "longest_seconds": round(named.longest, 6),
            "processor_seconds": round(named.processor, 6),
        }
    return {
        "host": row.host,
        "pid": row.pid,
        "process_began": round(row.began, 6),
        "clock_offset_seconds": round(row.offset.seconds, 6),
        "clock_within_seconds": round(row.offset.within, 6),
        "note": row.note,
        "instants": {name: round(at, 6) for name, at in row.instants.items()},
        "totals": totals,
    }
