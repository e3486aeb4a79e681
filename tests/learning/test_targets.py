"""Targets, with the arithmetic written out."""

import dataclasses
import math

import pytest
import tensorflow as tf

from ps_dqn.config import Value
from ps_dqn.learning import losses, targets

# Three transitions, three actions. The online network prefers another action than the target
# network in the first row, the same one in the second; the third terminated.
REWARDS = tf.constant([1.0, -2.0, 5.0])
DISCOUNTS = tf.constant([0.9, 0.81, 0.0])
NEXT_TARGET = tf.constant([[1.0, 3.0, 2.0], [0.5, -1.0, 0.25], [100.0, 200.0, 300.0]])
NEXT_ONLINE = tf.constant([[9.0, 0.0, 1.0], [4.0, 3.0, 2.0], [1.0, 2.0, 3.0]])


def close(values: tf.Tensor) -> object:
    return pytest.approx(values, rel=1e-6, abs=1e-7)


def test_dqn_targets() -> None:
    found = targets.td_targets(REWARDS, DISCOUNTS, NEXT_TARGET, NEXT_TARGET)
    expected = [1.0 + 0.9 * 3.0, -2.0 + 0.81 * 0.5, 5.0]
    assert found.shape == (3,)
    assert found.numpy().tolist() == close(expected)


def test_double_dqn_targets() -> None:
    found = targets.td_targets(REWARDS, DISCOUNTS, NEXT_TARGET, NEXT_ONLINE)
    # The online network chooses action 0 in the first row; the target network gives its value, 1.
    expected = [1.0 + 0.9 * 1.0, -2.0 + 0.81 * 0.5, 5.0]
    assert found.numpy().tolist() == close(expected)


# ε = 0.3: the greedy action's value 0.7 times and the mean of all three 0.3 times.
MEANS = [(1.0 + 3.0 + 2.0) / 3, (0.5 - 1.0 + 0.25) / 3]


def test_expected_sarsa_targets_are_of_the_policy_that_acts() -> None:
    found = targets.expected_sarsa_targets(
        REWARDS, DISCOUNTS, NEXT_TARGET, NEXT_TARGET, tf.constant(0.3)
    )
    expected = [
        1.0 + 0.9 * (0.7 * 3.0 + 0.3 * MEANS[0]),  # 1 + 0.9 · 2.7
        -2.0 + 0.81 * (0.7 * 0.5 + 0.3 * MEANS[1]),
        5.0,
    ]
    assert found.shape == (3,)
    assert found.numpy().tolist() == close(expected)


def test_expected_sarsa_takes_the_greedy_action_of_the_selector() -> None:
    # The online network prefers action 0 in the first row; the target network says it is worth 1.
    found = targets.expected_sarsa_targets(
        REWARDS, DISCOUNTS, NEXT_TARGET, NEXT_ONLINE, tf.constant(0.3)
    )
    expected = [
        1.0 + 0.9 * (0.7 * 1.0 + 0.3 * MEANS[0]),
        -2.0 + 0.81 * (0.7 * 0.5 + 0.3 * MEANS[1]),
        5.0,
    ]
    assert found.numpy().tolist() == close(expected)


@pytest.mark.parametrize("selector", [NEXT_TARGET, NEXT_ONLINE], ids=["dqn", "double"])
def test_expected_sarsa_of_a_greedy_policy_is_q_learning(selector: tf.Tensor) -> None:
    inputs = REWARDS, DISCOUNTS, NEXT_TARGET, selector
    found = targets.expected_sarsa_targets(*inputs, tf.constant(0.0))
    assert found.numpy().tolist() == targets.td_targets(*inputs).numpy().tolist()


def test_expected_sarsa_of_a_random_policy_has_no_selector() -> None:
    found = [
        targets.expected_sarsa_targets(REWARDS, DISCOUNTS, NEXT_TARGET, each, tf.constant(1.0))
        for each in (NEXT_TARGET, NEXT_ONLINE)
    ]
    expected = [1.0 + 0.9 * MEANS[0], -2.0 + 0.81 * MEANS[1], 5.0]
    assert [each.numpy().tolist() for each in found] == [close(expected)] * 2


def test_every_choice_of_the_target_option_has_its_function() -> None:
    fields = {field.name: field for field in dataclasses.fields(Value)}
    assert tuple(targets.TARGETS) == fields["target"].metadata["choices"]
    inputs = REWARDS, DISCOUNTS, NEXT_TARGET, NEXT_ONLINE
    greedy = targets.TARGETS["greedy"](*inputs, tf.constant(math.nan))
    assert greedy.numpy().tolist() == targets.td_targets(*inputs).numpy().tolist()


def test_no_gradient_flows_through_targets() -> None:
    inputs = [REWARDS, DISCOUNTS, NEXT_TARGET, NEXT_ONLINE]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        total = tf.reduce_sum(targets.td_targets(*inputs))
        total += tf.reduce_sum(targets.expected_sarsa_targets(*inputs, tf.constant(0.3)))
    assert tape.gradient(total, inputs) == [None] * 4


