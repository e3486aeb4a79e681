"""What a run still waits for at its end, and that a signal ends that too."""

import pathlib
import types
from collections.abc import Callable
from typing import Any

import pytest
from support.scripted_run import ScriptedRun, training

from ps_dqn.config import Config
from ps_dqn.coordinator.loop import Training
from ps_dqn.coordinator.scheduling import last_closures, last_waits
from ps_dqn.coordinator.scheduling.dispatch import Outcome
from ps_dqn.run.checkpoints import Checkpoints

# Questions after which a run counts as one that waits for good.
FOR_GOOD = 1000


class Holding(ScriptedRun):
    """A schedule that answers no closure of a kind from the end of training on."""

    def __init__(self, kind: str, is_played: bool = True):
        super().__init__([[9.0, 9.0], [8.0, 8.0]])
        self._kind, self.is_busy, self._polls = kind, is_played, 0
        self.on_wait: Callable[[], None] = lambda: None
        self.holds: Callable[[], bool] = lambda: False

    def next(self, timeout: float) -> Outcome | None:
        if not timeout:
            return None
        for outcome in self._waiting:
            if outcome.kind != self._kind or not self.holds():
                self._waiting.remove(outcome)
                return outcome
        self._polls += 1
        assert self._polls < FOR_GOOD, "it waits for good"
        self.on_wait()
        return None


@pytest.fixture
def ends(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Training]:
    def make(scripted: Holding, **values: Any) -> Training:
        monkeypatch.setattr(last_waits, "STOPPED_SECONDS", 0.0)
        options = {"total_env_steps": 600, "eval_period": 10**6, "confirm_episodes": 0, **values}
        made = training(Config.from_values(options), 1e9, scripted, tmp_path)
        scripted.holds = lambda: bool(made._reason)
        made.said = []  # type: ignore[attr-defined]
        monkeypatch.setattr(made._observer, "say", made.said.append)  # type: ignore[attr-defined]
        return made

    return make


def test_closures_have_their_time_from_when_they_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [10.0]
    clock = types.SimpleNamespace(perf_counter=lambda: now[0])
    monkeypatch.setattr(last_waits, "time", clock)
    waits = last_waits.LastWaits(60.0)
    waits.stop()
    now[0] += 2 * last_waits.STOPPED_SECONDS  # a checkpoint is written
    began = now[0]
    assert not waits.are_over(began)
    now[0] += last_waits.STOPPED_SECONDS + 0.1
    assert waits.are_over(began)
    assert waits.are_over(began, since=now[0]), "though it goes on"


def test_what_goes_on_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = types.SimpleNamespace(perf_counter=lambda: 100.0)
    monkeypatch.setattr(last_waits, "time", clock)
    assert last_waits.LastWaits(60.0).are_over(began=0.0)
    assert not last_waits.LastWaits(60.0).are_over(began=0.0, since=50.0)


def test_a_signal_ends_the_final_evaluation_which_is_left_to_a_run_that_is_resumed(
    ends: Callable[..., Training], tmp_path: pathlib.Path
) -> None:
    scripted = Holding("evaluation")
    run = ends(scripted)
    scripted.on_wait = run.request_stop
    result = run.run()
    assert (result.reason, run.is_over) == ("stopped", False)
    assert result.counters.env_steps >= 600
    newest = Checkpoints(tmp_path, keep=1).newest()
    assert newest is not None
    assert newest.state.counters == result.counters
    assert run.said == [  # type: ignore[attr-defined]
        "the final evaluation was cut off: the same run, resumed, plays it"
    ]


def test_a_signal_ends_the_wait_for_closures_of_a_run_that_is_over(
    ends: Callable[..., Training],
) -> None:
    scripted = Holding("evaluation")
    run = ends(scripted, eval_period=100)
    scripted.holds = lambda: True
    scripted.on_wait = run.request_stop
    assert run.run().reason == "stopped", "no other evaluation is begun"
    assert scripted.num_evaluations == 1
    [line, _] = run.said  # type: ignore[attr-defined]
    assert line.startswith("not waited for: ")


def test_a_signal_after_the_last_evaluation_changes_nothing(
    ends: Callable[..., Training], monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted = Holding("none")
    run = ends(scripted)
    hear = run._judging.hear

    def told(*arguments: Any) -> None:
        hear(*arguments)
        run.request_stop()

    monkeypatch.setattr(run._judging, "hear", told)
    assert run.run().reason == "finished"
    assert run.is_over


def test_a_final_evaluation_that_nobody_plays_is_given_up(ends: Callable[..., Training]) -> None:
    run = ends(Holding("evaluation", is_played=False), drain_timeout=1e-9)
    assert run.run().reason == "finished"
    assert any(line.startswith("the final evaluation is given up") for line in run.said)  # type: ignore[attr-defined]


def test_what_was_trained_is_saved_before_the_final_evaluation(
    ends: Callable[..., Training], tmp_path: pathlib.Path
) -> None:
    scripted = Holding("evaluation")
    run = ends(scripted)
    checkpoints, found = Checkpoints(tmp_path, keep=1), list[int]()

    def look() -> None:
        found.append(checkpoints.newest_updates)
        run.request_stop()

    scripted.on_wait = look
    result = run.run()
    assert found[0] == result.counters.updates


@pytest.mark.parametrize("is_played", [True, False])
def test_an_evaluation_on_its_way_is_waited_for_as_long_as_somebody_plays_it(
    ends: Callable[..., Training],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    is_played: bool,
) -> None:
    """It may be the last of those that solve the task: the best checkpoint comes from it."""
    scripted = Holding("evaluation", is_played)
    run = ends(scripted, eval_period=100, drain_timeout=60.0, total_env_steps=200)
    now = [0.0]
    clock = types.SimpleNamespace(perf_counter=lambda: now[0])
    for module in (last_waits, last_closures):
        monkeypatch.setattr(module, "time", clock)

    def wait() -> None:
        now[0] += 10.0
        if now[0] > 200.0:
            scripted.holds = lambda: False

    scripted.holds = lambda: True
    scripted.on_wait = wait
    assert run.run().reason == "finished"
    best = Checkpoints(tmp_path, keep=1).best()
    assert (best is not None) is is_played
    assert any("not waited for" in line for line in run.said) is not is_played  # type: ignore[attr-defined]
