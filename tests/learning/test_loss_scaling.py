"""The loss scale: its arithmetic by hand, and what updates make of gradients that overflow."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support.small_learner import (
    DISTRIBUTIONS,
    DUELING,
    ENVIRONMENT,
    EPSILON,
    NOISY,
    RATE,
    RECURRENT,
    SEED,
    STEPS,
    Inputs,
    inputs,
)
from support.tiers import tiered

from ps_dqn import networks
from ps_dqn.config import Precision
from ps_dqn.learning import loss_scaling
from ps_dqn.learning.learner import Learned, make_learner
from ps_dqn.learning.loss_scaling import Dynamic, Scale

FIRST = 2.0**15


def stepped(scaling: Dynamic, state: Scale, gradient: list[float]) -> tuple[list[float], Scale]:
    found, after = scaling.unscaled(tf.constant(gradient), tf.constant(state, tf.float32))
    return found.numpy().tolist(), Scale(*after.numpy().tolist())


def test_the_scale_follows_what_is_found() -> None:
    scaling, inf, nan = Dynamic(growth_period=3), float("inf"), float("nan")
    script = [
        # What is found; what it is of the loss; the scale, updates in a row and skipped after it.
        ([8.0, -4.0], [1.0, -0.5], (8, 1, 0)),
        ([8.0, inf], [0.0, 0.0], (4, 0, 1)),
        ([nan, 4.0], [0.0, 0.0], (2, 0, 2)),
        ([-inf, inf], [0.0, 0.0], (1, 0, 3)),
        ([inf, 0.0], [0.0, 0.0], (1, 0, 4)),  # less than 1 would make gradients smaller
        ([3.0, 0.0], [3.0, 0.0], (1, 1, 4)),
        ([3.0, 0.0], [3.0, 0.0], (1, 2, 4)),
        ([3.0, 0.0], [3.0, 0.0], (2, 0, 4)),  # the third in a row
        ([3.0, 1.0], [1.5, 0.5], (2, 1, 4)),
    ]
    state = Scale(8, 0, 0)
    for given, gradient, after in script:
        found, state = stepped(scaling, state, given)
        assert (found, state) == (gradient, after)


def test_the_scale_does_not_outgrow_float32() -> None:
    scaling, state = Dynamic(growth_period=1), Scale(2.0**23, 0, 0)
    for _ in range(3):
        _, state = stepped(scaling, state, [0.0])
        assert state.scale == 2.0**24


def test_the_loss_is_multiplied_by_the_scale() -> None:
    assert Dynamic(1).scaled(tf.constant(0.75), tf.constant([16.0, 3, 0])).numpy() == 12.0


def test_only_float16_has_a_scale() -> None:
    sizes = [
        loss_scaling.make(Precision(precision=each)).num_numbers
        for each in ("float32", "bfloat16", "float16")
    ]
    assert sizes == [0, 0, 3]


def given(**values: Any) -> Inputs:
    """A learner's inputs, its network in the numbers that its options say."""
    made = inputs(**({"hidden_sizes": (8, 6)} | values))
    config = made.config
    numbers = config.precision.precision
    made.network = networks.build(config.network, config.value, ENVIRONMENT, 1, numbers)
    return made


def learn(made: Inputs, scale: float | None = None) -> Learned:
    numbers = np.float32(STEPS), np.float32(RATE), np.float32(EPSILON)
    state = [] if scale is None else [tf.constant([scale, 0, 0], tf.float32)]
    made.learner = made.learner or make_learner(made.config, made.network)
    learned = made.learner(
        *map(tf.constant, (made.online, made.target, made.slots, *numbers, SEED)),
        type(made.batch)(*map(tf.constant, made.batch)),
        *state,
    )
    return Learned(*(each.numpy() for each in learned))


KINDS: dict[str, dict[str, Any]] = {
    "dqn": {"layer_norm": True, "max_grad_norm": 1.0},
    "c51": DISTRIBUTIONS["c51"] | {"huber_delta": 1.0},
    "qr_dqn_munchausen": DISTRIBUTIONS["qr_dqn"] | {"munchausen": True},
    "noisy_dueling": NOISY | DUELING,
    "recurrent_iqn": RECURRENT | DISTRIBUTIONS["iqn"],
}


