"""Objectives of return distributions, with their arithmetic written out."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support.products import (
    ACTIONS,
    ANY,
    ATOMS,
    DISCOUNTS,
    EPSILON,
    MUNCHAUSEN,
    NEXT,
    NOW,
    ONLINE,
    POLICY_QUANTILES,
    RETURNS,
    SPREAD,
    TARGET,
    TARGET_NEXT,
    TARGET_NOW,
    ask_for,
    best,
    check,
    huber,
    mean,
    scaled,
    soft_policy,
    softmax,
)

from ps_dqn.config import Config
from ps_dqn.learning import objectives, targets
from ps_dqn.learning.passes import Losses, Outcomes, Pass


def spread(parameters: Sequence[float], features: list[list[float]]) -> list[list[list[float]]]:
    """Logits or quantile values of the network, [K][A][N]."""
    rows = scaled(parameters, features)
    return [[[value * (1 + s) + s for s in SPREAD] for value in row] for row in rows]


def projected(reward: float, discount: float, probabilities: list[float]) -> list[float]:
    """Each atom's mass to the two atoms next to where it moves."""
    masses = [0.0] * 3
    for atom, probability in zip(ATOMS, probabilities, strict=True):
        place = (min(max(reward + discount * atom, -2.0), 2.0) + 2.0) / 2.0
        low = min(math.floor(place), 1)
        masses[low] += probability * (low + 1 - place)
        masses[low + 1] += probability * (place - low)
    return masses


@pytest.mark.parametrize("is_double", [False, True])
def test_c51_projects_the_distribution_of_the_chosen_action(is_double: bool) -> None:
    def q_values(logits: list[list[float]]) -> list[float]:
        pairs = [zip(softmax(each), ATOMS, strict=True) for each in logits]
        return [sum(p * z for p, z in each) for each in pairs]

    now, after, online = spread(ONLINE, NOW), spread(TARGET, TARGET_NEXT), spread(ONLINE, NEXT)
    losses, errors, q = [], [], []
    for k in range(3):
        action = best(q_values(online[k] if is_double else after[k]))
        masses = projected(RETURNS[k], DISCOUNTS[k], softmax(after[k][action]))
        predicted = softmax(now[k][ACTIONS[k]])
        losses.append(-sum(m * math.log(p) for m, p in zip(masses, predicted, strict=True)))
        # The divergence: what is left of the loss without the target's entropy.
        errors.append(losses[-1] + sum(m * math.log(m) for m in masses if m))
        q.append(q_values(now[k])[ACTIONS[k]])
    check(ask_for(**ANY["c51"], double_dqn=is_double)[0], losses, errors, q)


