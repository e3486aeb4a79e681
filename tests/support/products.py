"""Objectives on a network of a few products, and the arithmetic they are compared with.

Three transitions, two actions. The network's parameters are a and b: outputs are a times the
features, and where there are quantile fractions τ, plus b times them.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.learning import objectives
from ps_dqn.learning.passes import Losses, Outcomes, Pass

ONLINE, TARGET = [2.0, 0.3], [1.5, -0.4]
EPSILON = 0.4
SEED = np.array([11, 22], np.int32)  # no tensor: TensorFlow is set up after this is imported
ACTIONS = [0, 1, 1]
RETURNS = [0.5, -1.25, 2.0]
DISCOUNTS = [0.9, 0.81, 0.0]
# Each network's own features. The two disagree about the best next action of the first two.
NOW = [[0.3, -0.2], [1.1, 0.4], [-0.7, 0.9]]
NEXT = [[1.0, -0.5], [0.2, 0.8], [-0.3, 0.6]]
TARGET_NOW = [[0.6, 0.1], [-0.4, 0.5], [0.2, -0.1]]
TARGET_NEXT = [[0.4, 1.2], [0.9, -0.6], [0.7, 0.1]]
# As logits or quantile values: three for each of the two actions.
SPREAD = [-0.6, 0.1, 0.8]

ATOMS = [-2.0, 0.0, 2.0]  # the middles of hl_gauss's bins too
POLICY_QUANTILES = 5
ANY = {
    "none": {"value_distribution": "none"},
    "c51": {"value_distribution": "c51", "num_atoms": 3, "v_min": -2.0, "v_max": 2.0},
    "hl_gauss": {"value_distribution": "hl_gauss", "num_atoms": 3, "v_min": -3.0, "v_max": 3.0},
    "qr_dqn": {"value_distribution": "qr_dqn", "num_quantiles": 3, "huber_delta": 0.7},
    "iqn": {
        "value_distribution": "iqn",
        "num_quantiles": 3,
        "num_target_quantiles": 4,
        "num_policy_quantiles": POLICY_QUANTILES,
        "huber_delta": 0.7,
    },
}


class Products:
    """A network whose arithmetic is a line; it remembers its calls."""

    def __init__(self, config: Config):
        self.value = config.value
        self.calls: list[dict[str, Any]] = []

    def outputs(
        self, parameters: Any, features: Any, noise: Any = None, taus: Any = None
    ) -> tf.Tensor:
        self.calls.append({"a": float(parameters[0]), "noise": noise.numpy().tolist()})
        scaled = parameters[0] * features  # [K, A]
        if taus is None and self.value.value_distribution == "iqn":
            middle = (np.arange(POLICY_QUANTILES, dtype=np.float32) + 0.5) / POLICY_QUANTILES
            taus = tf.constant(np.tile(middle, (len(features), 1)))
        if taus is not None:
            self.calls[-1]["taus"] = taus.numpy().tolist()
            return scaled[:, :, None] + parameters[1] * taus[:, None, :]  # [K, A, N]
        if self.value.value_distribution == "none":
            return scaled
        return scaled[:, :, None] * (1.0 + tf.constant(SPREAD)) + tf.constant(SPREAD)

    def q_values(self, outputs: Any) -> tf.Tensor:
        if self.value.value_distribution == "none":
            return outputs
        if self.value.value_distribution in ("c51", "hl_gauss"):
            return tf.reduce_sum(tf.nn.softmax(outputs) * tf.constant(ATOMS), -1)
        return tf.reduce_mean(outputs, -1)


def ask(config: Config, parameters: Any, next_features: Any = None) -> tuple[Losses, Any, Products]:
    """Losses of the three transitions, as a source asks for them."""
    network = Products(config)
    objective = objectives.make(config, network)  # type: ignore[arg-type]
    actions = tf.constant(ACTIONS)
    features = tf.constant(TARGET_NOW), tf.constant(TARGET_NEXT)
    bootstrap = objective.bootstrap(Pass(tf.constant(TARGET), *features, SEED), actions)
    if config.value.double_dqn and next_features is None:
        next_features = tf.constant(NEXT)
    outcomes = Outcomes(actions, tf.constant(RETURNS), tf.constant(DISCOUNTS))
    online = Pass(parameters, tf.constant(NOW), next_features, SEED)
    found = objective.losses(online, outcomes, bootstrap, tf.constant(EPSILON))
    return found, bootstrap, network


def ask_for(**values: Any) -> tuple[Losses, Products]:
    found, _, network = ask(
        Config.from_values({"double_dqn": False, **values}), tf.constant(ONLINE)
    )
    return found, network


def best(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def huber(error: float, delta: float = 1.0) -> float:
    return error**2 / 2 if abs(error) <= delta else delta * (abs(error) - delta / 2)


def softmax(values: Sequence[float]) -> list[float]:
    total = sum(math.exp(value) for value in values)
    return [math.exp(value) / total for value in values]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def scaled(parameters: Sequence[float], features: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[parameters[0] * each for each in row] for row in features]


def close(values: object) -> object:
    return pytest.approx(values, rel=1e-5, abs=1e-6)


def check(found: Losses, losses: list[float], errors: list[float], q_values: list[float]) -> None:
    assert found.loss.numpy().tolist() == close(losses)
    assert found.error.numpy().tolist() == close(errors)
    assert found.q_value.numpy().tolist() == close(q_values)


MUNCHAUSEN = {
    "munchausen": True,
    "munchausen_alpha": 0.8,
    "munchausen_temperature": 0.25,
    "munchausen_clip": -0.4,
}


def soft_policy(q_values: Sequence[float]) -> list[float]:
    return softmax([value / 0.25 for value in q_values])


def bonuses(now: list[list[float]]) -> list[float]:
    logs = [math.log(soft_policy(q)[a]) for q, a in zip(now, ACTIONS, strict=True)]
    assert 0.25 * min(logs) < -0.4 < 0.25 * max(logs), "one is clipped, one is not"
    return [0.8 * max(0.25 * each, -0.4) for each in logs]
