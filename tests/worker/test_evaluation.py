"""A worker's evaluations, called as the worker's host calls them.

The toy environment is that of `support/paying_env.py`: rewards tell which actions were taken.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.paying_env import SMALL
from support.worker_calls import RUN, Worker

from ps_dqn.config import Config
from ps_dqn.environments import Step
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Evaluation

Judge = Callable[..., Evaluation]


@pytest.fixture
def judged() -> Iterator[Judge]:
    made: list[Evaluation] = []

    def make(episodes: int, goes_on: bool = False, **values: Any) -> Evaluation:
        made.append(Evaluation(Config.from_values(SMALL | values), episodes, goes_on))
        return made[-1]

    yield make
    for each in made:
        each.environments.close()


def play(evaluation: Evaluation, seed: int = 0, action: int = 1) -> tuple[list[float], int]:
    """Plays an evaluation as `closures.py` does; returns and how many steps it took."""
    playing, steps = evaluation.begin(seed), 0
    while playing.episodes > 0:
        greedy = np.full(len(playing.observations), action, np.int32)
        playing = evaluation.step(Acted(greedy, playing.state))
        assert playing.episodes.dtype == np.int32
        steps += 1
    mark, returns = evaluation.end()
    assert mark == 1
    assert returns.dtype == np.float64
    return returns.tolist(), steps


LONGER: dict[str, Any] = {"env_kwargs": '{"longer": true}'}


@pytest.mark.parametrize("goes_on", [False, True])
def test_only_first_episodes_count_in_evaluations(judged: Judge, goes_on: bool) -> None:
    # Environment i's episodes last 4 + i steps: while the last one still plays, the first has
    # begun its next episode, whose rewards must not count, or rests.
    evaluation = judged(4, goes_on, **LONGER)
    for _ in range(2):
        returns, steps = play(evaluation, action=2)
        assert returns == [8, 10, 12, 14]
        assert steps == 7


def test_what_fails_after_its_episode_changes_no_score(judged: Judge) -> None:
    """The first two have played theirs when they fail, the others have not and play another."""
    evaluation = judged(4, **LONGER)
    step = evaluation.environments.step

    def fail(actions: np.ndarray) -> Step:
        made = step(actions)
        failed = np.arange(4) if evaluation.steps == 5 else np.zeros(0, np.int64)
        return made._replace(failed_envs=failed)

    evaluation.environments.step = fail  # type: ignore[method-assign]
    returns, _ = play(evaluation, action=2)
    assert returns[:2] == [8, 10]
    assert returns[2] < 12
    assert returns[3] < 14


def test_evaluations_are_cut(judged: Judge) -> None:
    evaluation = judged(4, max_eval_steps=5, **LONGER)
    returns, steps = play(evaluation)
    assert returns == [4, 5, 5, 5]
    assert steps == 5
    # The cut is of one evaluation, not of all together.
    assert play(evaluation) == ([4, 5, 5, 5], 5)


def test_evaluations_begin_anew_and_depend_on_their_seed(judged: Judge) -> None:
    evaluation = judged(3, eval_epsilon=0.5, **LONGER)
    first, other, again = (play(evaluation, seed)[0] for seed in (10, 20, 10))
    assert first == again
    assert first != other
    assert first != [4, 5, 6], "eval_epsilon 0.5 takes random actions"


def test_greedy_evaluations_take_no_random_action(judged: Judge) -> None:
    assert play(judged(50, eval_epsilon=0.0))[0] == [4.0] * 50


def test_what_was_done_and_paid_is_in_the_states_of_evaluations_too(judged: Judge) -> None:
    evaluation = judged(2, recurrent_size=1, reward_clip=1.5)
    evaluation.begin(0)
    playing = evaluation.step(Acted(np.full(2, 2, np.int32), np.full((2, 4), 7, np.float32)))
    assert playing.state.tolist() == [[7, 7, 3, 1.5]] * 2


def test_a_pulse_says_how_far_an_evaluation_is_though_nothing_was_learned_there() -> None:
    worker = Worker()
    playing = worker.begin_evaluation(3)
    for made in range(2):
        pulse = worker.host.pulse
        assert pulse is not None
        assert (pulse.phase, pulse.session, pulse.evaluation_steps) == ("evaluation", RUN, made)
        worker.within("evaluate_step", np.ones(3, np.int32), playing.state)
    worker.host.close()
    assert worker.host.pulse is None
