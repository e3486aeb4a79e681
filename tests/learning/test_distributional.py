"""Targets and losses of return distributions, with the arithmetic written out."""

import itertools
import math
import random

import numpy as np
import pytest
import tensorflow as tf

from ps_dqn.learning import distributional
from ps_dqn.networks import atoms

ATOMS = tf.constant([-1.0, 0.0, 1.0])

# Two transitions, two actions, three outputs each. The means prefer action 0, then action 1.
REWARDS = tf.constant([0.25, 0.5])
DISCOUNTS = tf.constant([0.5, 0.0])  # the second terminated
QUANTILES = tf.constant([[[1.0, 2.0, 6.0], [0.0, 1.0, 2.0]], [[7.0, 7.0, 7.0], [8.0, 9.0, 10.0]]])
MEANS = tf.constant([[3.0, 1.0], [7.0, 9.0]])


def close(values: object) -> object:
    return pytest.approx(values, rel=1e-6, abs=1e-6)


def projected(atoms: list[float], masses: list[float], v_min: float, v_max: float) -> list[float]:
    """The projection of one row as the paper's algorithm 1 has it, mass by mass."""
    count = len(masses)
    result = [0.0] * count
    for atom, mass in zip(atoms, masses, strict=True):
        place = (min(max(atom, v_min), v_max) - v_min) * (count - 1) / (v_max - v_min)
        lower, upper = math.floor(place), math.ceil(place)
        if lower == upper:
            result[lower] += mass
        else:
            result[lower] += mass * (upper - place)
            result[upper] += mass * (place - lower)
    return result


def test_chosen_and_its_gradient() -> None:
    with tf.GradientTape() as tape:
        tape.watch(QUANTILES)
        chosen = distributional.chosen(QUANTILES, tf.constant([1, 0]))
        total = tf.reduce_sum(chosen * [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert chosen.numpy().tolist() == [[0.0, 1.0, 2.0], [7.0, 7.0, 7.0]]
    expected = [[[0, 0, 0], [1, 2, 3]], [[4, 5, 6], [0, 0, 0]]]
    assert tape.gradient(total, QUANTILES).numpy().tolist() == expected


def test_projection_splits_a_mass_between_its_neighbours() -> None:
    # Moved to 0.25 + 0.5 z = -0.25, 0.25 and 0.75.
    moved, masses = tf.constant([[-0.25, 0.25, 0.75]]), tf.constant([[0.2, 0.3, 0.5]])
    result = distributional.categorical_projection(moved, masses, ATOMS)
    expected = [
        0.2 * 0.25,
        0.2 * 0.75 + 0.3 * 0.75 + 0.5 * 0.25,
        0.3 * 0.25 + 0.5 * 0.75,
    ]
    assert result.shape == (1, 3)
    assert result[0].numpy().tolist() == close(expected)


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        ([-1.0, 0.0, 1.0], [0.2, 0.3, 0.5]),  # where they were
        ([0.0, 0.0, 0.0], [0.0, 1.0, 0.0]),  # an episode that ended with a reward of 0
        ([-50.0, 0.0, 1.5], [0.2, 0.3, 0.5]),  # beyond the ends
        ([7.0, 8.0, 9.0], [0.0, 0.0, 1.0]),
        ([-9.0, -8.0, -7.0], [1.0, 0.0, 0.0]),
    ],
)
def test_projection_onto_atoms_and_beyond_the_ends(
    moved: list[float], expected: list[float]
) -> None:
    masses = tf.constant([[0.2, 0.3, 0.5]])
    result = distributional.categorical_projection(tf.constant([moved]), masses, ATOMS)
    assert result[0].numpy().tolist() == close(expected)


def test_projection_equals_the_papers_algorithm_and_keeps_the_mass() -> None:
    chance = random.Random(3)
    support = atoms.support(-7.0, 11.0, 51)
    moved = [[chance.uniform(-12, 16) for _ in range(51)] for _ in range(8)]
    masses = [[chance.random() for _ in range(51)] for _ in range(8)]
    masses = [[mass / sum(row) for mass in row] for row in masses]
    result = distributional.categorical_projection(
        tf.constant(moved), tf.constant(masses), support
    ).numpy()
    for row, *arguments in zip(result, moved, masses, strict=True):
        expected = projected(*arguments, -7.0, 11.0)
        assert row.tolist() == pytest.approx(expected, rel=1e-4, abs=1e-6)
        assert row.sum() == close(1.0)


def normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