@pytest.mark.parametrize("kind", tiered(KINDS, quick=("c51",), slow=("recurrent_iqn",)))
def test_updates_are_those_of_float32_but_for_rounding(kind: str) -> None:
    numbers = "float16" if kind == "dqn" else "bfloat16"
    scale, digits = (FIRST, 2.0**-11) if kind == "dqn" else (None, 2.0**-8)
    wanted = learn(given(**KINDS[kind]))
    found = learn(given(**KINDS[kind], precision=numbers), scale)
    error = np.linalg.norm(found.vector - wanted.vector) / np.linalg.norm(wanted.vector)
    assert digits / 50 < error < 10 * digits
    np.testing.assert_allclose(found.td_loss, wanted.td_loss, rtol=10 * digits)
    assert found.vector.dtype == found.slots.dtype == np.float32
    if scale:
        np.testing.assert_array_equal(found.loss_scale, [FIRST, 3, 0])


def overflowing(made: Inputs, update: int) -> Inputs:
    """An observation of one minibatch is beyond what float16 has."""
    observations = made.batch.observations.copy()
    observations[update, 0] = 1e5
    return dataclasses.replace(made, batch=made.batch._replace(observations=observations))


@pytest.mark.parametrize("compiled", tiered(["none", "update"], slow=("update",)))
def test_an_update_that_overflows_is_as_if_it_were_not_there(compiled: str) -> None:
    options = {"precision": "float16", "jit_compile": compiled, "optimizer": "adam"}
    all_three = overflowing(given(**options), update=1)
    found = learn(all_three, scale=64.0)
    without = given(**options, local_updates=2)
    without.batch = type(all_three.batch)(*(each[[0, 2]] for each in all_three.batch))
    wanted = learn(without, scale=64.0)
    np.testing.assert_array_equal(found.loss_scale, [32, 1, 1])
    assert np.isfinite(found.vector).all()
    assert np.isfinite(found.td_loss)
    assert np.abs(found.vector).max() > 0.01
    # The optimizer has made two steps, and knows nothing of a third. A power of two rounds nothing.
    np.testing.assert_allclose(found.vector, wanted.vector, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.slots, wanted.slots, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(found.td_loss, wanted.td_loss, rtol=1e-5)


def test_a_gradient_alone_that_overflows_is_none() -> None:
    made = overflowing(given(precision="float16", local_updates=1), update=0)
    found = learn(made, scale=64.0)
    np.testing.assert_array_equal(found.loss_scale, [32, 0, 1])
    np.testing.assert_array_equal(found.vector, np.zeros_like(made.online))


def test_a_scale_that_is_too_large_comes_down_by_itself() -> None:
    made = given(precision="float16", local_updates=3)
    batch = made.batch
    made.batch = batch._replace(returns=batch.returns * 100, weights=batch.weights * 1000)
    scale, skipped = 2.0**24, 0.0
    for _ in range(10):
        found = learn(made, scale)
        scale, skipped = float(found.loss_scale[0]), float(found.loss_scale[2])
        assert np.isfinite(found.vector).all()
    assert skipped == 0 < scale < 2.0**20


def test_gradients_too_small_for_float16_are_kept_by_the_scale() -> None:
    def gradient(numbers: str, scale: float | None) -> np.ndarray:
        made = given(precision=numbers, local_updates=1)
        made.batch = made.batch._replace(weights=made.batch.weights * 1e-8)
        return learn(made, scale).vector

    wanted = gradient("float32", None)
    assert 0 < np.abs(wanted).max() < 2.0**-24  # the smallest number of float16
    found, size = gradient("float16", 2.0**15), np.linalg.norm(wanted)
    assert np.linalg.norm(found - wanted) < 0.01 * size
    # The last layer is float32 in any case.
    lost = gradient("float16", 1.0)
    hidden = slice(0, 2 * 8 + 8)
    assert not lost[hidden].any()
    assert found[hidden].any()
