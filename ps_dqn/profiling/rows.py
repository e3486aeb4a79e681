"""The timelines of all tasks of a run on one clock: seconds from the command on."""

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ps_dqn.profiling.clocks import SAME, Offset
from ps_dqn.profiling.series import Stretch
from ps_dqn.profiling.timeline import MAIN, Brief, Named, Record

COORDINATOR = "coordinator"


class Row(NamedTuple):
    """One task."""

    task: str  # worker-0
    began: float  # its process did; before 0 where it was there before the command
    spans: list[Named]
    instants: dict[str, float]
    host: str = ""
    pid: int = 0
    offset: Offset = SAME
    note: str = ""  # what is missing, for people


class Segment(NamedTuple):
    """What a task did, with nothing else in it."""

    name: str
    began: float
    ended: float
    share: float  # of its time

    @property
    def seconds(self) -> float:
        """That it took."""
        return self.share * (self.ended - self.began)


def row(task: str, record: Record, entered: float, offset: Offset = SAME) -> Row:
    """A task's record on the coordinator's clock.

    Args:
        task: its name.
        record: by its own clock.
        entered: when the command began, by the coordinator's.
        offset: of the two.
    """
    shift = offset.seconds - entered
    spans = []
    for named in record.spans:
        shifted = [
            one._replace(began=one.began + shift, ended=one.ended + shift)
            for one in named.stretches
        ]
        # A task that others have started may have served other runs before.
        kept = [_since_the_command(one) for one in shifted if one.ended > 0]
        if kept:
            spans.append(named._replace(stretches=kept))
    instants = {name: at + shift for name, at in record.instants.items() if at + shift >= 0}
    return Row(task, record.began + shift, spans, instants, record.host, record.pid, offset)


def briefly(task: str, told: Iterable[Brief], at: float) -> Row:
    """The row of a task that has told of itself in a few numbers.

    Args:
        task: its name.
        told: what it has said.
        at: when that was (seconds from the command).
    """
    spans = []
    for each in told:
        one = Stretch(at - each.began, at - each.ended, each.times, each.seconds)
        if one.ended > 0:
            kept = [_since_the_command(one)]
            spans.append(Named(each.name, MAIN, each.times, each.seconds, 0.0, 0.0, kept))
    began = min((one.began for named in spans for one in named.stretches), default=0.0)
    return Row(task, began, spans, {})


def _since_the_command(one: Stretch) -> Stretch:
    if one.began >= 0:
        return one
    share = one.seconds / (one.ended - one.began)
    return one._replace(began=0.0, seconds=share * one.ended)


def segments(spans: Iterable[Named], lanes: Sequence[str]) -> list[Segment]:
    """What was done when; of blocks in each other, the innermost alone.

    Stretches of which many were put together come as one, with their share of its time.

    Args:
        spans: of a task.
        lanes: those that are looked at, each for itself.
    """
    found = []
    for lane in lanes:
        whole = []
        for named in (each for each in spans if each.lane == lane):
            for one in named.stretches:
                length = one.ended - one.began
                if length > 0 and one.seconds < 0.999 * length:
                    share = one.seconds / length
                    found.append(Segment(named.name, one.began, one.ended, share))
                elif length > 0:
                    whole.append(Segment(named.name, one.began, one.ended, 1.0))
        found += _innermost(whole)
    return sorted(found, key=lambda each: each.began)


def _innermost(whole: list[Segment]) -> list[Segment]:
    """Of overlapping segments, at each moment the one that began last."""
    coming = sorted(whole, key=lambda each: each.began, reverse=True)
    places = sorted({each.began for each in whole} | {each.ended for each in whole})
    active: list[Segment] = []
    found: list[Segment] = []
    for began, ended in itertools.pairwise(places):
        while coming and coming[-1].began <= began:
            active.append(coming.pop())
        active = [each for each in active if each.ended > began]
        if not active:
            continue
        inner = max(active, key=lambda each: (each.began, -each.ended))
        if found and found[-1].name == inner.name and found[-1].ended == began:
            found[-1] = found[-1]._replace(ended=ended)
        else:
            found.append(inner._replace(began=began, ended=ended))
    return found
