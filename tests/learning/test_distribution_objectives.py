"""Objectives of return distributions, with their arithmetic written out."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.products import (
    ACTIONS,
    ANY,
    ATOMS,
    DISCOUNTS,
    MUNCHAUSEN,
    NEXT,
    NOW,
    ONLINE,
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

from ps_dqn.learning.objectives import Losses


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
    target, online, *selector = network.calls
    after = implicit(target, TARGET, TARGET_NEXT)
    choosing = implicit(selector[0], ONLINE, NEXT) if is_double else after
    now = implicit(online, ONLINE, NOW)
    check_quantiles(found, now, after, choosing, online["taus"])


def test_iqns_fractions_are_fresh_for_every_transition_and_network() -> None:
    _, network = ask_for(**ANY["iqn"], double_dqn=True)
    taus = [np.array(each["taus"]) for each in network.calls]
    assert [each.shape for each in taus] == [(3, 4), (3, 3), (3, 4)]
    drawn = np.concatenate([each.ravel() for each in taus])
    assert len(set(drawn.tolist())) == drawn.size
    assert (drawn >= 0).all()
    assert (drawn < 1).all()
    again = ask_for(**ANY["iqn"], double_dqn=True)[1]
    assert again.calls == network.calls, "the seed decides"


@pytest.mark.parametrize("kind", ["qr_dqn", "iqn"])
def test_munchausen_quantiles_are_mixed_by_the_target_policy(kind: str) -> None:
    found, network = ask_for(**ANY[kind], **MUNCHAUSEN)
    if kind == "iqn":
        next_call, bonus_call, online_call = network.calls
        after, before = (
            implicit(call, TARGET, features)
            for call, features in ((next_call, TARGET_NEXT), (bonus_call, TARGET_NOW))
        )
        now, taus = implicit(online_call, ONLINE, NOW), online_call["taus"]
    else:
        after, before = spread(TARGET, TARGET_NEXT), spread(TARGET, TARGET_NOW)
        now, taus = spread(ONLINE, NOW), [[1 / 6, 3 / 6, 5 / 6]] * 3
    losses, errors = [], []
    for k in range(3):
        log_now = math.log(soft_policy([mean(each) for each in before[k]])[ACTIONS[k]])
        immediate = RETURNS[k] + 0.8 * max(0.25 * log_now, -0.4)
        policy = soft_policy([mean(each) for each in after[k]])
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
