"""A process that owns the tasks starts the coordinator, again where it is lost."""

import json
import os
import pathlib
import re
import signal
import sys
import time

import pytest
from support import processes as real
from support.processes import Processes, Running
from support.programs import SUPPORT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and reads /proc")

# After so long, or up to one look later.
SILENT = "the coordinator has not answered for [{0}-9] s: it is ended"


@pytest.fixture
def start(processes: Processes, tmp_path: pathlib.Path):
    def started(name: str) -> Running:
        return processes.start(str(SUPPORT / "supervised.py"), str(tmp_path), name)

    return started


def told(running: Running) -> list[dict]:
    return [json.loads(line) for line in running.lines if line.startswith("{")]


def said(running: Running) -> list[str]:
    """What people see."""
    return [line["said"] for line in told(running) if "said" in line]


def hears_two(running: Running) -> None:
    """Signals the supervisor, again once the coordinator has heard: two at once may be one."""
    for count in (1, 2):
        running.process.send_signal(signal.SIGTERM)
        running.line_with(f'{{"heard": {count}}}')


def test_exit_code_is_the_coordinators(start, processes: Processes) -> None:
    running = start("returns")
    assert running.ended() == 7
    [seen] = told(running)
    assert running.pid not in [seen["pid"], *seen["tasks"]]
    assert "Traceback" not in running.text
    processes.all_gone(60)


@pytest.mark.parametrize(("name", "code"), [("raises", 1), ("leaves", 75)])
def test_coordinator_that_ends_itself_is_not_started_again(start, name: str, code: int) -> None:
    running = start(name)
    assert running.ended() == code
    assert ("the battery is flat" in running.text) == (name == "raises")
    assert said(running) == []


def test_another_one_has_the_same_tasks(start) -> None:
    running = start("dies_once")
    assert running.ended() == 0
    first, line, second = told(running)
    assert first == second
    assert line["said"] == "the coordinator was killed by SIGKILL; started again (1 of 5)"


def test_another_one_knows_what_was_lost(start) -> None:
    running = start("dies_at_work")
    assert running.ended() == 0
    losses = [line["loss"] for line in told(running) if "loss" in line]
    assert [each["times"] for each in losses] == [1, 2, 3]
    assert [each["memory"] for each in losses] == [0, 1, 2]
    assert all(0.0 <= each["ago"] < 30.0 for each in losses)
    lines = said(running)
    assert set(lines) == {"the coordinator was killed by SIGSEGV; started again (1 of 5)"}


def test_coordinator_that_keeps_dying(start) -> None:
    running = start("keeps_dying")
    assert running.ended() == 128 + signal.SIGKILL
    lines = [
        f"the coordinator was killed by SIGKILL; started again ({i} of 5)" for i in range(1, 6)
    ]
    assert said(running) == [*lines, "error: the coordinator was killed by SIGKILL"]
    began, *lost_at = [line["since"] for line in told(running) if "since" in line]
    assert lost_at == [lost_at[0]] * 5, "no task was well since the first one was lost"
    assert lost_at[0] > began


def test_coordinator_that_does_its_work_may_be_started_again_without_end(start) -> None:
    running = start("is_well_and_dies")
    assert running.ended() == 0
    assert len(said(running)) == 8


def test_coordinator_that_stands_still_is_ended(start) -> None:
    running = start("stands_still_once")
    assert running.ended() == 0
    silent, again = said(running)
    assert re.fullmatch(SILENT.format(4), silent)
    assert again.startswith("the coordinator was killed by SIGKILL; started again")


def test_coordinator_whose_main_thread_waits_is_left_alone(start) -> None:
    running = start("takes_its_time")
    assert running.ended() == 0
    assert told(running) == [{"lives": True}]


@pytest.mark.slow
def test_supervisor_that_was_stopped_itself_gives_nobody_up(start) -> None:
    running = start("hears")
    running.line_with("waits")
    real.stop(running.pid)
    time.sleep(6.0)  # longer than the coordinator may be silent
    os.kill(running.pid, signal.SIGCONT)
    hears_two(running)
    assert running.ended() == 22
    assert said(running) == []


def test_signals_are_handed_on(start) -> None:
    running = start("hears")
    running.line_with("waits")
    hears_two(running)
    assert running.ended() == 22
    assert said(running) == []


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("ends_at_a_signal", ["error: the coordinator was killed by SIGTERM"]),
        ("stands_still", [SILENT.format(3), "error: the coordinator was killed by SIGKILL"]),
    ],
)
def test_coordinator_that_was_told_to_end_is_not_started_again(
    start, name: str, lines: list[str]
) -> None:
    running = start(name)
    running.line_with("waits")
    running.process.send_signal(signal.SIGTERM)
    assert running.ended() == 128 + signal.SIGTERM
    for line, wanted in zip(said(running), lines, strict=True):
        assert re.fullmatch(wanted, line)


def test_tasks_are_replaced_by_forks(start) -> None:
    running = start("replaces")
    assert running.ended() == 0
    [seen] = told(running)
    assert seen["lines"] == [
        f"worker 0 was killed by SIGKILL; started again ({i} of 5)" for i in range(1, 6)
    ]
    for text in (seen["error"], seen["epitaph"]):
        assert text.startswith("worker 0 was killed by SIGKILL during the run; its log")
    assert seen["other"]
    assert seen["tasks"] == ["parameter server 0"]
    assert not seen["starting"]
    assert seen["words"].endswith("ps-0.log is empty")


def test_all_end_with_a_supervisor_that_is_killed(start, processes: Processes) -> None:
    running = start("hears")
    running.line_with("waits")
    real.until(lambda: len(processes.alive()) == 4, 60, "it, the coordinator and two tasks")
    os.kill(running.pid, signal.SIGKILL)
    processes.all_gone(60)
