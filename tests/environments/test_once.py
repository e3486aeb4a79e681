"""Environments that rest once their episode has ended.

Those of `support.paying_env` observe [episode, time]; environment i of a vector lasts 4 + i steps.
Those of `support.misbehaving_env` observe the same, with episodes counted over all of them.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import support.forbidding_env
import support.misbehaving_env
import support.paying_env

from ps_dqn.config import Config, Environment
from ps_dqn.environments import Environments
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Evaluation

LONGER = Environment(
    env_id="TestExperience/Paying-v0",
    env_module=support.paying_env.__name__,
    env_kwargs='{"longer": true}',
)


def seen(envs: Environments, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Observations [steps + 1, E, 2] and rewards [steps, E] of a reset with the seed 0."""
    envs.reset(0)
    observations, rewards = [envs.observations], []
    for _ in range(steps):
        rewards.append(envs.step(np.ones(envs.num_envs, np.int64)).rewards)
        observations.append(envs.observations)
    return np.array(observations), np.array(rewards)


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_what_has_ended_stays_until_the_next_seed(vectorization: Any) -> None:
    envs = Environments(
        Environment(**{**vars(LONGER), "vectorization": vectorization}), 3, once=True
    )
    for _ in range(2):
        observations, rewards = seen(envs, 12)
        times = np.minimum(np.arange(13)[:, None], [4, 5, 6])
        assert (observations[:, :, 0] == 0).all()
        assert (observations[:, :, 1] == times).all()
        assert (rewards.sum(axis=0) == [4, 5, 6]).all()
    envs.close()


def test_without_it_other_episodes_follow() -> None:
    envs = Environments(LONGER, 3)
    observations, _ = seen(envs, 12)
    assert observations[-1, :, 0].min() >= 1
    envs.close()


def test_an_episode_that_failed_is_followed_by_another() -> None:
    options = Environment(
        env_id="Misbehaving-v0",
        env_module=support.misbehaving_env.__name__,
        env_kwargs='{"how": "raises", "at": 7}',
    )
    envs = Environments(options, 1, once=True)
    observations, _ = seen(envs, 9)  # six steps, the failure, the reset, a step
    times = observations[:, 0, 1].tolist()
    assert times == [0, 1, 2, 3, 4, 5, 6, 6, 0, 1]
    assert envs.failures["raised"] == 1
    envs.close()


def test_masks_stay_as_well() -> None:
    options = Environment(env_id="TestMasks/Infos-v0", env_module=support.forbidding_env.__name__)
    envs = Environments(options, 2, once=True)
    envs.reset(0)
    for _ in range(support.forbidding_env.LENGTH + 4):
        time = int(envs.observations[0, 1])
        assert (envs.masks == support.forbidding_env.allowed(time)).all()
        envs.step(envs.masks.argmax(axis=1))
    assert not any(envs.failures.values())
    envs.close()


@pytest.fixture
def games() -> Iterator[list[Evaluation]]:
    """Chance decides there, of cards and of actions; the one rests, the other goes on."""
    config = Config.from_values(
        {"env_id": "Blackjack-v1", "eval_epsilon": 0.5, "max_eval_steps": 1000}
    )
    made = [Evaluation(config, 30, goes_on) for goes_on in (False, True)]
    yield made
    for each in made:
        each.environments.close()


def test_returns_are_the_same_to_the_last_bit(games: list[Evaluation]) -> None:
    def played(evaluation: Evaluation) -> tuple[list[float], int]:
        playing = evaluation.begin(5)
        while playing.episodes:
            greedy = (playing.observations.argmax(axis=1) % 2).astype(np.int32)
            playing = evaluation.step(Acted(greedy, playing.state))
        return evaluation.end().returns.tolist(), evaluation.steps

    resting, going_on = map(played, games)
    assert resting == going_on
    assert len(set(resting[0])) == 3
