"""λ-returns, with the arithmetic written out and against the mixture of n-step returns."""

import random

import pytest
import tensorflow as tf

from ps_dqn.learning.targets import lambda_returns

# Three steps of three environments. The first goes on throughout; the second terminates at step
# 1; the third is cut off at step 0, so that its first value is that of an episode's final state.
REWARDS = tf.constant([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [3.0, 3.0, 3.0]])
DISCOUNTS = tf.constant([[0.5, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.5, 0.5]])
NEXT_VALUES = tf.constant([[10.0, 10.0, 10.0], [20.0, 20.0, 20.0], [30.0, 30.0, 30.0]])
CONTINUES = tf.constant([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])


def close(values: object) -> object:
    return pytest.approx(values, rel=1e-6)


def column(lam: float, environment: int) -> list[float]:
    returns = lambda_returns(REWARDS, DISCOUNTS, NEXT_VALUES, CONTINUES, lam)
    assert returns.shape == (3, 3)
    return returns[:, environment].numpy().tolist()


def forward_view(
    rewards: list[float],
    discounts: list[float],
    next_values: list[float],
    continues: list[float],
    lam: float,
) -> list[float]:
    """(1 - λ) Σ_n λ^(n-1) G_n + λ^(N-1) G_N of one environment, where N steps are left."""
    returns = []
    for start in range(len(rewards)):
        total, discount, n_step = 0.0, 1.0, []
        for t in range(start, len(rewards)):
            total += discount * rewards[t]
            discount *= discounts[t]
            n_step.append(total + discount * next_values[t])
            if not continues[t]:
                break
        mixed = sum((1 - lam) * lam**n * each for n, each in enumerate(n_step[:-1]))
        returns.append(mixed + lam ** (len(n_step) - 1) * n_step[-1])
    return returns


def test_an_episode_that_continues() -> None:
    last = 3 + 0.5 * 30
    middle = 2 + 0.5 * (0.75 * 20 + 0.25 * last)
    first = 1 + 0.5 * (0.75 * 10 + 0.25 * middle)
    assert column(0.25, 0) == close([first, middle, last])


def test_nothing_flows_back_over_a_termination() -> None:
    # Step 1 ends the episode: neither the value after it nor the next episode counts.
    first = 1 + 0.5 * (0.75 * 10 + 0.25 * 2.0)
    assert column(0.25, 1) == close([first, 2.0, 3 + 0.5 * 30])


def test_a_truncation_bootstraps_from_the_final_state_alone() -> None:
    last = 3 + 0.5 * 30
    middle = 2 + 0.5 * (0.75 * 20 + 0.25 * last)
    assert column(0.25, 2) == close([1 + 0.5 * 10, middle, last])


def test_lambda_zero_gives_one_step_targets() -> None:
    assert column(0.0, 0) == close([1 + 0.5 * 10, 2 + 0.5 * 20, 3 + 0.5 * 30])
    assert column(0.0, 1) == close([1 + 0.5 * 10, 2.0, 3 + 0.5 * 30])


def test_lambda_one_gives_discounted_sums_up_to_the_last_value() -> None:
    last = 3 + 0.5 * 30
    assert column(1.0, 0) == close([1 + 0.5 * 2 + 0.25 * last, 2 + 0.5 * last, last])
    assert column(1.0, 1) == close([1 + 0.5 * 2, 2.0, last])


@pytest.mark.parametrize("lam", [0.0, 0.65, 1.0])
def test_the_last_step_bootstraps_whatever_its_trace_says(lam: float) -> None:
    continues = tf.ones([3, 3])
    returns = lambda_returns(REWARDS, DISCOUNTS, NEXT_VALUES, continues, lam)
    assert returns[-1].numpy().tolist() == close([3 + 0.5 * 30] * 3)


def random_rollouts(steps: int, environments: int) -> list[list[list[float]]]:
    """Rewards, discounts, values and traces; a fifth of the steps terminate, a fifth truncate."""
    chance = random.Random(5)
    rewards, discounts, values, continues = [], [], [], []
    for t in range(steps):
        ends = [chance.choice(["terminated", "truncated", "", "", ""]) for _ in range(environments)]
        rewards.append([chance.uniform(-1, 1) for _ in ends])
        discounts.append([0.0 if end == "terminated" else 0.97 for end in ends])
        values.append([chance.uniform(-5, 5) for _ in ends])
        continues.append([float(not end and t < steps - 1) for end in ends])
    return [rewards, discounts, values, continues]


@pytest.mark.parametrize("compiled", [False, True])
def test_equals_the_mixture_of_n_step_returns(compiled: bool) -> None:
    rollouts = random_rollouts(32, 5)
    function = tf.function(lambda_returns, jit_compile=True, autograph=False)
    calculate = function if compiled else lambda_returns
    returns = calculate(*map(tf.constant, rollouts), 0.65).numpy()
    for environment in range(5):
        columns = [[row[environment] for row in array] for array in rollouts]
        expected = forward_view(*columns, 0.65)
        assert returns[:, environment].tolist() == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_rollouts_of_one_step() -> None:
    inputs = [array[-1:] for array in (REWARDS, DISCOUNTS, NEXT_VALUES, CONTINUES)]
    assert lambda_returns(*inputs, 0.65).numpy().tolist() == [[18.0, 18.0, 18.0]]


@pytest.mark.parametrize("compiled", [False, True])
def test_no_gradient_flows_through_the_returns(compiled: bool) -> None:
    def gradients(*inputs: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            total = tf.reduce_sum(lambda_returns(*inputs, 0.65))
            total += 0.0 * tf.reduce_sum(inputs[0])  # so that there is something to compile
        return tape.gradient(total, inputs, unconnected_gradients="zero")

    function = tf.function(gradients, jit_compile=True, autograph=False)
    calculate = function if compiled else gradients
    for gradient in calculate(REWARDS, DISCOUNTS, NEXT_VALUES, CONTINUES):
        assert not gradient.numpy().any()
