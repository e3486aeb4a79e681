"""The timelines of all tasks, fetched at the end of a run and left in its folder.

They come by the road of `profiles`: a call of a task's process by the bridge. Each task keeps its
own until it is asked, so a run pays nothing for it on the way; one that has died since has taken
its own along. Nothing here ends the run, or delays it by more than a while.
"""

import pathlib
import queue
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf
from rich.console import Console
from rich.table import Table
from tensorflow.python.eager import context, executor

from ps_dqn import user_code
from ps_dqn.cluster.pulse import Heard
from ps_dqn.cluster.spec import ClusterSpec, Task
from ps_dqn.profiling import chrome, clocks, phases, picture, rows, timeline
from ps_dqn.profiling.clocks import Offset
from ps_dqn.profiling.phases import Phase
from ps_dqn.profiling.rows import Row
from ps_dqn.profiling.timeline import Record
from ps_dqn.run import directory, stages, terminal
from ps_dqn.wire import asking, bridge

# How long all tasks may take to answer, and those of a stopped run, and how many are asked at once.
LAST_SECONDS, STOPPED_SECONDS, AT_ONCE = 5.0, 1.0, 8


class Answer(NamedTuple):
    """What a task has said."""

    record: Record  # by its own clock
    offset: Offset


class Timelines:
    """Of the tasks of one run; nothing where it is not asked for."""

    def __init__(
        self,
        is_wanted: bool,
        spec: ClusterSpec,
        folder: pathlib.Path,
        console: Console,
        heard: Callable[[], Mapping[Task, Heard]] = dict,
        ask: Callable[[Task], Answer] | None = None,
    ):
        """Has heard of nobody.

        Args:
            is_wanted: whether there are some.
            spec: the cluster.
            folder: of the run.
            console: shows people the table.
            heard: what actors, whom TensorFlow does not know, have last said by a pulse.
            ask: a task of TensorFlow's for its timeline; where not said, by the bridge.
        """
        self._is_wanted, self._spec, self._folder = is_wanted, spec, folder
        self._console, self._heard, self._ask = console, heard, ask or ask_at
        self._answers: dict[Task, Answer] = {}
        self._notes: dict[Task, str] = {}

    def fetch(self, is_over: bool) -> None:
        """Asks every task, while there is a connection to them.

        Args:
            is_over: the run has come to its end, rather than been stopped, so there is time.
        """
        if not self._is_wanted:
            return
        waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
        for task in self._spec.tasks():
            waiting.put(task)
        threads = [
            threading.Thread(target=self._fetch, args=[waiting], name="timelines", daemon=True)
            for _ in range(min(AT_ONCE, waiting.qsize()))
        ]
        with stages.stage("fetching timelines", self._say):
            deadline = time.monotonic() + (LAST_SECONDS if is_over else STOPPED_SECONDS)
            for thread in threads:
                thread.start()
            for thread in threads:  # one whose task never answers is left behind
                thread.join(max(deadline - time.monotonic(), 0.0))

    def leave(self) -> None:
        """Writes what there is, once everything else is done, and shows where the time went."""
        if not self._is_wanted:
            return
        own, total = timeline.record(), time.perf_counter()
        found = self._rows(own)
        parts = phases.phases(found, total - own.began)
        path, drawn = (
            self._folder / name for name in (directory.TIMELINE, directory.TIMELINE_PICTURE)
        )
        try:
            path.write_text(chrome.encode(found, parts, total - own.began), encoding="utf-8")
            terminal.show(self._console, _table(parts))
            for row in found:
                if row.note:
                    self._say(f"timeline: {row.task}: {row.note}")
            picture.draw(drawn, found, total - own.began, self._folder.name)
            self._say(f"timeline: {drawn}; {path} opens at https://ui.perfetto.dev")
        except OSError as error:
            self._say(f"timeline: it cannot be written ({error.strerror or error})")
        except Exception as error:  # of Matplotlib, which a user's settings may break
            traceback.print_exception(error)  # into the log
            self._say(f"timeline: {drawn} could not be drawn ({user_code.one_line(error)})")

    def _fetch(self, waiting: "queue.SimpleQueue[Task]") -> None:
        with context.executor_scope(executor.new_executor(enable_async=False)):
            while True:
                try:
                    task = waiting.get(block=False)
                except queue.Empty:
                    return
                try:
                    self._answers[task] = self._ask(self._spec.place(task))
                except tf.errors.OpError:
                    self._notes[task] = "it does not answer: what it did is not known"
                except Exception as error:  # of this task; it is no reason to end a run
                    self._notes[task] = f"{type(error).__name__}: {error}"

    def _rows(self, own: Record) -> list[Row]:
        found = [rows.row(rows.COORDINATOR, own, own.began)]
        for task in self._spec.tasks():
            name, answer = f"{task.job}-{task.index}", self._answers.get(task)
            if answer is None:
                note = self._notes.get(task, "no answer in time: what it did is not known")
                found.append(Row(name, 0.0, [], {}, note=note))
            else:
                found.append(rows.row(name, answer.record, own.began, answer.offset))
        return found + [self._of_actor(index, own) for index in range(len(self._spec.actors))]

    def _of_actor(self, index: int, own: Record) -> Row:
        name, heard = f"actor-{index}", self._heard().get(Task("actor", index))
        if heard is None or heard.content is None:
            return Row(name, 0.0, [], {}, note="no pulse of it: what it did is not known")
        told = [timeline.Brief(*each) for each in heard.content.get("timeline", ())]
        ago = time.monotonic() - heard.at
        return rows.briefly(name, told, timeline.now() - ago - own.began)

    def _say(self, line: str) -> None:
        terminal.say(self._console, line)


def ask_at(place: Task) -> Answer:
    """The timeline of a task as TensorFlow knows it, and how its clock differs."""
    device = f"/job:{place.job}/replica:0/task:{place.index}/device:CPU:0"
    number = bridge.number(place)
    offset = clocks.offset(lambda: asking.clock(device, number))
    return Answer(asking.timeline(device, number), offset)


def _table(parts: list[Phase]) -> Table:
    """Seconds by phase, which add up."""
    total = parts[-1].ended
    table = Table(title="From the command to the result", title_justify="left", show_footer=True)
    table.add_column("", "all of it")
    table.add_column("s", f"{total:.2f}", justify="right")
    table.add_column("what took longest in it (s)", "")
    for each in parts:
        spans = ", ".join(f"{name} {seconds:.2f}" for name, seconds in each.spans)
        table.add_row(each.name, f"{each.seconds:.2f}", f"{each.task}: {spans}" if spans else "")
    return table
