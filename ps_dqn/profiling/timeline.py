"""When a task did what, from its process's start on: spans by name, for `--timeline`.

`with span("building the network"):` is all that a place in the code needs to be on it. The first
word says the kind, which is a colour in the picture. A task records from its first line on, for
what it is told of the flag comes later; `settle` then says whether it goes on. Where it does not,
a span costs a look at one variable.

Times are `time.perf_counter()`, which all processes of a machine share on Linux; the coordinator
finds out how those of other machines differ.
"""

import contextlib
import json
import os
import pathlib
import socket
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

from ps_dqn.profiling.series import Series, Stretch

# Where what overlaps is kept apart: what a task does one after the other, and beside that.
MAIN, BESIDE = "", "beside"
# Names are written in the code; should one be made of something that varies, so many are kept.
MOST_NAMES = 100
OTHERS = "others"
# And so many are told where only a datagram can be.
MOST_BRIEF = 8
_IMPORTED = time.perf_counter()
# Names of series with their lanes, and names of instants.
_Keys = tuple[list[tuple[str, str]], list[str]]


class Named(NamedTuple):
    """All times of one name."""

    name: str
    lane: str
    times: int
    seconds: float
    longest: float  # seconds
    processor: float  # seconds that the process computed, where a `span` has measured it
    stretches: list[Stretch]


class Record(NamedTuple):
    """What a task gives of its timeline; times are of its own clock (seconds)."""

    began: float  # its process did
    host: str
    pid: int
    spans: list[Named]
    instants: dict[str, float]

    def to_json(self) -> str:
        """As it travels."""
        return json.dumps(self)

    @classmethod
    def from_json(cls, text: str) -> "Record":
        """What `to_json` has written."""
        began, host, pid, spans, instants = json.loads(text)
        named = [Named(*each)._replace(stretches=[Stretch(*x) for x in each[-1]]) for each in spans]
        return cls(began, host, pid, named, instants)


class Timeline:
    """Of one task; its methods may be called on any thread."""

    def __init__(self, began: float):
        """Records from now on.

        Args:
            began: when the task's process did.
        """
        self.began, self.is_wanted = began, True
        self._series: dict[tuple[str, str], Series] = {}
        self._instants: dict[str, float] = {}
        self._before: _Keys | None = None  # of what there was before any run
        self._run = ""
        self._lock = threading.Lock()

    def add(
        self, name: str, began: float, ended: float, lane: str = MAIN, processor: float = 0.0
    ) -> None:
        """Adds a span: see `Series.add`."""
        with self._lock:
            key = name, lane
            if key not in self._series and len(self._series) >= MOST_NAMES:
                key = OTHERS, lane
            self._series.setdefault(key, Series()).add(began, ended, processor)

    def instant(self, name: str, at: float) -> None:
        """Something has happened for the first time."""
        self._instants.setdefault(name, at)

    def record(self) -> Record:
        """All there is by now."""
        with self._lock:
            spans = [
                Named(
                    *(name, lane, series.times, series.seconds),
                    *(series.longest, series.processor, series.stretches),
                )
                for (name, lane), series in self._series.items()
            ]
        instants = self.instants()
        return Record(self.began, socket.gethostname(), os.getpid(), spans, instants)

    def instants(self) -> dict[str, float]:
        """What has happened, and when it did for the first time; on any thread."""
        return dict(self._instants)

    def settle(self, is_wanted: bool, run: str) -> None:
        """A run begins, of which more is wanted or is not; what is of earlier runs is forgotten.

        Args:
            is_wanted: whether it is.
            run: its name, by which it is known where it goes on; empty: it is another one.
        """
        with self._lock:
            self.is_wanted = is_wanted
            if run and run == self._run:
                return
            self._run = run
            if self._before is not None:
                keys, instants = self._before
                self._series = {key: self._series[key] for key in keys}
                self._instants = {name: self._instants[name] for name in instants}
            self._before = list(self._series), list(self._instants)


def process_began() -> float:
    """When this process did, its interpreter's start included (`time.perf_counter()`).

    Linux knows it to a hundredth of a second; elsewhere it is when this module was imported.
    """
    with contextlib.suppress(OSError, AttributeError, IndexError, ValueError):
        text = pathlib.Path("/proc/self/stat").read_text(encoding="utf-8")
        fields = text.rpartition(")")[2].split()
        since_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot
        return time.perf_counter() - age
    return _IMPORTED


