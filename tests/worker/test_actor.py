"""A worker's experience and its evaluations, called as the worker's host calls them.

The toy environment is that of `support/paying_env.py`: rewards tell which actions were taken.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.paying_env import SMALL

from ps_dqn.config import Config
from ps_dqn.errors import UsageError
from ps_dqn.replay.replay import Transitions
from ps_dqn.worker.actor import Evaluation, Experience

# A sequence takes 3 + 4 + 3 rows.
RECURRENT = {"recurrent_size": 1, "burn_in": 3, "sequence_length": 4, "n_step": 3}


def config(**values: Any) -> Config:
    return Config.from_values(SMALL | values)


Open = Callable[..., Experience]


@pytest.fixture
def opened() -> Iterator[Open]:
    """Makes experiences; their environments are ended after the test."""
    made: list[Experience] = []

    def make(worker: int = 0, **values: Any) -> Experience:
        made.append(Experience(config(**values), worker))
        return made[-1]

    yield make
    for each in made:
        each.close()


def act(experience: Experience, steps: int, epsilon: float = 0.0, action: int = 1) -> np.ndarray:
    """Steps with the same greedy action for everyone; what there is to act on next."""
    for _ in range(steps):
        observations, states = experience.acting
        experience.step(np.full(len(observations), action, np.int32), states, epsilon)
    return experience.environments.observations


def sample(experience: Experience) -> Transitions:
    batch = experience.memory.sample(progress=0.0)
    assert isinstance(batch, Transitions)
    return batch


def test_it_collects_until_it_is_warm_and_samples(opened: Open) -> None:
    experience = opened()
    assert experience.environments.observations.tolist() == [[0, 0], [0, 0]]
    calls = 0
    while not experience.memory.is_warm:
        act(experience, 1)
        calls += 1
    # 6 rows of each environment that have one after them.
    assert calls == 7
    assert experience.memory.size == 12
    batch = sample(experience)
    assert batch.observations.shape == batch.next_observations.shape == (2, 8, 2)
    assert [batch[i].shape for i in (1, 2, 3)] == [(2, 8)] * 3
    assert batch.actions.dtype == np.int32
    assert (batch.returns == 1).all(), "the reward is the action"
    # 7 steps: four of an episode, a reset, two more.
    gathered = experience.take_gathered()
    assert gathered.env_steps == 12
    assert gathered.returns == [4, 4]


def test_no_minibatches_look_like_minibatches_and_draw_nothing(opened: Open) -> None:
    experience, twin = opened(), opened()
    for each in (experience, twin):
        act(each, 20, epsilon=0.5)
    nothing, drawn, expected = experience.nothing, sample(experience), sample(twin)
    for empty, real, same in zip(nothing, drawn, expected, strict=True):
        assert (empty.shape, empty.dtype) == (real.shape, real.dtype)
        assert not empty.any()
        assert (real == same).all(), "the sampler's random numbers went on as if nothing had been"


def test_reset_steps_are_not_counted(opened: Open) -> None:
    experience = opened()
    # Ten steps: 4 of an episode, a reset, 4, a reset. Two environments.
    act(experience, 10)
    gathered = experience.take_gathered()
    assert gathered.env_steps == 16
    assert len(gathered.returns) == 4
    act(experience, 1)
    assert experience.take_gathered().env_steps == 2


def test_what_is_gathered_is_since_the_last_time(opened: Open) -> None:
    experience = opened()
    act(experience, 3)
    assert experience.take_gathered().env_steps == 6
    assert experience.take_gathered().env_steps == 0
    act(experience, 1)
    gathered = experience.take_gathered()
    assert (gathered.env_steps, len(gathered.returns)) == (2, 2)
    act(experience, 2)
    assert experience.take_gathered().env_steps == 2, "one of the two steps was the reset"


def test_episode_returns_span_what_is_taken(opened: Open) -> None:
    experience = opened()
    act(experience, 2, action=2)
    assert experience.take_gathered().returns == []
    act(experience, 2, action=1)
    assert experience.take_gathered().returns == [2 + 2 + 1 + 1] * 2
    # The next episode starts from zero; its reset step pays nothing.
    act(experience, 5, action=1)
    assert experience.take_gathered().returns == [4, 4]


def test_the_replay_size_is_of_rows_that_can_be_sampled(opened: Open) -> None:
    experience = opened(n_step=2)
    act(experience, 4)
    assert experience.memory.size == 2 * (4 - 2)


def test_epsilon_zero_is_all_greedy(opened: Open) -> None:
    experience = opened(local_updates=64)
    act(experience, 90, epsilon=0.0, action=2)
    batch = sample(experience)
    assert set(batch.actions.ravel().tolist()) == {2}
    assert set(batch.returns.ravel().tolist()) == {2.0}


def test_epsilon_one_is_all_random(opened: Open) -> None:
    experience = opened()
    act(experience, 1500, epsilon=1.0, action=2)
    gathered = experience.take_gathered()
    assert gathered.env_steps == 2400
    # Uniform over 0, 1, 2 has mean 1 and variance 2/3; the bound is five standard deviations.
    assert abs(sum(gathered.returns) / 2400 - 1) < 5 * (2 / 3 / 2400) ** 0.5


def test_epsilon_is_the_share_of_random_actions(opened: Open) -> None:
    experience = opened()
    act(experience, 1500, epsilon=0.3, action=0)
    # Three in ten are random, and those pay 1 on average: variance 0.3 · 5/3 - 0.3².
    mean = sum(experience.take_gathered().returns) / 2400
    assert abs(mean - 0.3) < 5 * (0.41 / 2400) ** 0.5


def test_each_environment_explores_on_its_own(opened: Open) -> None:
    experience = opened(local_updates=64, env_id="CartPole-v1")
    pairs = set()
    for _ in range(40):
        before = experience.environments.observations.copy()
        after = act(experience, 1, epsilon=0.5, action=0)
        # CartPole's speed goes up with action 1 and down with action 0; resets are left out.
        speed = after[:, 1] - before[:, 1]
        if (abs(speed) > 0.1).all():
            pairs.add(tuple((speed > 0).tolist()))
    assert pairs == {(False, False), (False, True), (True, False), (True, True)}


def history(experience: Experience) -> list[bytes]:
    """Everything random that it shows: first states, exploration, sampling."""
    shown = [experience.environments.observations.tobytes()]
    shown += [act(experience, 1, epsilon=0.5).tobytes() for _ in range(60)]
    return shown + [each.tobytes() for each in sample(experience)]


def test_seed_and_worker_decide_the_data(opened: Open) -> None:
    cartpole = {"env_id": "CartPole-v1"}
    first = history(opened(worker=1, seed=5, **cartpole))
    again = history(opened(worker=1, seed=5, **cartpole))
    other_worker = history(opened(worker=2, seed=5, **cartpole))
    other_seed = history(opened(worker=1, seed=6, **cartpole))
    assert first == again
    for other in (other_worker, other_seed):
        assert first[0] != other[0], "other first states"
        assert first[-2] != other[-2], "other minibatches"  # the last are weights of 1


def test_worker_decides_exploration_and_sampling_too(opened: Open) -> None:
    # In the toy nothing but exploration and sampling is random.
    def shown(worker: int, seed: int) -> tuple[list[float], list[float]]:
        experience = opened(worker=worker, seed=seed)
        act(experience, 40, epsilon=0.0)
        draws = sample(experience).observations.ravel().tolist()
        experience.take_gathered()
        act(experience, 50, epsilon=1.0)
        return draws, experience.take_gathered().returns

    first, again = shown(0, 0), shown(0, 0)
    assert first == again
    for other in (shown(1, 0), shown(0, 1)):
        assert first[0] != other[0]
        assert first[1] != other[1]


@pytest.mark.parametrize("num_envs", [2, 4])
@pytest.mark.parametrize(
    ("options", "capacity", "most"),
    [
        # The newest rows of each environment cannot be drawn: a return needs them.
        ({"n_step": 3}, 40, lambda rows: rows - 3),
        ({"n_step": 3, "frame_stack": 3}, 40, lambda rows: rows - 3 - 2),
        # And a sequence begins at every fourth row, say.
        ({**RECURRENT, "sequence_period": 1}, 100, lambda rows: rows - 9),
        ({**RECURRENT, "sequence_period": 4}, 100, lambda rows: rows - 9 - 3),
        ({**RECURRENT, "sequence_period": 7, "frame_stack": 2}, 100, lambda rows: rows - 10 - 6),
        # Environments whose episodes end at different times.
        (
            {**RECURRENT, "sequence_period": 7, "frame_stack": 2, "env_kwargs": '{"longer": true}'},
            100,
            lambda rows: rows - 10 - 6,
        ),
    ],
    ids=str,
)
def test_warm_up_ends_wherever_the_configuration_is_accepted(
    num_envs: int,
    options: dict[str, Any],
    capacity: int,
    most: Callable[[int], int],
    opened: Open,
) -> None:
    # A closure steps until the replay is warm: one that can never hold `min_replay_size`
    # transitions would keep it there for ever.
    values = {"num_envs_per_worker": num_envs, "update_period": 4, **options}
    limits = {"replay_capacity": capacity, "min_replay_size": capacity}
    with pytest.raises(UsageError):
        config(**values, **limits)
    # The most that these environments offer is accepted, and can be reached.
    limits["min_replay_size"] = num_envs * most(capacity // num_envs)
    experience = opened(**values, **limits)
    act(experience, 1000, action=0)
    assert experience.memory.is_warm


def test_the_discount_is_the_configurations(opened: Open) -> None:
    experience = opened(gamma=0.5)
    act(experience, 3)
    assert set(sample(experience).discounts.ravel().tolist()) == {0.5}


Judge = Callable[..., Evaluation]


@pytest.fixture
def judged() -> Iterator[Judge]:
    made: list[Evaluation] = []

    def make(episodes: int, **values: Any) -> Evaluation:
        made.append(Evaluation(config(**values), episodes))
        return made[-1]

    yield make
    for each in made:
        each.environments.close()


def play(evaluation: Evaluation, seed: int = 0, action: int = 1) -> tuple[list[float], int]:
    """Plays an evaluation as `closures.py` does; returns and how many steps it took."""
    [observed] = evaluation.begin(seed)
    playing, steps = len(observed), 0
    while playing > 0:
        greedy = np.full(len(observed), action, np.int32)
        observed, playing = evaluation.step(greedy)
        assert playing.dtype == np.int32
        steps += 1
    mark, returns = evaluation.end()
    assert mark == 1
    assert returns.dtype == np.float64
    return returns.tolist(), steps


LONGER: dict[str, Any] = {"env_kwargs": '{"longer": true}'}


def test_only_first_episodes_count_in_evaluations(judged: Judge) -> None:
    # Environment i's episodes last 4 + i steps: while the last one still plays, the first has
    # begun its next episode, whose rewards must not count.
    returns, steps = play(judged(4, **LONGER), action=2)
    assert returns == [8, 10, 12, 14]
    assert steps == 7


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
