"""Learning from scaled rewards and standardized observations is learning from those numbers."""

from typing import Any

import numpy as np
import pytest
from support.small_learner import FEATURES, RECURRENT, SMALL, Inputs, inputs, learn

SCALE = 0.25
MEAN, SCALES = np.array([0.5, -1.0]), np.array([1.5, 0.5])
ROLLOUT = {
    "replay": "rollout", "target_update_period": 0, "n_step": 1, "min_replay_size": 1000,
    "replay_capacity": None, "update_period": 5, "num_envs_per_worker": 5,
}  # fmt: skip


def with_head(given: Inputs, head: list[float]) -> Inputs:
    size = len(head)
    for vector in (given.online, given.target):
        vector[:size] = head
    given.slots[:, :size] = 0  # as they begin, and stay
    return given


def same_start(given: Inputs, plain: Inputs, size: int) -> None:
    """The plain one begins with what the other has behind its head."""
    plain.online, plain.target = given.online[size:].copy(), given.target[size:].copy()
    plain.slots = given.slots[:, size:].copy()


# A gradient and a change of several updates, of either kind of memory.
@pytest.mark.parametrize(
    "kind", [{}, RECURRENT | {"local_updates": 1}], ids=["transitions", "sequences"]
)
def test_rewards_are_scaled(kind: dict[str, Any]) -> None:
    given = with_head(inputs(normalize_returns=True, **kind), [SCALE])
    plain = inputs(**kind)
    same_start(given, plain, 1)
    plain.batch = plain.batch._replace(returns=SCALE * given.batch.returns)
    if kind:  # an LSTM reads them, and the one before its sequence
        states = given.batch.states.copy()
        states[..., -1] *= SCALE
        plain.batch = plain.batch._replace(rewards=SCALE * given.batch.rewards, states=states)
    found, expected = learn(given), learn(plain)
    assert found.vector[0] == 0
    np.testing.assert_allclose(found.vector[1:], expected.vector, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.errors, expected.errors, rtol=1e-5, atol=1e-6)


def test_observations_are_standardized() -> None:
    given = with_head(inputs(normalize_observations="on"), [*MEAN, *SCALES])
    plain = inputs()
    same_start(given, plain, 2 * FEATURES)
    plain.batch = plain.batch._replace(
        **{
            name: ((getattr(given.batch, name) - MEAN) * SCALES).astype(np.float32)
            for name in ("observations", "next_observations")
        }
    )
    found, expected = learn(given), learn(plain)
    assert not found.vector[: 2 * FEATURES].any()
    assert not found.slots[:, : 2 * FEATURES].any()
    np.testing.assert_allclose(found.vector[4:], expected.vector, rtol=1e-4, atol=1e-6)


def test_rewards_of_a_rollout_are_scaled() -> None:
    from support.small_learner import ENVIRONMENT

    from ps_dqn import networks
    from ps_dqn.config import Config
    from ps_dqn.learning.learner import local_optimizer_slots
    from ps_dqn.replay.batch import zero_batch

    def made(**values: Any) -> Inputs:
        config = Config.from_values(SMALL | ROLLOUT | values)
        network = networks.build(config.network, config.value, ENVIRONMENT, 1)
        slots = np.zeros((local_optimizer_slots(config), network.num_parameters), np.float32)
        zeros, rng = zero_batch(config, ENVIRONMENT), np.random.default_rng(4)
        batch = zeros._replace(
            observations=rng.normal(size=zeros.observations.shape).astype(np.float32),
            rewards=rng.normal(size=zeros.rewards.shape).astype(np.float32),
            weights=np.ones(zeros.weights.shape, np.float32),
        )
        return Inputs(config, network, network.initial, network.initial, slots, batch)

    given = with_head(made(normalize_returns=True), [SCALE])
    plain = made()
    plain.batch = plain.batch._replace(rewards=(SCALE * given.batch.rewards).astype(np.float32))
    found, expected = learn(given), learn(plain)
    np.testing.assert_allclose(found.vector[1:], expected.vector, rtol=1e-4, atol=1e-6)
    assert expected.vector.any()
