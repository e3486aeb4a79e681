"""Losses of TD errors, with the arithmetic written out."""

import dataclasses
import math

import pytest
import tensorflow as tf

from ps_dqn.config import Value
from ps_dqn.learning import losses


def close(values: tf.Tensor) -> object:
    return pytest.approx(values, rel=1e-6, abs=1e-7)


def test_chosen_values_and_their_gradient() -> None:
    q_values = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    with tf.GradientTape() as tape:
        tape.watch(q_values)
        chosen = losses.chosen_values(q_values, tf.constant([2, 0]))
        total = tf.reduce_sum(chosen * [10.0, 20.0])
    assert chosen.numpy().tolist() == [3.0, 4.0]
    assert tape.gradient(total, q_values).numpy().tolist() == [[0, 0, 10], [20, 0, 0]]


@pytest.mark.parametrize(
    ("error", "loss", "gradient"),
    [
        (0.0, 0.0, 0.0),
        (0.5, 0.125, 0.5),
        (-0.5, 0.125, -0.5),
        (1.9999, 1.9999**2 / 2, 1.9999),
        (2.0, 2.0, 2.0),  # 2²/2 from below, 2 · (2 - 1) from above
        (-2.0, 2.0, -2.0),
        (5.0, 2.0 * (5.0 - 1.0), 2.0),
        (-5.0, 2.0 * (5.0 - 1.0), -2.0),
        (1e6, 2.0 * (1e6 - 1.0), 2.0),
    ],
)
def test_huber(error: float, loss: float, gradient: float) -> None:
    errors = tf.constant([error])
    with tf.GradientTape() as tape:
        tape.watch(errors)
        value = losses.huber(errors, 2.0)
    assert value.shape == (1,)
    assert float(value[0]) == close(loss)
    assert float(tape.gradient(value, errors)[0]) == close(gradient)


def test_huber_keeps_the_shape_and_takes_its_delta() -> None:
    errors = tf.constant([[1.0, -4.0], [0.25, 3.0]])
    expected = [[0.5 * (1 - 0.25), 0.5 * (4 - 0.25)], [0.03125, 0.5 * (3 - 0.25)]]
    assert losses.huber(errors, 0.5).numpy().tolist() == expected


def test_squared() -> None:
    errors = tf.constant([0.0, 3.0, -3.0])
    with tf.GradientTape() as tape:
        tape.watch(errors)
        value = losses.squared(errors)
    assert value.numpy().tolist() == [0.0, 4.5, 4.5]
    assert tape.gradient(value, errors).numpy().tolist() == [0.0, 3.0, -3.0]


@pytest.mark.parametrize(
    ("error", "loss", "gradient"),
    [
        (0.0, 0.0, 0.0),
        (0.01, math.log(math.cosh(0.01)), math.tanh(0.01)),
        (-0.5, math.log(math.cosh(0.5)), -math.tanh(0.5)),
        (2.0, math.log((math.exp(2.0) + math.exp(-2.0)) / 2), math.tanh(2.0)),
        (-30.0, 30.0 - math.log(2.0), -1.0),
        (1e30, 1e30, 1.0),  # whose hyperbolic cosine is infinite
    ],
)
def test_log_cosh(error: float, loss: float, gradient: float) -> None:
    errors = tf.constant([[error]])
    with tf.GradientTape() as tape:
        tape.watch(errors)
        value = losses.log_cosh(errors)
    assert value.shape == (1, 1)
    assert float(value[0, 0]) == close(loss)
    assert float(tape.gradient(value, errors)[0, 0]) == close(gradient)


def test_every_choice_of_the_loss_option_has_its_function() -> None:
    fields = {field.name: field for field in dataclasses.fields(Value)}
    assert tuple(losses.LOSSES) == fields["loss"].metadata["choices"]
    expected = {"huber": 0.5 * (3.0 - 0.25), "squared": 4.5, "log_cosh": math.log(math.cosh(3.0))}
    for name, loss in expected.items():
        value = Value(loss=name, huber_delta=0.5)
        assert float(losses.regression(tf.constant(3.0), value)) == close(loss)


@pytest.mark.parametrize(
    ("max_norm", "expected"),
    [
        (0.0, [3.0, -4.0]),  # 0 never clips
        (2.5, [1.5, -2.0]),  # half of the norm 5
        (5.0, [3.0, -4.0]),  # exactly at the limit
        (100.0, [3.0, -4.0]),
    ],
)
def test_clip_by_norm(max_norm: float, expected: list[float]) -> None:
    clipped, norm = losses.clip_by_norm(tf.constant([3.0, -4.0]), max_norm)
    assert clipped.numpy().tolist() == close(expected)
    assert float(norm) == close(5.0)  # before clipping


@pytest.mark.parametrize("max_norm", [0.0, 10.0])
def test_no_gradient_at_all_stays_zero(max_norm: float) -> None:
    clipped, norm = losses.clip_by_norm(tf.zeros([4]), max_norm)
    assert clipped.numpy().tolist() == [0.0] * 4
    assert float(norm) == 0.0
