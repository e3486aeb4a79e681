"""What the coordinator says of recordings, and how they come into the run directory."""

import pathlib
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from ps_dqn.cluster.spec import Task
from ps_dqn.config import Profiling
from ps_dqn.coordinator.reporting import profiles
from ps_dqn.coordinator.reporting.profiles import Profiles
from ps_dqn.profiling import recording
from ps_dqn.profiling.recording import NOTHING, Piece, Progress

TASKS = [Task("chief", 0), Task("ps", 0), Task("worker", 0)]


class MadeUp:
    """In the place of TensorFlow's profiler."""

    was_cut = False

    def stop(self) -> bytes:
        return b"of the coordinator"


class Case:
    """A run whose tasks answer as a test says."""

    def __init__(self, folder: pathlib.Path, window: str = "100:200", with_python: bool = False):
        self.folder, self.said = folder, list[str]()
        self.answers: dict[str, object] = {}
        self.asked: list[str] = []
        options = Profiling(window, with_python)
        self.profiles = Profiles(options, TASKS, folder, self.said.append, self._ask)

    def _ask(self, task: Task, place: int) -> Piece:
        self.asked.append(str(task))
        answer = self.answers.get(str(task), b"of a task")
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Piece):
            return answer
        assert isinstance(answer, bytes)
        if place >= len(answer):
            return NOTHING
        part = np.frombuffer(answer[place : place + 4], np.uint8)
        return Piece(Progress.READY, len(answer), 0, 0, part, "")

    def until_said(self, text: str) -> None:
        deadline = time.monotonic() + 60
        while not any(text in line for line in self.said):
            assert time.monotonic() < deadline, self.said
            threading.Event().wait(0.01)

    def traces(self) -> dict[str, bytes]:
        paths = (self.folder / "tensorboard" / "plugins" / "profile").glob("*/*.xplane.pb")
        return {path.name.removesuffix(".xplane.pb"): path.read_bytes() for path in paths}


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "Trace", MadeUp)


def test_traces_of_all_tasks_are_fetched_once_the_window_is_past(tmp_path: pathlib.Path) -> None:
    case = Case(tmp_path)
    for updates in (0, 64, 128):
        case.profiles.hear(updates)
    assert case.said == ["profile: recording from 128 updates on (--profile=100:200)"]
    assert case.asked == []
    case.profiles.hear(256)
    case.until_said("open with")
    assert case.said[1] == "profile: the recording ended at 256 updates"
    assert f"tensorboard --logdir {tmp_path / 'tensorboard'}" in case.said[2]
    own = {"coordinator": b"of the coordinator"}
    assert case.traces() == own | {"ps-0": b"of a task", "worker-0": b"of a task"}
    said = list(case.said)
    case.profiles.hear(512)
    case.profiles.finish(lambda: True)
    assert case.said == said


def test_a_run_that_ends_in_the_window_leaves_what_was_recorded(tmp_path: pathlib.Path) -> None:
    case = Case(tmp_path)
    case.profiles.hear(0)
    case.profiles.hear(128)
    case.profiles.finish(lambda: True)
    assert case.said[1] == "profile: the recording ended with the run"
    assert set(case.traces()) == {"coordinator", "ps-0", "worker-0"}


def test_a_run_that_ends_before_the_window_says_so(tmp_path: pathlib.Path) -> None:
    case = Case(tmp_path)
    case.profiles.hear(0)
    case.profiles.finish(lambda: True)
    assert case.said == [
        "--profile=100:200: the run ended before these updates: nothing was recorded"
    ]
    assert case.asked == []


def test_a_run_that_is_resumed_beyond_the_window_says_so(tmp_path: pathlib.Path) -> None:
    case = Case(tmp_path)
    for updates in (5000, 5100):
        case.profiles.hear(updates)
    case.profiles.finish(lambda: True)
    assert case.said == [
        "--profile=100:200: the run has made 5,000 updates already: nothing is recorded"
    ]
    assert case.asked == []


def test_a_run_without_the_flag_records_nothing(tmp_path: pathlib.Path) -> None:
    case = Case(tmp_path, window="")
    for updates in (0, 5000):
        case.profiles.hear(updates)
    case.profiles.finish(lambda: True)
    case.profiles.disconnect()
    assert (case.said, case.asked, case.traces()) == ([], [], {})


def test_what_a_task_could_not_record_is_a_line(tmp_path: pathlib.Path) -> None:
    case = Case(tmp_path)
    case.answers["worker 0"] = NOTHING._replace(note="no profiler here")
    case.profiles.hear(128)
    case.profiles.hear(256)
    case.until_said("open with")
    assert "profile: worker-0: no profiler here" in case.said
    assert set(case.traces()) == {"coordinator", "ps-0"}


def test_tasks_that_do_not_answer_hold_nobody_up(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "LAST_SECONDS", 1e9)
    case = Case(tmp_path)

    def is_over() -> bool:
        """The time is up when one is asked again: everybody was asked by then."""
        if case.asked.count("parameter server 0") > 1:
            monkeypatch.setattr(profiles, "LAST_SECONDS", 0.0)
        return True

    case.answers["worker 0"] = tf.errors.UnavailableError(None, None, "gone")
    case.answers["parameter server 0"] = NOTHING._replace(progress=Progress.ENDING)
    case.profiles.hear(128)
    case.profiles.finish(is_over)
    assert "profile: worker-0: it does not answer" in case.said
    assert "profile: not there in time: ps-0" in case.said
    assert set(case.traces()) == {"coordinator"}


def test_a_signal_ends_the_wait_for_what_tasks_have_recorded(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "LAST_SECONDS", 1e9)
    monkeypatch.setattr(profiles, "STOPPED_SECONDS", 0.0)
    case = Case(tmp_path)
    case.answers["worker 0"] = NOTHING._replace(progress=Progress.ENDING)
    case.profiles.hear(128)
    # When one is asked again everybody was: what others have recorded is here by then.
    case.profiles.finish(lambda: case.asked.count("worker 0") < 2)
    assert "profile: not there in time: worker-0" in case.said


def test_a_connection_that_is_made_anew_is_asked_again(tmp_path: pathlib.Path) -> None:
    case = Case(tmp_path)
    case.answers["worker 0"] = tf.errors.UnavailableError(None, None, "gone")
    case.profiles.hear(128)
    case.profiles.hear(256)
    deadline = time.monotonic() + 60
    while case.asked.count("worker 0") < 2 or len(case.traces()) < 2:
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
    case.profiles.disconnect()
    del case.answers["worker 0"]
    case.profiles.hear(320)
    case.until_said("open with")
    assert set(case.traces()) == {"coordinator", "ps-0", "worker-0"}
    assert not [line for line in case.said if "does not answer" in line]


def test_a_full_disk_is_a_line(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tensorboard").write_text("no folder can be made here")
    case = Case(tmp_path)
    case.profiles.hear(128)
    case.profiles.hear(256)
    case.until_said("profile: worker-0: NotADirectoryError")
    assert case.traces() == {}


def test_python_of_the_coordinator_is_what_its_thread_did(tmp_path: pathlib.Path) -> None:
    case = Case(tmp_path, with_python=True)
    case.profiles.hear(128)
    sorted(range(10))
    case.profiles.hear(256)
    case.until_said("1 table is in")
    table = (tmp_path / "profile" / "coordinator.txt").read_text()
    assert "builtins.sorted" in table
