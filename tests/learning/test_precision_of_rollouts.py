"""What is learned from the steps just made, in fewer digits and in float32."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support.option_values import A3C, ROLLOUT

from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.learning.learner import Learned, local_optimizer_slots, make_learner
from ps_dqn.replay.batch import Rollout, zero_batch

SPEC = EnvironmentSpec((3,), np.dtype(np.float32), 4, None)
SHARED: dict[str, Any] = {
    "replay": "rollout",
    "hidden_sizes": (8, 6),
    "layer_norm": False,
    "num_envs_per_worker": 4,
    "local_updates": 2,
    "update_period": 8,
    "batch_size": 8,
    "max_grad_norm": 0.0,
    "jit_compile": "none",
}
KINDS: dict[str, dict[str, Any]] = {
    "pqn": ROLLOUT,
    "a3c": A3C | {"v_trace": True},
    "recurrent_pqn": ROLLOUT | {"recurrent_size": 4},
    "recurrent_a3c": A3C | {"recurrent_size": 4},
}


def random_rollout(config: Config) -> Rollout:
    rng, zeros = np.random.default_rng(4), zero_batch(config, SPEC)
    assert isinstance(zeros, Rollout)

    def normal(like: np.ndarray) -> np.ndarray:
        return rng.normal(size=like.shape).astype(np.float32)

    steps, envs = zeros.actions.shape
    order = rng.permutation(steps * envs)
    if config.network.recurrent_size:  # whole environments, one after the other
        order = np.arange(steps * envs).reshape(steps, envs).T
    return zeros._replace(
        observations=normal(zeros.observations),
        next_observations=normal(zeros.next_observations),
        actions=rng.integers(4, size=zeros.actions.shape).astype(np.int32),
        rewards=normal(zeros.rewards),
        discounts=np.full_like(zeros.discounts, 0.9),
        continues=np.ones_like(zeros.continues),
        weights=np.ones_like(zeros.weights),
        log_probs=-np.abs(normal(zeros.log_probs)),
        order=order.reshape(zeros.order.shape).astype(np.int32),
    )


def learned(kind: str, numbers: str) -> Learned:
    config = Config.from_values(SHARED | KINDS[kind] | {"precision": numbers})
    network = networks.build(config.network, config.value, SPEC, 1, numbers)
    scale = [np.float32([2**15, 0, 0])] if numbers == "float16" else []
    slots = np.zeros((local_optimizer_slots(config), network.num_parameters), np.float32)
    others = np.float32(0), np.float32(0.01), np.float32(0.1), np.array([1, 2], np.int32)
    inputs = map(tf.constant, (network.initial, network.initial, slots, *others))
    batch = Rollout(*map(tf.constant, random_rollout(config)))
    return make_learner(config, network)(*inputs, batch, *map(tf.constant, scale))


@pytest.mark.parametrize(
    ("kind", "numbers"), [*((kind, "bfloat16") for kind in KINDS), ("a3c", "float16")]
)
def test_they_teach_what_they_teach_in_float32_but_for_rounding(kind: str, numbers: str) -> None:
    wanted, found = learned(kind, "float32"), learned(kind, numbers)
    assert found.vector.dtype == tf.float32
    np.testing.assert_allclose(found.td_loss, wanted.td_loss, rtol=0.05)
    # Adam's first steps are of one size, whatever the gradient's is: where it is nearly 0, rounding
    # turns a step, and how many it turns differs by CPU. A tenth of them leaves a cosine of 0.8.
    ours, theirs = tf.nn.l2_normalize(found.vector), tf.nn.l2_normalize(wanted.vector)
    assert float(tf.norm(ours - theirs)) > 1e-6
    assert float(tf.reduce_sum(ours * theirs)) > 0.8
