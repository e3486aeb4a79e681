"""Learning with a mask: what is masked stays as it is, the rest learns as if nothing else were."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support.reference_updates import reference_gradient
from support.small_learner import EPSILON, RATE, SEED, STEPS, Inputs, inputs

from ps_dqn import optimizers
from ps_dqn.learning import masking
from ps_dqn.learning.learner import Learned, make_learner
from ps_dqn.replay.batch import Transitions

HIDDEN = {"hidden_sizes": (4,), "max_grad_norm": 0.3}


def given(**values: Any) -> tuple[Inputs, np.ndarray]:
    """Inputs whose parameters a mask has been applied to, and the mask."""
    made = inputs(**HIDDEN, **values)
    mask = (np.random.default_rng(2).random(len(made.online)) < 0.6).astype(np.float32)
    return dataclasses.replace(made, online=made.online * mask, target=made.target * mask), mask


def learn(made: Inputs, mask: np.ndarray) -> Learned:
    numbers = np.float32(STEPS), np.float32(RATE), np.float32(EPSILON)
    scale = [2.0, 0.0, 0.0] if made.config.precision.scales_loss else []
    learned = make_learner(made.config, made.network)(
        *map(tf.constant, (made.online, made.target, made.slots, *numbers, SEED)),
        type(made.batch)(*map(tf.constant, made.batch)),
        tf.constant(scale, tf.float32),
        tf.constant(mask),
    )
    return Learned(*map(np.asarray, learned))


def reference(made: Inputs, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Updates in NumPy, masked: change or gradient, slots, and the sum of whole gradients."""
    config, network = made.config, made.network
    unclipped = dataclasses.replace(
        config, learning=dataclasses.replace(config.learning, max_grad_norm=0.0)
    )
    parameters, slots = made.online, list(made.slots * mask)
    growth, optimizer = np.zeros_like(parameters), optimizers.build(config.learning)
    for i in range(config.parameter_server.local_updates):
        minibatch = Transitions(*(array[i] for array in made.batch))
        whole, *_ = reference_gradient(
            unclipped, network, tf.constant(parameters), tf.constant(made.target), minibatch
        )
        growth = growth + whole
        gradient = whole * mask
        norm = np.linalg.norm(gradient)
        gradient = gradient * min(1.0, config.learning.max_grad_norm / norm)
        if config.parameter_server.local_updates == 1:
            return gradient, made.slots, growth
        step = np.float32(STEPS + i + 1)
        parameters, slots = optimizer.apply(parameters, slots, gradient, np.float32(RATE), step)
    return parameters - made.online, np.stack(slots), growth


@pytest.mark.parametrize("local_updates", [1, 3])
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "rmsprop"])
@pytest.mark.parametrize("pruning", ["magnitude", "rigl"])
def test_updates_are_those_of_numpy(local_updates: int, optimizer: str, pruning: str) -> None:
    made, mask = given(local_updates=local_updates, optimizer=optimizer, pruning=pruning)
    learned = learn(made, mask)
    vector, slots, growth = reference(made, mask)
    np.testing.assert_allclose(learned.vector, vector, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(learned.slots, slots, rtol=1e-4, atol=1e-6)
    assert not learned.vector[mask == 0].any()
    assert np.abs(learned.vector[mask == 1]).max() > 1e-3
    if pruning == "rigl":
        np.testing.assert_allclose(learned.growth, growth, rtol=1e-4, atol=1e-6)
        assert np.abs(learned.growth[mask == 0]).max() > 1e-3
    else:
        assert learned.growth.shape == (0,)


def test_what_the_optimizer_had_of_weights_that_are_gone_does_not_move_them() -> None:
    made, mask = given()
    assert made.slots[:, mask == 0].all()
    assert not learn(made, mask).slots[:, mask == 0].any()


@pytest.mark.parametrize("compiled", ["none", pytest.param("update", marks=pytest.mark.slow)])
def test_without_a_mask_nothing_changes(compiled: str) -> None:
    made = inputs(**HIDDEN, jit_compile=compiled)
    everything = learn(made, np.ones(len(made.online), np.float32))
    for name, one, other in zip(
        Learned._fields, learn(made, masking.NONE), everything, strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7, err_msg=name)


@pytest.mark.parametrize(
    "values",
    [
        {"precision": "float16", "pruning": "rigl"},
        {"value_distribution": "c51", "num_atoms": 5, "huber_delta": 1.0, "dueling": True},
        {"value_distribution": "iqn", "num_quantiles": 3, "num_target_quantiles": 2},
        {"recurrent_size": 3, "burn_in": 2, "sequence_length": 3, "sequence_period": 2},
    ],
    ids=lambda values: next(iter(values)),
)
def test_whatever_is_learned_what_is_masked_stays(values: dict[str, Any]) -> None:
    made, mask = given(**values)
    learned = learn(made, mask)
    assert not learned.vector[mask == 0].any()
    assert np.isfinite(learned.vector).all()
    assert np.abs(learned.vector).max() > 1e-3
