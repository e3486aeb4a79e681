"""A worker that learns from what others did steps no environment."""

import pathlib

import numpy as np
from support.paying_env import SMALL

from ps_dqn.config import Config
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Actor
from ps_dqn.worker.pushes.push_under_way import PushUnderWay

TIMES = [0, 1, 2, 3] * 5


def test_its_steps_count_and_are_not_made(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "shown.npz"
    observations = np.array([[9, time] for time in TIMES])
    ends = np.array([time == 3 for time in TIMES])
    rewards = np.array(TIMES, np.float32)
    np.savez(
        path,
        observations=observations,
        actions=np.ones(20, np.int64),
        rewards=rewards,
        terminated=ends,
    )
    config = Config.from_values({**SMALL, "demonstrations": str(path), "offline": True})
    actor, push = Actor(config, worker=0), PushUnderWay(seed=1, worker=0)
    before = actor.environments.observations.copy()
    assert actor.memory.is_warm
    assert push.begin(steps=3)
    actor.begin(push)
    assert push.steps_to_make == 0
    assert push.steps_made == 3
    gathered = actor.take_gathered()
    assert gathered.env_steps == 3 * SMALL["num_envs_per_worker"]
    assert gathered.returns == []
    assert (actor.environments.observations == before).all()
    batch = actor.memory.sample(*actor.nothing.actions.shape)
    assert {name: each.shape for name, each in batch._asdict().items()} == {
        name: each.shape for name, each in actor.nothing._asdict().items()
    }
    assert (batch.observations[..., 0] == 9).all()
    actor.close()


def test_what_is_collected_is_learned_from_beside_demonstrations(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "shown.npz"
    ends = np.array([time == 3 for time in TIMES])
    np.savez(
        path,
        observations=np.full((20, 2), 9),
        actions=np.ones(20, np.int64),
        rewards=ends,
        terminated=ends,
    )
    config = Config.from_values({**SMALL, "demonstrations": str(path)})
    actor, push = Actor(config, worker=0), PushUnderWay(seed=1, worker=0)
    assert not actor.memory.is_warm
    push.begin(steps=3)
    actor.begin(push)
    assert push.steps_to_make == 3
    while not actor.memory.is_warm:
        observations, states, _ = actor.acting
        actor.step(Acted(np.ones(len(observations), np.int32), states), 0.0)
    batch = actor.memory.sample(*actor.nothing.actions.shape)
    is_shown = batch.observations[..., 1] == 9
    assert (is_shown == (batch.demonstrated[..., 0] == 1)).all()
    assert is_shown.sum(axis=1).tolist() == [2] * len(is_shown)  # a quarter of eight
    actor.close()
