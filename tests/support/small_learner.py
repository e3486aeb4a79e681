"""A learner small enough for tests, and a batch for it, on a linear network or others."""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.learning.learner import Learned, local_optimizer_slots, make_learner
from ps_dqn.replay.batch import Sequences, zero_batch

FEATURES, ACTIONS, SIZE = 2, 3, 5
ENVIRONMENT = EnvironmentSpec((FEATURES,), np.dtype(np.float32), ACTIONS, None)
SEED = np.array([1_000, 2_000], np.int32)
STEPS, RATE, EPSILON, DELTA = 7, 0.05, 0.3, 3.0

SMALL: dict[str, Any] = {
    "hidden_sizes": (),
    "layer_norm": False,
    "double_dqn": False,
    "num_envs_per_worker": 1,
    "update_period": 1,
    "local_updates": 3,
    "batch_size": SIZE,
    "n_step": 2,
    "huber_delta": DELTA,
    "max_grad_norm": 0.0,
    "jit_compile": "none",
}

RECURRENT = {"recurrent_size": 3, "burn_in": 2, "sequence_length": 3, "sequence_period": 2}
DISTRIBUTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "hl_gauss": {"value_distribution": "hl_gauss", "num_atoms": 5},
    "c51": {"value_distribution": "c51", "num_atoms": 5},
    "qr_dqn": {"value_distribution": "qr_dqn", "num_quantiles": 3},
    "iqn": {"value_distribution": "iqn", "num_quantiles": 3, "num_target_quantiles": 2},
}
DUELING, NOISY = {"dueling": True}, {"noisy": True, "hidden_sizes": (4,)}
IQN = DISTRIBUTIONS["iqn"]


def make_batch(config: Config) -> Any:
    """Inputs far from zero and from each other, so that no option idles."""
    rng = np.random.default_rng(3)
    zeros = zero_batch(config, ENVIRONMENT)
    batch = zeros._replace(
        observations=rng.normal(size=zeros.observations.shape).astype(np.float32),
        actions=rng.integers(ACTIONS, size=zeros.actions.shape).astype(np.int32),
        returns=3 * rng.normal(size=zeros.returns.shape).astype(np.float32),
        discounts=np.where(rng.random(zeros.discounts.shape) < 0.2, 0, 0.9).astype(np.float32),
        weights=rng.uniform(0.2, 1, zeros.weights.shape).astype(np.float32),
    )
    if isinstance(batch, Sequences):
        first, steps = config.replay.burn_in, config.replay.sequence_length
        bootstraps = first + np.arange(steps) + rng.integers(1, 3, zeros.bootstraps.shape)
        return batch._replace(
            starts=rng.random(zeros.starts.shape) < 0.2,
            rewards=rng.normal(size=zeros.rewards.shape).astype(np.float32),
            states=rng.normal(size=zeros.states.shape).astype(np.float32),
            bootstraps=bootstraps.astype(np.int32),
        )
    following = rng.normal(size=zeros.next_observations.shape)
    return batch._replace(next_observations=following.astype(np.float32))


@dataclasses.dataclass
class Inputs:
    """What a learner of a configuration is called with."""

    config: Config
    network: Any
    online: np.ndarray
    target: np.ndarray
    slots: np.ndarray
    batch: Any
    learner: Any = None


def inputs(**values: Any) -> Inputs:
    config = Config.from_values(SMALL | values)
    online, target = (
        networks.build(config.network, config.value, ENVIRONMENT, seed) for seed in (1, 2)
    )
    shape = local_optimizer_slots(config), online.num_parameters
    slots = np.random.default_rng(5).random(shape).astype(np.float32) * 0.01
    batch = make_batch(config)
    return Inputs(config, online, online.initial, target.initial, slots, batch)


def learn(
    given: Inputs, seed: np.ndarray = SEED, rate: float = RATE, epsilon: float = EPSILON
) -> Learned:
    if given.learner is None:
        given.learner = make_learner(given.config, given.network)
    numbers = np.float32(STEPS), np.float32(rate), np.float32(epsilon)
    learned = given.learner(
        *map(tf.constant, (given.online, given.target, given.slots, *numbers, seed)),
        type(given.batch)(*map(tf.constant, given.batch)),
    )
    return Learned(*map(np.asarray, learned))
