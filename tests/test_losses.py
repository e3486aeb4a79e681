"""TD targets and losses, with the arithmetic written out."""

import pytest
import tensorflow as tf

from ps_dqn import losses

# Three transitions, three actions. The online network prefers another action than the target
# network in the first row, the same one in the second; the third terminated.
REWARDS = tf.constant([1.0, -2.0, 5.0])
DISCOUNTS = tf.constant([0.9, 0.81, 0.0])
NEXT_TARGET = tf.constant([[1.0, 3.0, 2.0], [0.5, -1.0, 0.25], [100.0, 200.0, 300.0]])
NEXT_ONLINE = tf.constant([[9.0, 0.0, 1.0], [4.0, 3.0, 2.0], [1.0, 2.0, 3.0]])


def close(values: tf.Tensor) -> object:
    return pytest.approx(values, rel=1e-6, abs=1e-7)


def test_dqn_targets() -> None:
    targets = losses.td_targets(REWARDS, DISCOUNTS, NEXT_TARGET)
    expected = [1.0 + 0.9 * 3.0, -2.0 + 0.81 * 0.5, 5.0]
    assert targets.shape == (3,)
    assert targets.numpy().tolist() == close(expected)


def test_double_dqn_targets() -> None:
    targets = losses.td_targets(REWARDS, DISCOUNTS, NEXT_TARGET, NEXT_ONLINE)
    # The online network chooses action 0 in the first row; the target network gives its value, 1.
    expected = [1.0 + 0.9 * 1.0, -2.0 + 0.81 * 0.5, 5.0]
    assert targets.numpy().tolist() == close(expected)


def test_no_gradient_flows_through_targets() -> None:
    inputs = [REWARDS, DISCOUNTS, NEXT_TARGET, NEXT_ONLINE]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        total = tf.reduce_sum(losses.td_targets(*inputs))
    assert tape.gradient(total, inputs) == [None] * 4


def test_loss_gradient_moves_the_chosen_values_only() -> None:
    # As the learner puts them together, with one network playing all parts: if a gradient went
    # through the target, the greedy actions' values would have one too.
    q_values = tf.constant([[1.0, 3.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(q_values)
        targets = losses.td_targets(tf.constant([1.0]), tf.constant([0.5]), q_values, q_values)
        errors = targets - losses.chosen_values(q_values, tf.constant([2]))
        loss = tf.reduce_sum(losses.squared(errors))
    # Target 1 + 0.5 · 3 = 2.5 against Q = 2: the error is 0.5 and its gradient -0.5.
    assert tape.gradient(loss, q_values).numpy().tolist() == [[0.0, 0.0, -0.5]]


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
