"""TD targets and losses, with the arithmetic written out."""

import math

import pytest
import tensorflow as tf

from ps_dqn.learning import losses

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


# One state's softmax policy by hand: two actions, a temperature of 0.5, so Q / τ = 2 and 4.
TAU = 0.5
SOFT_Q = tf.constant([[1.0, 2.0]])
PARTITION = math.exp(2.0) + math.exp(4.0)
LOG_PI = [2.0 - math.log(PARTITION), 4.0 - math.log(PARTITION)]
PI = [math.exp(2.0) / PARTITION, math.exp(4.0) / PARTITION]
SOFT_VALUE = PI[0] * (1.0 - TAU * LOG_PI[0]) + PI[1] * (2.0 - TAU * LOG_PI[1])


def test_log_policy() -> None:
    log_policy = losses.log_policy(SOFT_Q, TAU)
    assert log_policy.shape == (1, 2)
    assert log_policy[0].numpy().tolist() == close(LOG_PI)


def test_soft_value_is_the_policys_value_and_entropy() -> None:
    value = losses.soft_value(SOFT_Q, TAU)
    assert value.shape == (1,)
    assert float(value[0]) == close(SOFT_VALUE)


@pytest.mark.parametrize("offset", [0.0, 3e4, -3e4])
def test_large_values_and_a_low_temperature_do_not_overflow(offset: float) -> None:
    # Q / τ is up to a million, known to one part in ten million, and its exponential infinite.
    q_values = tf.constant([[offset, offset + 8.0, offset - 8.0]])
    expected = [-8.0 / 0.03, 0.0, -16.0 / 0.03]
    log_policy = losses.log_policy(q_values, 0.03)[0].numpy().tolist()
    assert log_policy == pytest.approx(expected, abs=0.1)
    assert float(losses.soft_value(q_values, 0.03)[0]) == close(offset + 8.0)


@pytest.mark.parametrize(
    ("action", "clip", "expected"),
    [
        (0, -2.0, 0.9 * TAU * LOG_PI[0]),  # τ ln π = 0.5 · -2.1269 = -1.0635
        (0, -1.0, 0.9 * -1.0),
        (1, -1.0, 0.9 * TAU * LOG_PI[1]),
    ],
)
def test_munchausen_bonus_is_weighted_after_clipping(
    action: int, clip: float, expected: float
) -> None:
    bonus = losses.munchausen_bonus(SOFT_Q, tf.constant([action]), 0.9, TAU, clip)
    assert bonus.shape == (1,)
    assert float(bonus[0]) == close(expected)


def test_munchausen_bonus_takes_each_rows_action() -> None:
    q_values = tf.constant([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]])
    bonus = losses.munchausen_bonus(q_values, tf.constant([1, 1, 0]), 1.0, TAU, -9.0)
    expected = [TAU * LOG_PI[1], TAU * LOG_PI[0], TAU * LOG_PI[0]]
    assert bonus.numpy().tolist() == close(expected)


def test_munchausen_targets() -> None:
    rewards, discounts = tf.constant([3.0, 3.0]), tf.constant([0.9, 0.0])
    next_q, bonus = tf.tile(SOFT_Q, [2, 1]), tf.constant([-0.25, -0.5])
    targets = losses.munchausen_targets(rewards, discounts, next_q, bonus, TAU)
    expected = [3.0 - 0.25 + 0.9 * SOFT_VALUE, 3.0 - 0.5]  # the second terminated
    assert targets.numpy().tolist() == close(expected)


def test_munchausen_targets_become_dqns_as_the_temperature_falls() -> None:
    targets = losses.munchausen_targets(REWARDS, DISCOUNTS, NEXT_TARGET, tf.zeros([3]), 1e-3)
    expected = [1.0 + 0.9 * 3.0, -2.0 + 0.81 * 0.5, 5.0]
    assert targets.numpy().tolist() == close(expected)


def test_no_gradient_flows_through_munchausen_targets_or_bonus() -> None:
    bonus = tf.constant([-0.5] * 3)
    inputs = [REWARDS, DISCOUNTS, NEXT_TARGET, bonus]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        targets = losses.munchausen_targets(*inputs, TAU)
        earned = losses.munchausen_bonus(NEXT_TARGET, tf.constant([0, 1, 2]), 0.9, TAU, -1.0)
    assert tape.gradient(targets, inputs) == [None] * 4
    assert tape.gradient(earned, NEXT_TARGET) is None


@pytest.mark.parametrize(
    ("value", "epsilon", "expected"),
    [
        (0.0, 1e-3, 0.0),
        (3.0, 1e-3, (2.0 - 1.0) + 0.003),  # √4
        (-3.0, 1e-3, -(2.0 - 1.0) - 0.003),
        (99.0, 0.01, (10.0 - 1.0) + 0.99),  # √100
        (-99.0, 0.0, -9.0),
    ],
)
def test_rescale_and_back(value: float, epsilon: float, expected: float) -> None:
    rescaled = losses.rescale(tf.constant([value]), epsilon)
    assert rescaled.shape == (1,)
    assert float(rescaled[0]) == close(expected)
    assert float(losses.unrescale(tf.constant([expected]), epsilon)[0]) == close(value)


def test_rescaling_uses_the_papers_epsilon() -> None:
    assert float(losses.rescale(tf.constant(8.0))) == close(2.0 + 0.008)  # √9 - 1
    assert float(losses.unrescale(tf.constant(2.008))) == close(8.0)


def test_unrescale_keeps_its_digits_in_float32() -> None:
    # The formula as the paper writes it is off by 6e-5 here.
    sizes = [1e-6, 1e-4, 0.01, 0.5, 1.0, 7.0, 300.0, 1e4, 1e6]
    values = tf.constant([sign * size for size in sizes for sign in (1.0, -1.0)])
    back = losses.unrescale(losses.rescale(values))
    assert back.numpy().tolist() == pytest.approx(values.numpy().tolist(), rel=5e-7, abs=0)


def test_compiled_results_equal_the_eager_ones() -> None:
    def everything(q_values: tf.Tensor, actions: tf.Tensor) -> list[tf.Tensor]:
        bonus = losses.munchausen_bonus(q_values, actions, 0.9, TAU, -1.0)
        targets = losses.munchausen_targets(REWARDS, DISCOUNTS, q_values, bonus, TAU)
        small = losses.rescale(targets)
        return [bonus, targets, small, losses.unrescale(small)]

    arguments = NEXT_ONLINE, tf.constant([0, 2, 1])
    compiled = tf.function(everything, jit_compile=True, autograph=False)(*arguments)
    for each, expected in zip(compiled, everything(*arguments), strict=True):
        assert each.numpy().tolist() == close(expected.numpy().tolist())
