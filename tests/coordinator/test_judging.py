"""What is called the best: what further episodes have confirmed."""

import pathlib
from collections.abc import Callable, Sequence

import pytest
from support.scripted_run import ScriptedRun, training

from ps_dqn.config import Config
from ps_dqn.coordinator.loop import Result
from ps_dqn.run.checkpoints import Checkpoint, Checkpoints

Trained = Callable[..., tuple[Result, ScriptedRun, Checkpoint | None]]


@pytest.fixture
def trained(tmp_path: pathlib.Path) -> Trained:
    """Trains for so many evaluations; their returns and those of confirmations, as they come."""

    def run(
        num_evaluations: int, *answers: Sequence[float]
    ) -> tuple[Result, ScriptedRun, Checkpoint | None]:
        values = {
            "eval_period": 400,
            "total_env_steps": 400 * num_evaluations,
            "eval_episodes": 2,
            "confirm_episodes": 3,
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