@pytest.mark.parametrize("sigma", [0.75, 0.2])
def test_a_histogram_has_the_mass_of_a_gaussian_and_its_mean(sigma: float) -> None:
    ends = atoms.support(-7.0, 11.0, 37)
    values = [-3.25, 0.0, 0.1, 5.5, 8.9]
    found = distributional.gaussian_histogram(tf.constant(values), ends, sigma).numpy()
    for row, value in zip(found, values, strict=True):
        below = [normal((float(end) - value) / (sigma * 0.5)) for end in ends]
        expected = [high - low for low, high in itertools.pairwise(below)]
        assert row.tolist() == pytest.approx(expected, abs=1e-6)
    # A narrow Gaussian falls into one bin whole, so its mean is off by up to half of one.
    off = np.abs(found @ atoms.middles(-7.0, 11.0, 36) - values)
    assert off.max() < (1e-2 if sigma == 0.75 else 0.25)


def test_values_outside_of_the_bins_count_as_at_their_ends() -> None:
    ends = atoms.support(0.0, 4.0, 5)
    values = tf.constant([-100.0, 0.0, 4.0, 1e6])
    found = distributional.gaussian_histogram(values, ends, 0.75).numpy()
    assert found.sum(axis=-1).tolist() == close([1.0] * 4)
    assert found[0].tolist() == found[1].tolist() == close(found[2][::-1].tolist())
    assert found[2].tolist() == found[3].tolist()
    assert found[0][0] == pytest.approx(2 * normal(1 / 0.75) - 1, rel=1e-5)


def test_categorical_targets() -> None:
    # The selector picks action 1, then 0; the other actions' logits would give something else.
    logits = tf.math.log([[[0.8, 0.1, 0.1], [0.2, 0.3, 0.5]], [[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]]])
    selector = tf.constant([[0.0, 1.0], [1.0, 0.0]])
    inputs = [REWARDS, DISCOUNTS, logits, selector, ATOMS]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        targets = distributional.categorical_targets(*inputs)
    # The first as above; the second's whole mass is at its reward, 0.5.
    assert targets[0].numpy().tolist() == close([0.05, 0.5, 0.45])
    assert targets[1].numpy().tolist() == close([0.0, 0.5, 0.5])
    assert tape.gradient(targets, inputs) == [None] * 5


def test_categorical_loss_and_its_gradient() -> None:
    p, m = [0.2, 0.3, 0.5], [0.05, 0.5, 0.45]
    logits = tf.math.log([p, [0.1, 0.8, 0.1]]) + 4.0  # not normalised
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = distributional.categorical_loss(logits, tf.constant([m, [0.0, 1.0, 0.0]]))
    crossed = -(0.05 * math.log(0.2) + 0.5 * math.log(0.3) + 0.45 * math.log(0.5))
    assert loss.numpy().tolist() == close([crossed, -math.log(0.8)])
    gradient = tape.gradient(loss, logits)
    assert gradient[0].numpy().tolist() == close([0.2 - 0.05, 0.3 - 0.5, 0.5 - 0.45])  # p - m


def test_entropy_is_the_least_loss() -> None:
    m = tf.constant([[0.05, 0.5, 0.45], [0.0, 1.0, 0.0]])
    expected = -(0.05 * math.log(0.05) + 0.5 * math.log(0.5) + 0.45 * math.log(0.45))
    assert distributional.entropy(m).numpy().tolist() == close([expected, 0.0])
    exact = distributional.categorical_loss(tf.math.log(m[:1]), m[:1])
    assert exact.numpy().tolist() == close([expected])


# Quantiles 1 and 3 at the fractions 0.25 and 0.75, targets 0, 2 and 10: errors -1, 1, 9 and
# -3, -1, 7, weighted 0.75, 0.25, 0.25 and 0.25, 0.25, 0.75.
@pytest.mark.parametrize(
    ("kappa", "first", "second"),
    [
        (1.0, [0.5, 0.5, 8.5], [2.5, 0.5, 6.5]),  # u²/2 up to 1, then |u| - 1/2
        (2.0, [0.25, 0.25, 8.0], [2.0, 0.25, 6.0]),  # u²/4 up to 2, then |u| - 1
    ],
)
@pytest.mark.parametrize("taus", [[0.25, 0.75], [[0.25, 0.75]]])
def test_quantile_huber(taus: list, kappa: float, first: list[float], second: list[float]) -> None:
    loss = distributional.quantile_huber(
        tf.constant([[1.0, 3.0]]), tf.constant([[0.0, 2.0, 10.0]]), tf.constant(taus), kappa
    )
    expected = (0.75 * first[0] + 0.25 * first[1] + 0.25 * first[2]) / 3
    expected += (0.25 * second[0] + 0.25 * second[1] + 0.75 * second[2]) / 3
    assert loss.shape == (1,)
    assert float(loss[0]) == close(expected)


