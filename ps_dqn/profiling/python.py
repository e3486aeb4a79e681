"""cProfile of the Python of one task, whichever threads it runs on, and a table of it for people.

A profile is of one thread. TensorFlow calls hosted Python on any of its own, so each call has a
profile for its duration. From Python 3.12 on a process can have one at a time, which also hears
what other threads do meanwhile, and mixes it up: calls beside one that is recorded are counted,
and left out.
"""

import cProfile
import io
import marshal
import pathlib
import pstats
import sysconfig
import threading
from collections.abc import Callable
from typing import Any

# How long what is recorded may take to end, once that is asked for (seconds).
PATIENCE = 5.0
# Lines of a table, and what its paths begin with that says nothing.
TOP = 30
_ROOTS = (
    f"{sysconfig.get_path('purelib')}/",
    f"{sysconfig.get_path('stdlib')}/",
    f"{pathlib.Path(__file__).parents[2]}/",
)


class PythonProfile:
    """What Python does in one task; its methods may be called on any thread."""

    def __init__(self) -> None:
        """Has recorded nothing."""
        self._idle: list[cProfile.Profile] = []  # that no thread is using
        self._own: cProfile.Profile | None = None
        self._under_way, self._ended = 0, threading.Condition()
        self.missed = 0  # calls beside one that was recorded

    def call(self, function: Callable[..., Any], *inputs: Any) -> Any:
        """Records a call; what it returns."""
        profile = self._begin()
        if profile is None:
            return function(*inputs)
        try:
            return function(*inputs)
        finally:
            self._end(profile)

    def enter(self) -> None:
        """Records what this thread does from now on."""
        self._own = self._begin()

    def leave(self) -> None:
        """Ends that, on the same thread."""
        if self._own is not None:
            self._end(self._own)
            self._own = None

    def content(self) -> bytes:
        """What was recorded, as a file that `pstats` reads; nothing where nothing was.

        Waits for calls that are under way, of which one may have ended the recording.
        """
        stats = None
        with self._ended:
            self._ended.wait_for(lambda: not self._under_way, PATIENCE)
        for profile in list(self._idle):
            profile.create_stats()
            if profile.stats:
                stats = pstats.Stats(profile) if stats is None else stats.add(profile)
        return marshal.dumps(stats.stats) if stats is not None else b""  # type: ignore[attr-defined]

    def _begin(self) -> cProfile.Profile | None:
        with self._ended:
            profile = self._idle.pop() if self._idle else cProfile.Profile()
            self._under_way += 1
        try:
            profile.enable()
        except ValueError:  # another thread has the process's
            self.missed += 1
            self._put_back(profile)
            return None
        return profile

    def _end(self, profile: cProfile.Profile) -> None:
        profile.disable()
        self._put_back(profile)

    def _put_back(self, profile: cProfile.Profile) -> None:
        with self._ended:
            self._idle.append(profile)
            self._under_way -= 1
            self._ended.notify_all()


def table(path: pathlib.Path, missed: int = 0) -> str:
    """The functions of a file for `pstats` that took most time of their own, for people.

    Args:
        path: of the file.
        missed: calls that are not in it.
    """
    stats: Any = pstats.Stats(str(path), stream=io.StringIO())
    rows = sorted(stats.stats.items(), key=lambda row: row[1][2], reverse=True)
    total = stats.total_tt or 1.0
    lines = [
        f"{stats.total_calls:,} calls of Python functions took {stats.total_tt:.3f} s; "
        f"{min(TOP, len(rows))} of {len(rows)} functions, by their own time"
    ]
    if missed:
        lines.append(f"calls that came while another thread's was recorded are left out: {missed}")
    lines += ["", "own (s)  share  calls      with what it calls (s)  function"]
    for function, (_, calls, own, cumulative, _) in rows[:TOP]:
        lines.append(
            f"{own:7.3f}  {own / total:5.1%}  {calls:<9,}  {cumulative:22.3f}  {_named(function)}"
        )
    return "\n".join(lines) + "\n"


def _named(function: tuple[str, int, str]) -> str:
    file, line, name = function
    if file == "~":
        return name.strip("<>")  # built in
    for root in _ROOTS:
        file = file.removeprefix(root)
    return f"{file}:{line} {name}"
