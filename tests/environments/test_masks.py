"""Actions that an environment does not allow: read, remembered, and never taken."""

import json
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support.forbidding_env import ACTIONS, LENGTH, SMALL, allowed
from support.option_values import A3C
from support.small_learner import SEED, Inputs, learn

from ps_dqn import environments, networks
from ps_dqn.config import Config
from ps_dqn.coordinator.checks import first_look
from ps_dqn.environments import Environments
from ps_dqn.errors import UsageError
from ps_dqn.learning.learner import local_optimizer_slots
from ps_dqn.replay.batch import Rollout, Sequences, Transitions
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Actor, Evaluation

IDS = ("TestMasks/Infos-v0", "TestMasks/Method-v0")
SEQUENCES = {"recurrent_size": 2, "burn_in": 1, "sequence_length": 2, "sequence_period": 1}
NO_REPLAY = {"min_replay_size": 1000, "replay_capacity": None, "update_period": 8}
PQN = {"replay": "rollout", "target_update_period": 0, "n_step": 1, "double_dqn": False} | NO_REPLAY
KINDS: dict[str, dict[str, Any]] = {
    "double": {},
    "dqn": {"double_dqn": False},
    "expected": {"target": "expected_sarsa"},
    "rescaled": {"value_rescaling": True},
    "munchausen": {"munchausen": True, "double_dqn": False},
    "hl_gauss": {"value_distribution": "hl_gauss"},
    "c51": {"value_distribution": "c51"},
    "qr_dqn": {"value_distribution": "qr_dqn"},
    "munchausen_iqn": {"value_distribution": "iqn", "munchausen": True, "double_dqn": False},
    "r2d2": SEQUENCES,
    "pqn": PQN,
    "recurrent_pqn": {"recurrent_size": 2} | PQN,
    "a3c": A3C | NO_REPLAY,
    "recurrent_a3c": {"recurrent_size": 2} | A3C | NO_REPLAY,
}


def config(**values: Any) -> Config:
    return Config.from_values({"env_id": IDS[0], **SMALL, **values})


def times(observations: np.ndarray) -> list[int]:
    return observations.reshape(-1, 2)[:, 1].astype(int).tolist()


def masks_of(observations: np.ndarray) -> np.ndarray:
    """What each observation's mask must be."""
    found = np.array([allowed(time) for time in times(observations)])
    return found.reshape(*observations.shape[:-1], ACTIONS)


def mode(name: str) -> str:
    return json.dumps({"vector_kwargs": {"autoreset_mode": name}})


@pytest.mark.parametrize("autoreset", ["NextStep", "SameStep"])
@pytest.mark.parametrize("env_id", IDS)
def test_each_observation_comes_with_its_mask(env_id: str, autoreset: str) -> None:
    options = config(env_id=env_id, env_kwargs=mode(autoreset)).environment
    envs = Environments(options, 2)
    envs.reset(seed=0)
    assert (envs.spec.has_masks, envs.spec.mask_size) == (True, ACTIONS)
    seen = set()
    for _ in range(3 * LENGTH):
        assert (envs.masks == masks_of(envs.observations)).all()
        step = envs.step(envs.masks.argmax(axis=1))
        assert (step.masks == masks_of(step.observations)).all()
        assert (step.next_masks == masks_of(step.next_observations)).all()
        assert (step.final_masks == masks_of(step.final_observations)).all()
        seen.update(times(step.final_observations))
    assert seen == ({LENGTH} if autoreset == "SameStep" else set())
    assert not any(envs.failures.values())
    envs.close()


# What is learned from depends on the kind of memory alone, of which each resets in either way.
@pytest.mark.parametrize(
    ("kind", "autoreset"),
    [
        *((kind, "NextStep") for kind in KINDS),
        *((kind, "SameStep") for kind in ("dqn", "r2d2", "pqn", "recurrent_pqn")),
    ],
)
def test_no_action_is_taken_that_is_not_allowed(kind: str, autoreset: str) -> None:
    options = config(env_kwargs=mode(autoreset), **KINDS[kind])
    actor = Actor(options, worker=0)
    network = networks.build(options.network, options.value, actor.environments.spec, seed=0)
    made, taken = 0, set()
    while made < options.vector_steps_per_push(1) or not actor.memory.is_warm:
        observations, state, masks = map(tf.constant, actor.acting)
        shown = network.initial, observations, state
        acted = Acted(*(each.numpy() for each in network.act(*shown, SEED + made, masks)))
        taken.update(acted.actions.tolist())
        actor.step(acted, epsilon=0.0 if options.value.algorithm == "a3c" else 0.5)
        made += 1
    assert len({action % 2 for action in taken}) == 2, "what is best is not always allowed"
    batch = actor.memory.sample(2, 8)
    match batch:
        case Transitions():
            assert (batch.masks == masks_of(batch.observations)).all()
            assert (batch.next_masks == masks_of(batch.next_observations)).all()
        case Sequences():
            assert (batch.masks == masks_of(batch.observations)).all()
        case Rollout():
            assert (batch.masks == masks_of(batch.observations)).all()
            assert (batch.next_masks == masks_of(batch.next_observations)).all()
    slots = np.zeros((local_optimizer_slots(options), network.num_parameters), np.float32)
    given = Inputs(options, network, network.initial, network.initial, slots, batch)
    learned = learn(given, rate=1e-3)
    assert np.isfinite(learned.vector).all()
    assert np.isfinite(learned.errors).all()
    assert not any(actor.environments.failures.values())
    actor.close()


def test_random_actions_are_any_that_are_allowed() -> None:
    actor = Actor(config(), worker=0)
    for _ in range(60):
        _, states, masks = actor.acting
        actor.step(Acted(masks.argmin(axis=1), states), epsilon=1.0)
    assert not any(actor.environments.failures.values())
    batch = actor.memory.sample(2, 200)
    assert isinstance(batch, Transitions)
    assert set(batch.actions.ravel().tolist()) == set(range(ACTIONS))
    actor.close()


def test_evaluations_have_masks_too() -> None:
    evaluation = Evaluation(config(eval_epsilon=1.0), 3)
    playing = evaluation.begin(0)
    while playing.episodes:
        assert (playing.masks == masks_of(playing.observations)).all()
        playing = evaluation.step(Acted(playing.masks.argmax(axis=1), playing.state))
    assert evaluation.end().returns.tolist() == [LENGTH] * 3
    evaluation.environments.close()


def test_masks_may_be_left_out_or_asked_for() -> None:
    off = config(action_masks="off").environment
    assert not environments.describe(off).has_masks
    on = Config.from_values({"env_id": "CartPole-v1", "action_masks": "on"}).environment
    with pytest.raises(
        UsageError, match=r"CartPole-v1: it does not say which .* \(--action_masks=on\)"
    ):
        environments.describe(on)


def test_masks_of_another_size_are_refused() -> None:
    with pytest.raises(
        UsageError, match=r"--env_id=TestMasks/Infos-v0: its action masks are .* 10"
    ):
        environments.describe(config(env_kwargs='{"size": 4}').environment)


def test_evaluations_without_masks_are_refused_where_training_has_them() -> None:
    options = config(env_kwargs="{}", eval_env_kwargs='{"says": false}')
    with pytest.raises(UsageError, match=r"--eval_env_kwargs=.*: in training or in evaluations"):
        first_look.at_environment(options)