class _Here(threading.local):
    """Whose timeline this thread records on, where that is not the process's own."""

    timeline: Timeline | None = None


_here = _Here()
_own = Timeline(min(process_began(), _IMPORTED))
# By task, where this process has several (an in-process cluster).
_several: dict[Hashable, Timeline] | None = None
_NOTHING = contextlib.nullcontext()


def begin(doing: str) -> None:
    """This process is a task from now on, maybe a fork of another one, whose past is not its own.

    Args:
        doing: what it has done from its start to here.
    """
    global _own
    is_wanted, now = _own.is_wanted, time.perf_counter()
    _own = Timeline(min(process_began(), now))
    _own.is_wanted = is_wanted
    _own.add(doing, _own.began, now, processor=time.process_time())


def share() -> None:
    """This process has several tasks from now on: see `hosted`."""
    global _several
    _several = {}


@contextlib.contextmanager
def _of(task: Hashable, tasks: dict[Hashable, Timeline]) -> Iterator[None]:
    outer, wanted = _here.timeline, _own.is_wanted
    if task not in tasks:
        tasks[task] = Timeline(time.perf_counter())
        tasks[task].is_wanted = wanted
    _here.timeline = tasks[task]
    try:
        yield
    finally:
        _here.timeline = outer


def hosted(task: Hashable) -> contextlib.AbstractContextManager[None]:
    """A block that is done by a task, named somehow, where this process has several."""
    return _NOTHING if _several is None else _of(task, _several)


def _current() -> Timeline:
    return _here.timeline or _own


class _Span:
    def __init__(self, timeline: Timeline, name: str):
        self._timeline, self._name = timeline, name

    def __enter__(self) -> None:
        self._began, self._processor = time.perf_counter(), time.process_time()

    def __exit__(self, *_: Any) -> None:
        used = time.process_time() - self._processor
        self._timeline.add(self._name, self._began, time.perf_counter(), processor=used)


def is_wanted() -> bool:
    """Whether anything comes of the others."""
    return _current().is_wanted


def span(name: str) -> contextlib.AbstractContextManager[None]:
    """A block that is on the timeline, if that is wanted."""
    timeline = _current()
    return _Span(timeline, name) if timeline.is_wanted else _NOTHING


def add(name: str, began: float, ended: float | None = None, lane: str = MAIN) -> None:
    """A span that is no block.

    Args:
        name: of it.
        began: `time.perf_counter()` then.
        ended: likewise; None: now.
        lane: `BESIDE` where something else may go on.
    """
    timeline = _current()
    if timeline.is_wanted:
        timeline.add(name, began, time.perf_counter() if ended is None else ended, lane)


def until(name: str) -> Callable[[], None]:
    """A span from now to the call of what is returned, where that is no block."""
    opened = contextlib.ExitStack()
    opened.enter_context(span(name))
    return opened.close


def instant(name: str, at: float | None = None) -> None:
    """Something has happened, at `time.perf_counter()` or now; the first time of it counts."""
    timeline = _current()
    if timeline.is_wanted:
        timeline.instant(name, time.perf_counter() if at is None else at)


def settle(is_wanted: bool, run: str = "") -> None:
    """Now that a run has said so; see `Timeline.settle`."""
    _current().settle(is_wanted, run)


def instants() -> dict[str, float]:
    """What this task has seen happen for the first time, and when."""
    return _current().instants()


def now() -> float:
    """The clock of all times here (seconds)."""
    return time.perf_counter()


def record() -> Record:
    """What this task has recorded."""
    return _current().record()


class Brief(NamedTuple):
    """All times of one name in a few numbers, for who can be asked for no more than that."""

    name: str
    began: float  # so long ago the first of them did (seconds)
    ended: float  # and the last one
    times: int
    seconds: float  # all of them took


def briefly() -> list[Brief]:
    """What this task has recorded, by name; nothing where that is not wanted."""
    timeline, now = _current(), time.perf_counter()
    if not timeline.is_wanted:
        return []
    return [
        Brief(
            each.name,
            round(now - each.stretches[0].began, 4),
            round(now - each.stretches[-1].ended, 4),
            each.times,
            round(each.seconds, 4),
        )
        for each in timeline.record().spans[:MOST_BRIEF]
    ]
