"""When a run has a film made, and what becomes of it: by a program that stands for the maker."""

import pathlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from support import seen_by

from ps_dqn.coordinator.evaluating import films
from ps_dqn.coordinator.evaluating.films import Films

# Notes its arguments and waits to be let go, with the exit code that it is told.
MAKER = """#!/bin/sh
echo "$@" >> {folder}/calls
until [ -e {folder}/go ]; do sleep 0.02; done
exit $(cat {folder}/go)
"""


class Case:
    """A run in a folder, and what it says."""

    def __init__(self, folder: pathlib.Path, period: int):
        self._folder, self.saves, self.said = folder, 0, list[str]()
        (folder / "logs").mkdir()
        self.shown: list[tuple[int, bytes]] = []
        self.films = Films(folder, period, self.said.append, lambda *film: self.shown.append(film))

    def at(self, env_steps: int) -> None:
        self.films.look(env_steps, self._save)

    def goes(self, code: int) -> None:
        # The maker looks for it all the time, and is to find it whole.
        path = self._folder / "code"
        path.write_text(str(code))
        path.rename(self._folder / "go")

    def calls(self) -> list[str]:
        path = self._folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def until(self, happened: Callable[[], object], env_steps: int) -> None:
        deadline = time.monotonic() + 60
        while not happened():
            assert time.monotonic() < deadline, (self.calls(), self.said)
            threading.Event().wait(0.01)
            self.at(env_steps)

    def _save(self) -> bool:
        self.saves += 1
        return True


@pytest.fixture
def make(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[int], Case]]:
    maker = tmp_path / "maker"
    maker.write_text(MAKER.format(folder=tmp_path))
    maker.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(maker))
    made: list[Case] = []

    def case(period: int) -> Case:
        made.append(Case(tmp_path, period))
        return made[-1]

    yield case
    for each in made:  # also where the test has failed
        each.films.close(lambda: False)


def test_one_at_a_time_of_a_checkpoint_that_is_saved_for_it(make: Callable[[int], Case]) -> None:
    case = make(1000)
    case.at(0)
    case.at(999)
    assert case.saves == 0
    case.at(1010)
    case.until(case.calls, 1500)
    case.at(2500)  # the first one is not ready
    assert case.saves == 1
    [call] = case.calls()
    assert " ps_dqn.watch --run_dir=" in call
    assert " --checkpoint=newest --video=" in call
    assert "/videos/env-steps-000000001010.mp4 --preview=" in call
    preview = case._folder / "videos" / "env-steps-000000001010.gif"
    preview.parent.mkdir()
    preview.write_bytes(b"of 1,010")
    case.goes(0)
    case.until(lambda: case.said, 1900)
    assert case.said == ["videos/env-steps-000000001010.mp4 is ready"]
    assert case.shown == [(1010, b"of 1,010")]
    case.at(2010)
    case.films.close(lambda: True)
    assert case.said[1:] == [
        "waiting for env-steps-000000002010.mp4, for 60 s at most",
        "videos/env-steps-000000002010.mp4 is ready",
    ]
    assert len(case.shown) == 1, "that one has no small form"


def test_people_hear_of_one_that_failed_and_of_one_that_is_given_up(
    make: Callable[[int], Case],
) -> None:
    case = make(10)
    case.at(0)
    case.at(10)
    case.goes(3)
    case.until(lambda: case.said, 11)
    assert case.said == ["videos/env-steps-000000000010.mp4 failed: see logs/films.log"]
    (case._folder / "go").unlink()
    case.at(20)
    case.films.close(lambda: False)
    assert case.said[1:] == ["videos/env-steps-000000000020.mp4 was not ready and is given up"]


def test_people_hear_of_one_that_does_not_come(
    make: Callable[[int], Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    seen_by.clock(monkeypatch, films, monotonic=lambda: now[0])
    case = make(10)
    case.at(0)
    case.at(10)
    for now[0] in (299.0, 300.0, 301.0, 599.0, 600.0):
        case.at(20)
    line = "videos/env-steps-000000000010.mp4 is not ready after {} s, and no other film is begun: "
    assert case.said == [f"{line.format(each)}see logs/films.log" for each in (300, 600)]
    case.films.close(lambda: False)


def test_a_signal_ends_the_wait_for_the_last_one(make: Callable[[int], Case]) -> None:
    case = make(10)
    case.at(0)
    case.at(10)
    answers = iter([True, True, True])
    case.films.close(lambda: next(answers, False))
    assert case.said == [
        "waiting for env-steps-000000000010.mp4, for 60 s at most",
        "videos/env-steps-000000000010.mp4 was not ready and is given up",
    ]


def test_none_are_made_unless_they_are_asked_for(make: Callable[[int], Case]) -> None:
    case = make(0)
    for env_steps in (0, 10**9):
        case.at(env_steps)
    case.films.close(lambda: True)
    assert (case.saves, case.calls(), case.said) == (0, [], [])


def test_connections_that_are_lost_put_none_off(make: Callable[[int], Case]) -> None:
    case = make(1000)
    for env_steps in range(0, 1000, 300):
        case.films = Films(case._folder, 1000, case.said.append, lambda *_: None)
        case.at(env_steps)
        case.at(env_steps + 90)
    assert case.saves == 0
    case.at(1000)
    assert case.saves == 1