def test_loss_gradient_moves_the_chosen_values_only() -> None:
    # As the learner puts them together, with one network playing all parts: if a gradient went
    # through the target, the greedy actions' values would have one too.
    q_values = tf.constant([[1.0, 3.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(q_values)
        found = targets.td_targets(tf.constant([1.0]), tf.constant([0.5]), q_values, q_values)
        errors = found - losses.chosen_values(q_values, tf.constant([2]))
        loss = tf.reduce_sum(losses.squared(errors))
    # Target 1 + 0.5 · 3 = 2.5 against Q = 2: the error is 0.5 and its gradient -0.5.
    assert tape.gradient(loss, q_values).numpy().tolist() == [[0.0, 0.0, -0.5]]


# One state's softmax policy by hand: two actions, a temperature of 0.5, so Q / τ = 2 and 4.
TAU = 0.5
SOFT_Q = tf.constant([[1.0, 2.0]])
PARTITION = math.exp(2.0) + math.exp(4.0)
LOG_PI = [2.0 - math.log(PARTITION), 4.0 - math.log(PARTITION)]
PI = [math.exp(2.0) / PARTITION, math.exp(4.0) / PARTITION]
SOFT_VALUE = PI[0] * (1.0 - TAU * LOG_PI[0]) + PI[1] * (2.0 - TAU * LOG_PI[1])


def test_log_policy() -> None:
    log_policy = targets.log_policy(SOFT_Q, TAU)
    assert log_policy.shape == (1, 2)
    assert log_policy[0].numpy().tolist() == close(LOG_PI)


def test_soft_value_is_the_policys_value_and_entropy() -> None:
    value = targets.soft_value(SOFT_Q, TAU)
    assert value.shape == (1,)
    assert float(value[0]) == close(SOFT_VALUE)


@pytest.mark.parametrize("offset", [0.0, 3e4, -3e4])
def test_large_values_and_a_low_temperature_do_not_overflow(offset: float) -> None:
    # Q / τ is up to a million, known to one part in ten million, and its exponential infinite.
    q_values = tf.constant([[offset, offset + 8.0, offset - 8.0]])
    expected = [-8.0 / 0.03, 0.0, -16.0 / 0.03]
    log_policy = targets.log_policy(q_values, 0.03)[0].numpy().tolist()
    assert log_policy == pytest.approx(expected, abs=0.1)
    assert float(targets.soft_value(q_values, 0.03)[0]) == close(offset + 8.0)


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
    bonus = targets.munchausen_bonus(SOFT_Q, tf.constant([action]), 0.9, TAU, clip)
    assert bonus.shape == (1,)
    assert float(bonus[0]) == close(expected)


def test_munchausen_bonus_takes_each_rows_action() -> None:
    q_values = tf.constant([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]])
    bonus = targets.munchausen_bonus(q_values, tf.constant([1, 1, 0]), 1.0, TAU, -9.0)
    expected = [TAU * LOG_PI[1], TAU * LOG_PI[0], TAU * LOG_PI[0]]
    assert bonus.numpy().tolist() == close(expected)


def test_munchausen_targets() -> None:
    rewards, discounts = tf.constant([3.0, 3.0]), tf.constant([0.9, 0.0])
    next_q, bonus = tf.tile(SOFT_Q, [2, 1]), tf.constant([-0.25, -0.5])
    found = targets.munchausen_targets(rewards, discounts, next_q, bonus, TAU)
    expected = [3.0 - 0.25 + 0.9 * SOFT_VALUE, 3.0 - 0.5]  # the second terminated
    assert found.numpy().tolist() == close(expected)


def test_munchausen_targets_become_dqns_as_the_temperature_falls() -> None:
    found = targets.munchausen_targets(REWARDS, DISCOUNTS, NEXT_TARGET, tf.zeros([3]), 1e-3)
    expected = [1.0 + 0.9 * 3.0, -2.0 + 0.81 * 0.5, 5.0]
    assert found.numpy().tolist() == close(expected)


def test_no_gradient_flows_through_munchausen_targets_or_bonus() -> None:
    bonus = tf.constant([-0.5] * 3)
    inputs = [REWARDS, DISCOUNTS, NEXT_TARGET, bonus]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        found = targets.munchausen_targets(*inputs, TAU)
        earned = targets.munchausen_bonus(NEXT_TARGET, tf.constant([0, 1, 2]), 0.9, TAU, -1.0)
    assert tape.gradient(found, inputs) == [None] * 4
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
    rescaled = targets.rescale(tf.constant([value]), epsilon)
    assert rescaled.shape == (1,)
    assert float(rescaled[0]) == close(expected)
    assert float(targets.unrescale(tf.constant([expected]), epsilon)[0]) == close(value)


def test_rescaling_uses_the_papers_epsilon() -> None:
    assert float(targets.rescale(tf.constant(8.0))) == close(2.0 + 0.008)  # √9 - 1
    assert float(targets.unrescale(tf.constant(2.008))) == close(8.0)


def test_unrescale_keeps_its_digits_in_float32() -> None:
    # The formula as the paper writes it is off by 6e-5 here.
    sizes = [1e-6, 1e-4, 0.01, 0.5, 1.0, 7.0, 300.0, 1e4, 1e6]
    values = tf.constant([sign * size for size in sizes for sign in (1.0, -1.0)])
    back = targets.unrescale(targets.rescale(values))
    assert back.numpy().tolist() == pytest.approx(values.numpy().tolist(), rel=5e-7, abs=0)


def test_compiled_results_equal_the_eager_ones() -> None:
    def everything(q_values: tf.Tensor, actions: tf.Tensor) -> list[tf.Tensor]:
        bonus = targets.munchausen_bonus(q_values, actions, 0.9, TAU, -1.0)
        found = targets.munchausen_targets(REWARDS, DISCOUNTS, q_values, bonus, TAU)
        small = targets.rescale(found)
        return [bonus, found, small, targets.unrescale(small)]

    arguments = NEXT_ONLINE, tf.constant([0, 2, 1])
    compiled = tf.function(everything, jit_compile=True, autograph=False)(*arguments)
    for each, expected in zip(compiled, everything(*arguments), strict=True):
        assert each.numpy().tolist() == close(expected.numpy().tolist())
