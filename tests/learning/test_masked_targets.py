"""Bootstraps over allowed actions: the same as those of a problem that has no others."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support.products import ANY, MUNCHAUSEN, SEED, Products

from ps_dqn.config import Config
from ps_dqn.learning import objectives
from ps_dqn.learning.passes import Losses, Outcomes, Pass
from ps_dqn.networks import heads

KINDS: dict[str, dict[str, Any]] = {
    **ANY,
    "double": {"double_dqn": True},
    "expected": {"target": "expected_sarsa"},
    "munchausen": MUNCHAUSEN,
    "munchausen_qr": MUNCHAUSEN | ANY["qr_dqn"],
    "rescaled": {"value_rescaling": True, "target": "expected_sarsa"},
}
ROWS, ACTIONS = 5, 4


def ask(config: Config, columns: list[int], masks: Any) -> Losses:
    """Losses where the network has these of four actions."""
    rng = np.random.default_rng(8)
    arrays = [rng.normal(size=(ROWS, ACTIONS)).astype(np.float32)[:, columns] for _ in range(4)]
    now, after, target_now, target_after = map(tf.constant, arrays)
    objective = objectives.make(config, Products(config))  # type: ignore[arg-type]
    actions = tf.constant([0, 1, 1, 0, 1])
    target = Pass(tf.constant([1.5, -0.4]), target_now, target_after, SEED, masks, masks)
    following = after if config.value.double_dqn else None
    online = Pass(tf.constant([2.0, 0.3]), now, following, SEED, masks, masks)
    outcomes = Outcomes(actions, tf.range(5.0) * 0.5, tf.fill([ROWS], 0.9))
    return objective.losses(online, outcomes, objective.bootstrap(target, actions), 0.4)


@pytest.mark.parametrize("kind", KINDS)
def test_other_actions_do_not_count(kind: str) -> None:
    config = Config.from_values({"double_dqn": False, **KINDS[kind]})
    masks = tf.constant([[True, True, False, False]] * ROWS)
    masked, without = ask(config, [0, 1, 2, 3], masks), ask(config, [0, 1], None)
    for found, expected in zip(masked, without, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    other = ask(config, [0, 1, 2, 3], None)
    assert np.abs(other.loss.numpy() - without.loss.numpy()).max() > 1e-3, "they would count"


def test_all_are_allowed_where_there_are_no_masks() -> None:
    values = tf.constant([[1.0, 2.0]])
    for masks in (None, tf.zeros([1, 0], tf.bool)):
        assert heads.only_allowed(values, masks) is values
