"""How the timelines of tasks come into the run directory, and tasks that do not give theirs."""

import io
import json
import pathlib
import threading
import time
import types
from typing import Any

import pytest
import tensorflow as tf
from rich.console import Console
from support import processes as real

from ps_dqn.cluster.spec import ClusterSpec, Task
from ps_dqn.coordinator.reporting import timelines
from ps_dqn.coordinator.reporting.timelines import Answer, Timelines
from ps_dqn.profiling import picture, timeline
from ps_dqn.profiling.clocks import SAME, Offset
from ps_dqn.profiling.timeline import Record, Timeline

SPEC = ClusterSpec("chief:1", ("ps:1",), ("worker:1", "worker:2"), ("replay:1",))


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Timeline:
    """The coordinator's, of a command that came ten seconds ago."""
    made = Timeline(time.perf_counter() - 10.0)
    made.add("importing TensorFlow", made.began, made.began + 3.0)
    made.instant("first closure scheduled", made.began + 4.0)
    made.instant("end of training", made.began + 9.0)
    monkeypatch.setattr(timeline, "_own", made)
    return made


class Case:
    """A run whose tasks answer as a test says."""

    def __init__(self, folder: pathlib.Path, own: Timeline, is_wanted: bool = True):
        self.folder, self._own = folder, own
        self.answers: dict[Task, Any] = {}
        self.asked: list[Task] = []
        self.console = Console(record=True, width=120, file=io.StringIO())
        self.timelines = Timelines(is_wanted, SPEC, folder, self.console, ask=self._ask)

    def _ask(self, place: Task) -> Answer:
        task = SPEC.task_at(place)
        self.asked.append(task)
        answer = self.answers.get(task)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, threading.Event):
            answer.wait()
        return answer if isinstance(answer, Answer) else self.of(5.0)

    def of(self, at: float, offset: Offset = SAME) -> Answer:
        """A task that has made its first update then, by a clock that differs so."""
        began = self._own.began - offset.seconds
        found = Timeline(began + 3.5)
        found.add("collecting", began + at - 0.5, began + at)
        found.instant("first update", began + at)
        return Answer(found.record(), offset)

    def left(self) -> dict[str, Any]:
        self.timelines.leave()
        content: dict[str, Any] = json.loads((self.folder / "timeline.json").read_text())
        return content["ps_dqn"]

    @property
    def said(self) -> str:
        return " ".join(self.console.export_text().split())


def test_every_task_of_a_run_is_asked(tmp_path: pathlib.Path, own: Timeline) -> None:
    case = Case(tmp_path, own)
    case.answers[Task("worker", 1)] = case.of(4.5)
    case.timelines.fetch(is_over=True)
    left = case.left()
    assert sorted(map(str, case.asked)) == sorted(map(str, SPEC.tasks()))
    assert list(left["tasks"]) == ["coordinator", "ps-0", "replay-0", "worker-0", "worker-1"]
    assert not any(each["note"] for each in left["tasks"].values())
    seconds = {each["name"]: each["seconds"] for each in left["phases"]}
    assert seconds["start"] == pytest.approx(4.0, abs=1e-4)
    assert seconds["until the first update"] == pytest.approx(0.5, abs=1e-4)  # of the first
    assert sum(seconds.values()) == pytest.approx(left["total_seconds"], abs=1e-4)
    assert left["total_seconds"] >= 10.0
    assert (tmp_path / "timeline.png").stat().st_size > 10_000
    assert "start 4.00 coordinator: importing TensorFlow 3.00" in case.said.replace("│ ", "")


def test_clocks_of_other_machines_are_put_right(tmp_path: pathlib.Path, own: Timeline) -> None:
    case = Case(tmp_path, own)
    case.answers[Task("worker", 0)] = case.of(4.5, Offset(-1e6, 0.002))
    case.timelines.fetch(is_over=True)
    found = case.left()["tasks"]["worker-0"]
    assert found["instants"]["first update"] == pytest.approx(4.5, abs=1e-4)
    assert found["process_began"] == pytest.approx(3.5, abs=1e-4)
    assert (found["clock_offset_seconds"], found["clock_within_seconds"]) == (-1e6, 0.002)


def test_tasks_that_do_not_answer_hold_nobody_up(
    tmp_path: pathlib.Path, own: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(tmp_path, own)
    hangs = threading.Event()
    ends = iter([timelines.LAST_SECONDS])

    def monotonic() -> float:
        """Time stands still until all have answered but one, and then is up."""
        if (left := next(ends, None)) is not None:
            return -left
        real.until(lambda: len(case.timelines._answers) + len(case.timelines._notes) == 3, 60, "3")
        return 0.0

    clock = types.SimpleNamespace(monotonic=monotonic, perf_counter=time.perf_counter)
    monkeypatch.setattr(timelines, "time", clock)
    case.answers[Task("worker", 0)] = tf.errors.UnavailableError(None, None, "gone")
    case.answers[Task("ps", 0)] = hangs
    case.answers[Task("replay", 0)] = ValueError("no JSON")
    case.timelines.fetch(is_over=True)
    tasks = case.left()["tasks"]
    hangs.set()
    assert tasks["worker-0"]["note"] == "it does not answer: what it did is not known"
    assert tasks["ps-0"]["note"] == "no answer in time: what it did is not known"
    assert tasks["replay-0"]["note"] == "ValueError: no JSON"
    assert tasks["worker-1"]["instants"].keys() == {"first update"}
    assert "timeline: ps-0: no answer in time: what it did is not known" in case.said


def test_more_tasks_hang_than_are_asked_at_once(
    tmp_path: pathlib.Path, own: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "STOPPED_SECONDS", 0.2)
    monkeypatch.setattr(timelines, "AT_ONCE", 2)
    case = Case(tmp_path, own)
    hangs = threading.Event()
    case.answers = dict.fromkeys(SPEC.tasks(), hangs)
    case.timelines.fetch(is_over=False)
    tasks = case.left()["tasks"]
    hangs.set()
    notes = [tasks[name]["note"] for name in tasks if name != "coordinator"]
    assert set(notes) == {"no answer in time: what it did is not known"}


def test_nothing_is_asked_or_left_without_the_flag(tmp_path: pathlib.Path, own: Timeline) -> None:
    case = Case(tmp_path, own, is_wanted=False)
    case.timelines.fetch(is_over=True)
    case.timelines.leave()
    assert (case.asked, case.said) == ([], "")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_line(tmp_path: pathlib.Path, own: Timeline) -> None:
    (tmp_path / "timeline.json").mkdir()
    case = Case(tmp_path, own)
    case.timelines.leave()
    assert "timeline: it cannot be written (Is a directory)" in case.said


def test_a_picture_that_cannot_be_drawn_is_a_line(
    tmp_path: pathlib.Path,
    own: Timeline,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no LaTeX")

    monkeypatch.setattr(picture, "draw", fail)
    case = Case(tmp_path, own)
    assert case.left()["phases"]
    assert "timeline.png could not be drawn (RuntimeError: no LaTeX)" in case.said
    assert "Traceback" in capsys.readouterr().err  # the log


def test_a_task_is_asked_by_way_of_its_process(coordinator: Any) -> None:
    # The shared cluster of this process, whose tasks have one timeline.
    timeline.add("serving", 1.0, 2.0)
    found = timelines.ask_at(Task("worker", 1))
    assert found.offset == SAME
    assert isinstance(found.record, Record)
    assert "serving" in {each.name for each in found.record.spans}