def below(x: float) -> float:
    """The normal distribution's."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


def binned(value: float) -> list[float]:
    """The mass of a Gaussian around it in the bins of two from -3 to 3, of all that is in them."""
    sigma = 0.75 * 2.0
    inside = min(max(value, -3.0), 3.0)
    at = [below((end - inside) / sigma) for end in (-3.0, -1.0, 1.0, 3.0)]
    return [(high - low) / (at[3] - at[0]) for low, high in itertools.pairwise(at)]


def histogram_value(logits: list[float]) -> float:
    return sum(p * z for p, z in zip(softmax(logits), ATOMS, strict=True))


@pytest.mark.parametrize("kind", ["dqn", "double", "munchausen", "rescaled", "expected_sarsa"])
def test_hl_gauss_puts_a_gaussian_around_the_target_of_dqn(kind: str) -> None:
    now, after, online = spread(ONLINE, NOW), spread(TARGET, TARGET_NEXT), spread(ONLINE, NEXT)
    options: dict[str, Any] = {
        "double": {"double_dqn": True},
        "munchausen": MUNCHAUSEN,
        "rescaled": {"value_rescaling": True},
        "expected_sarsa": {"target": "expected_sarsa"},
    }.get(kind, {})
    of_target = [list(map(histogram_value, row)) for row in after]
    of_online = [list(map(histogram_value, row)) for row in online]
    before = [list(map(histogram_value, row)) for row in spread(TARGET, TARGET_NOW)]
    losses, errors, q = [], [], []
    for k in range(3):
        action = best(of_online[k] if kind == "double" else of_target[k])
        bootstrap, bonus = of_target[k][action], 0.0
        if kind == "munchausen":
            policy = soft_policy(of_target[k])
            terms = zip(policy, of_target[k], strict=True)
            bootstrap = sum(p * (z - 0.25 * math.log(p)) for p, z in terms)
            bonus = 0.8 * max(0.25 * math.log(soft_policy(before[k])[ACTIONS[k]]), -0.4)
        elif kind == "expected_sarsa":
            bootstrap = (1 - EPSILON) * bootstrap + EPSILON * mean(of_target[k])
        if kind == "rescaled":
            bootstrap = float(targets.unrescale(tf.constant(bootstrap)))
        target = RETURNS[k] + bonus + DISCOUNTS[k] * bootstrap
        if kind == "rescaled":
            target = float(targets.rescale(tf.constant(target)))
        predicted = softmax(now[k][ACTIONS[k]])
        masses = zip(binned(target), predicted, strict=True)
        losses.append(-sum(m * math.log(p) for m, p in masses))
        q.append(histogram_value(now[k][ACTIONS[k]]))
        errors.append(abs(target - q[-1]))
    check(ask_for(**ANY["hl_gauss"], **options)[0], losses, errors, q)


def quantile_loss(quantiles: list[float], targets: list[float], taus: list[float]) -> float:
    total = 0.0
    for quantile, tau in zip(quantiles, taus, strict=True):
        for target in targets:
            weight = 1 - tau if target < quantile else tau
            total += weight * huber(target - quantile, 0.7) / 0.7 / len(targets)
    return total


def check_quantiles(
    found: Losses,
    now: list[list[list[float]]],
    after: list[list[list[float]]],
    online: list[list[list[float]]],
    taus: list[list[float]],
) -> None:
    """With `online` the values of the next state by which the action is chosen."""
    losses, errors, q = [], [], []
    for k in range(3):
        quantiles = now[k][ACTIONS[k]]
        action = best([mean(each) for each in online[k]])
        targets = [RETURNS[k] + DISCOUNTS[k] * each for each in after[k][action]]
        losses.append(quantile_loss(quantiles, targets, taus[k]))
        errors.append(abs(mean(targets) - mean(quantiles)))
        q.append(mean(quantiles))
    check(found, losses, errors, q)


@pytest.mark.parametrize("is_double", [False, True])
def test_qr_dqn_regresses_on_every_quantile_of_the_chosen_action(is_double: bool) -> None:
    found, _ = ask_for(**ANY["qr_dqn"], double_dqn=is_double)
    after = spread(TARGET, TARGET_NEXT)
    online = spread(ONLINE, NEXT) if is_double else after
    check_quantiles(found, spread(ONLINE, NOW), after, online, [[1 / 6, 3 / 6, 5 / 6]] * 3)


def implicit(call: dict[str, Any], parameters: list[float], features: Any) -> Any:
    """Quantile values [K][A][N] of the fractions that a call had."""
    rows = zip(features, call["taus"], strict=True)
    a, b = parameters
    return [[[a * value + b * tau for tau in taus] for value in row] for row, taus in rows]


@pytest.mark.parametrize("is_double", [False, True])
def test_iqn_regresses_at_the_fractions_it_asks_for(is_double: bool) -> None:
    found, network = ask_for(**ANY["iqn"], double_dqn=is_double)
    if is_double:
        target, online, selector = network.calls
        choosing = implicit(selector, ONLINE, NEXT)
    else:
        target, selector, online = network.calls
        choosing = implicit(selector, TARGET, TARGET_NEXT)
    after = implicit(target, TARGET, TARGET_NEXT)
    now = implicit(online, ONLINE, NOW)
    check_quantiles(found, now, after, choosing, online["taus"])


def test_iqns_fractions_are_fresh_for_every_transition_and_network() -> None:
    _, network = ask_for(**ANY["iqn"], double_dqn=True)
    taus = [np.array(each["taus"]) for each in network.calls]
    assert [each.shape for each in taus] == [(3, 4), (3, 3), (3, POLICY_QUANTILES)]
    *random, chooses = taus
    assert chooses == pytest.approx(np.tile([0.1, 0.3, 0.5, 0.7, 0.9], (3, 1)))
    drawn = np.concatenate([each.ravel() for each in random])
    assert len(set(drawn.tolist())) == drawn.size
    assert (drawn >= 0).all()
    assert (drawn < 1).all()
    again = ask_for(**ANY["iqn"], double_dqn=True)[1]
    assert again.calls == network.calls, "the seed decides"


@pytest.mark.parametrize("kind", ["qr_dqn", "iqn"])
def test_munchausen_quantiles_are_mixed_by_the_target_policy(kind: str) -> None:
    found, network = ask_for(**ANY[kind], **MUNCHAUSEN)
    if kind == "iqn":
        next_call, policy_call, bonus_call, online_call = network.calls
        after, chooses, before = (
            implicit(call, TARGET, features)
            for call, features in (
                (next_call, TARGET_NEXT), (policy_call, TARGET_NEXT), (bonus_call, TARGET_NOW),
            )
        )  # fmt: skip
        now, taus = implicit(online_call, ONLINE, NOW), online_call["taus"]
    else:
        after, before = spread(TARGET, TARGET_NEXT), spread(TARGET, TARGET_NOW)
        chooses = after
        now, taus = spread(ONLINE, NOW), [[1 / 6, 3 / 6, 5 / 6]] * 3
    losses, errors = [], []
    for k in range(3):
        log_now = math.log(soft_policy([mean(each) for each in before[k]])[ACTIONS[k]])
        immediate = RETURNS[k] + 0.8 * max(0.25 * log_now, -0.4)
        policy = soft_policy([mean(each) for each in chooses[k]])
        columns = zip(*after[k], strict=True)  # one quantile of each action
        soft = [
            sum(p * (z - 0.25 * math.log(p)) for p, z in zip(policy, column, strict=True))
            for column in columns
        ]
        targets = [immediate + DISCOUNTS[k] * value for value in soft]
        quantiles = now[k][ACTIONS[k]]
        losses.append(quantile_loss(quantiles, targets, taus[k]))
        errors.append(abs(mean(targets) - mean(quantiles)))
    check(found, losses, errors, [mean(now[k][ACTIONS[k]]) for k in range(3)])


class Spreads:
    """Two actions whose returns are uniform around 0, those of the second twice as wide."""

    def outputs(
        self, parameters: Any, features: Any, noise: Any = None, taus: Any = None
    ) -> tf.Tensor:
        if taus is None:
            taus = tf.constant([[0.125, 0.375, 0.625, 0.875]])
        widths = tf.constant([1.0, 2.0])[:, None]
        return widths * (taus[:, None, :] - 0.5) * tf.ones([len(features), 1, 1])

    def q_values(self, outputs: Any) -> tf.Tensor:
        return tf.reduce_mean(outputs, -1)


@pytest.mark.parametrize("munchausen", [False, True])
def test_iqns_choice_is_not_by_the_samples_of_its_target(munchausen: bool) -> None:
    # Whoever chooses by the very samples takes the action whose samples are too high: with 8 of
    # them the targets' mean would be 0.04 instead of 0.
    config = Config.from_values(
        {
            "value_distribution": "iqn",
            "num_target_quantiles": 8,
            "double_dqn": False,
            "munchausen": munchausen,
        }
    )
    objective: Any = objectives.make(config, Spreads())  # type: ignore[arg-type]
    count = 20_000
    features = tf.zeros([count, 1])
    actions = tf.zeros([count], tf.int32)
    one = Pass(tf.zeros([1]), features, features, tf.constant([5, 6]))
    bootstrap = objective.bootstrap(one, actions)._replace(bonus=tf.zeros([count]))
    outcomes = Outcomes(actions, tf.zeros([count]), tf.ones([count]))
    targets = objective._targets(one._replace(next_features=None), outcomes, bootstrap)
    entropy = 0.03 * math.log(2) if munchausen else 0.0  # τ ln 2 of two equal actions
    error = float(tf.math.reduce_std(tf.reduce_mean(targets, -1))) / math.sqrt(count)
    assert float(tf.reduce_mean(targets)) == pytest.approx(entropy, abs=4 * error)
