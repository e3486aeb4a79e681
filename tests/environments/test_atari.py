"""Atari in ALE's own vector form: scores are the game's, whatever is learned from."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ps_dqn.config import Config, Environment
from ps_dqn.environments import Environments
from ps_dqn.errors import UsageError
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Actor, Evaluation

ATARI = {"env_module": "ale_py", "env_id": "ALE/SpaceInvaders-v5", "frame_stack": 4}
SHORT = {"max_num_frames_per_episode": 1200}  # 300 steps: random play hits invaders by then


def config(**values: Any) -> Config:
    sizes = {"num_envs_per_worker": 2, "min_replay_size": 8, "replay_capacity": 2_000}
    return Config.from_values(
        {**ATARI, "network": "nature", "env_kwargs": json.dumps(SHORT), **sizes, **values}
    )


def test_rewards_are_those_of_the_game(opened: Callable[..., Environments]) -> None:
    environments = opened(config().environment, num_envs=2)
    rng = np.random.default_rng(0)
    steps = [environments.step(rng.integers(6, size=2)) for _ in range(300)]
    rewards = {float(reward) for step in steps for reward in step.rewards}
    assert max(rewards) > 1
    assert all(reward % 5 == 0 for reward in rewards), "an invader is worth 5 and more"


def test_what_is_learned_from_is_limited_and_scores_are_not() -> None:
    actor = Actor(config(reward_clip=1.0, n_step=1), 0)
    for _ in range(600):
        observations, states, _ = actor.acting
        actor.step(Acted(np.zeros(len(observations), np.int32), states), 1.0)
    batch = actor.memory.sample(64, 8)
    gathered = actor.take_gathered()
    actor.close()
    assert {0.0, 1.0} == set(np.unique(batch.returns))
    assert max(gathered.returns) > 10
    assert all(score % 5 == 0 for score in gathered.returns)


def test_evaluations_count_the_score_of_the_game() -> None:
    evaluation = Evaluation(config(reward_clip=1.0, eval_epsilon=1.0), 3)
    evaluation.begin(1)
    while evaluation.step(Acted(np.zeros(3, np.int32), np.zeros((3, 0)))).episodes:
        pass
    scores = evaluation.end().returns
    evaluation.environments.close()
    assert scores.max() > 10
    assert all(score % 5 == 0 for score in scores)


def test_who_wants_it_clipped_is_told_how() -> None:
    clipped = json.dumps({"reward_clipping": True})
    with pytest.raises(UsageError, match="--reward_clip=1"):
        Environments(Environment(**ATARI, env_kwargs=clipped), 1)