@pytest.mark.parametrize(
    ("kappa", "first", "second"),
    [
        (0.5, [0.75, -0.25, -0.25], [0.25, 0.25, -0.75]),  # linear: the sign alone
        (2.0, [0.75 / 2, -0.25 / 2, -0.25], [0.25, 0.25 / 2, -0.75]),  # |u| / κ near zero
    ],
)
def test_quantile_huber_gradient(kappa: float, first: list[float], second: list[float]) -> None:
    quantiles = tf.constant([[1.0, 3.0]])
    with tf.GradientTape() as tape:
        tape.watch(quantiles)
        loss = distributional.quantile_huber(
            quantiles, tf.constant([[0.0, 2.0, 10.0]]), tf.constant([0.25, 0.75]), kappa
        )
    expected = [sum(first) / 3, sum(second) / 3]
    assert tape.gradient(loss, quantiles)[0].numpy().tolist() == close(expected)


def test_quantile_huber_takes_each_rows_fractions() -> None:
    # Errors of 4, then of -4, linear beyond 1: τ · 3.5 and (1 - τ) · 3.5.
    quantiles, targets = tf.constant([[0.0], [4.0]]), tf.constant([[4.0], [0.0]])
    taus = tf.constant([[0.1], [0.7]])
    loss = distributional.quantile_huber(quantiles, targets, taus, 1.0)
    assert loss.numpy().tolist() == close([0.1 * 3.5, 0.3 * 3.5])


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (MEANS, [0.25 + 0.5 * 1.0, 0.25 + 0.5 * 2.0, 0.25 + 0.5 * 6.0]),
        (-MEANS, [0.25 + 0.5 * 0.0, 0.25 + 0.5 * 1.0, 0.25 + 0.5 * 2.0]),  # another network's
    ],
)
def test_quantile_targets(selector: tf.Tensor, expected: list[float]) -> None:
    targets = distributional.quantile_targets(REWARDS, DISCOUNTS, QUANTILES, selector)
    assert targets.numpy().tolist() == [close(expected), [0.5, 0.5, 0.5]]


def test_munchausen_quantile_targets() -> None:
    # τ = 2, so the means' 3 and 1 give ln π = 1.5 - ln(e^1.5 + e^0.5) and 1 less.
    bonus, tau = tf.constant([-0.125, -0.25]), 2.0
    targets = distributional.munchausen_quantile_targets(
        REWARDS, DISCOUNTS, QUANTILES, MEANS, bonus, tau
    )
    partition = math.exp(1.5) + math.exp(0.5)
    log_pi = [1.5 - math.log(partition), 0.5 - math.log(partition)]
    pi = [math.exp(each) for each in log_pi]
    pairs = [(1.0, 0.0), (2.0, 1.0), (6.0, 2.0)]  # quantile j of both actions
    expected = [
        0.25 - 0.125 + 0.5 * (pi[0] * (one - tau * log_pi[0]) + pi[1] * (other - tau * log_pi[1]))
        for one, other in pairs
    ]
    assert targets.numpy().tolist() == [close(expected), [0.25, 0.25, 0.25]]


def test_no_gradient_flows_through_quantile_targets() -> None:
    inputs = [REWARDS, DISCOUNTS, QUANTILES, MEANS]
    bonus = tf.zeros([2])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([*inputs, bonus])
        greedy = distributional.quantile_targets(*inputs)
        soft = distributional.munchausen_quantile_targets(*inputs, bonus, 0.03)
    assert tape.gradient(greedy, inputs) == [None] * 4
    assert tape.gradient(soft, [*inputs, bonus]) == [None] * 5


def test_a_low_temperature_makes_munchausens_targets_greedy() -> None:
    # Other actions' probabilities are zero and their logarithms minus thousands: no NaN.
    bonus = tf.zeros([2])
    soft = distributional.munchausen_quantile_targets(
        REWARDS, DISCOUNTS, QUANTILES, MEANS, bonus, 1e-3
    )
    greedy = distributional.quantile_targets(REWARDS, DISCOUNTS, QUANTILES, MEANS)
    assert soft.numpy().tolist() == greedy.numpy().tolist()


def test_compiled_gradients_equal_the_eager_ones() -> None:
    actions, support = tf.constant([1, 0]), atoms.support(-3.0, 9.0, 3)

    def gradients(outputs: tf.Tensor) -> list[tf.Tensor]:
        soft = distributional.munchausen_quantile_targets(
            REWARDS, DISCOUNTS, outputs, MEANS, REWARDS, 0.5
        )
        selector = tf.reduce_sum(tf.nn.softmax(outputs) * support, axis=-1)
        fixed = distributional.categorical_targets(REWARDS, DISCOUNTS, outputs, selector, support)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(outputs)
            chosen = distributional.chosen(outputs, actions)
            fractions = atoms.midpoints(3)
            losses = [
                distributional.quantile_huber(chosen, soft, fractions, 1.0),
                distributional.categorical_loss(chosen, fixed),
            ]
        return [tape.gradient(each, outputs) for each in losses]

    compiled = tf.function(gradients, jit_compile=True, autograph=False)(QUANTILES)
    for each, expected in zip(compiled, gradients(QUANTILES), strict=True):
        assert tf.norm(expected) > 0
        assert each.numpy().ravel().tolist() == close(expected.numpy().ravel().tolist())
