"""What is called the best: what further episodes have confirmed."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.scripted_run import ScriptedRun, training

from ps_dqn.config import Config
from ps_dqn.coordinator.reporting.result import Result
from ps_dqn.run.checkpoints import Checkpoint, Checkpoints
from ps_dqn.store import Frozen

Trained = Callable[..., tuple[Result, ScriptedRun, Checkpoint | None]]


@pytest.fixture
def trained(tmp_path: pathlib.Path) -> Trained:
    """Trains for so many evaluations; their returns and those of confirmations, as they come."""

    def run(
        num_evaluations: int, *answers: Sequence[float], **options: Any
    ) -> tuple[Result, ScriptedRun, Checkpoint | None]:
        values = {
            "eval_period": 400,
            "total_env_steps": 400 * num_evaluations,
            "eval_episodes": 2,
            "confirm_episodes": 3,
            **options,
        }
        scripted = ScriptedRun(answers)
        result = training(Config.from_values(values), 10.0, scripted, tmp_path).run()
        return result, scripted, Checkpoints(tmp_path, keep=1).best()

    return run


def test_the_best_is_worth_what_further_episodes_say(trained: Trained) -> None:
    result, scripted, best = trained(1, [7.0, 9.0], [6.0, 7.0, 5.0])
    assert scripted.num_evaluations == 2
    assert best is not None
    assert best.eval_return == result.best_return == 6.0
    assert result.evaluation is not None
    assert result.evaluation.returns.tolist() == [7.0, 9.0]  # the last one is what it was


def test_a_lucky_evaluation_is_not_the_best(trained: Trained) -> None:
    lucky, unlucky = [9.0, 9.0], [5.0, 5.0, 5.0]
    _, scripted, best = trained(2, [7.0, 7.0], [6.0, 6.0, 6.0], lucky, unlucky)
    assert scripted.num_evaluations == 4
    assert best is not None
    assert (best.eval_return, set(best.state.average)) == (6.0, {1.0})  # frozen first


def test_a_confirmed_one_replaces_the_best(trained: Trained) -> None:
    _, _, best = trained(2, [7.0, 7.0], [6.0, 6.0, 6.0], [6.5, 6.5], [6.0, 7.0, 8.0])
    assert best is not None
    assert (best.eval_return, set(best.state.average)) == (7.0, {2.0})


def test_what_is_not_better_than_the_best_need_not_be_confirmed(trained: Trained) -> None:
    _, scripted, best = trained(3, [7.0, 7.0], [6.0, 6.0, 6.0], [5.0, 6.0], [6.0, 6.0])
    assert scripted.num_evaluations == 4
    assert best is not None
    assert set(best.state.average) == {1.0}


def test_a_solved_run_waits_for_what_confirms_its_best(trained: Trained) -> None:
    good, rest = [12.0, 12.0], [11.0, 11.0, 11.0]
    result, _, best = trained(9, good, [8.0] * 3, good, [9.0] * 3, good, rest)
    assert result.reason == "solved"
    assert best is not None
    assert (best.eval_return, set(best.state.average)) == (11.0, {3.0})


def test_what_is_not_as_sparse_yet_as_it_is_to_be_is_not_judged(trained: Trained) -> None:
    pruning = {"pruning": "magnitude", "pruning_start": 0, "pruning_end": 1600}
    good = [12.0, 12.0]
    result, scripted, best = trained(5, *[good] * 3, [8.0, 8.0], [7.0] * 3, [6.0] * 2, **pruning)
    assert result.reason == "finished", "three in a row, of a network that was to change"
    assert scripted.num_evaluations == 6
    assert best is not None
    assert (best.eval_return, set(best.state.average)) == (7.0, {4.0})


def test_the_best_is_what_a_worker_that_the_others_wait_for_has_frozen(
    tmp_path: pathlib.Path,
) -> None:
    """Of two, one was away and has an old average; the second is where the run is."""

    class Replicas(ScriptedRun):
        """Each freeze hands out a vector of its number."""

        def __init__(self, *evaluations: Sequence[float]):
            super().__init__(evaluations)
            self.keeps_frozen, self.freeze = False, object()
            self.taken_in: list[int] = []

        def _freeze(self) -> Frozen:
            number = np.int64(self._num_frozen)
            return Frozen(number, number, np.array(self._counters), self.frozen())

        def is_newest(self, frozen: Frozen) -> bool:
            return frozen.group > 1

        def take_in(self, worker: int) -> None:
            self.taken_in.append(worker)

    values = {"eval_period": 400, "total_env_steps": 400, "eval_episodes": 2, "confirm_episodes": 3}
    scripted = Replicas([7.0, 9.0], [6.0, 7.0, 5.0])
    training(Config.from_values(values), 10.0, scripted, tmp_path).run()
    assert scripted.taken_in == [1]
    best = Checkpoints(tmp_path, keep=1).best()
    assert best is not None
    assert (best.eval_return, set(best.state.average)) == (6.0, {2.0})
    assert best.state.counters.env_steps == 400


def test_training_goes_on_meanwhile(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    trained_then = []
    answer = ScriptedRun._evaluation

    def noted(self: ScriptedRun) -> object:
        trained_then.append(len(self.tickets))
        return answer(self)

    monkeypatch.setattr(ScriptedRun, "_evaluation", noted)
    _, scripted, _ = trained(2, [7.0, 7.0], [6.0] * 3, [5.0, 5.0])
    assert scripted.num_evaluations == 3
    assert len(scripted.tickets) > trained_then[1]
    # One evaluation at a time, of one network: the next begins after the confirmation.
    assert trained_then == sorted(trained_then)
