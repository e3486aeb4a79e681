"""Objectives of expected returns and of all kinds, with their arithmetic written out."""

import math
from typing import Any

import pytest
import tensorflow as tf
from support.products import (
    ACTIONS,
    ANY,
    DISCOUNTS,
    MUNCHAUSEN,
    NEXT,
    NOW,
    ONLINE,
    RETURNS,
    TARGET,
    TARGET_NEXT,
    TARGET_NOW,
    ask,
    ask_for,
    best,
    bonuses,
    check,
    huber,
    scaled,
    soft_policy,
)

from ps_dqn.config import Config
from ps_dqn.learning.passes import Bootstrap, Losses

CHOSEN = [row[action] for row, action in zip(scaled(ONLINE, NOW), ACTIONS, strict=True)]
AFTER = scaled(TARGET, TARGET_NEXT)


def check_expected(found: Losses, targets: list[float]) -> None:
    errors = [target - chosen for target, chosen in zip(targets, CHOSEN, strict=True)]
    check(found, [huber(each) for each in errors], [abs(each) for each in errors], CHOSEN)


def test_dqn_bootstraps_from_the_targets_own_best_action() -> None:
    targets = [r + d * max(q) for r, d, q in zip(RETURNS, DISCOUNTS, AFTER, strict=True)]
    check_expected(ask_for()[0], targets)


def test_double_dqn_takes_the_targets_value_of_the_onlines_best_action() -> None:
    chosen = [best(row) for row in scaled(ONLINE, NEXT)]
    assert chosen[:2] == [1 - best(row) for row in AFTER[:2]]
    rows = zip(RETURNS, DISCOUNTS, AFTER, chosen, strict=True)
    check_expected(ask_for(double_dqn=True)[0], [r + d * q[a] for r, d, q, a in rows])


def h(x: float) -> float:
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + 1e-3 * x


def inverse_h(y: float) -> float:
    root = (math.sqrt(1 + 4e-3 * (abs(y) + 1 + 1e-3)) - 1) / 2e-3
    return math.copysign(root**2 - 1, y)


@pytest.mark.parametrize("is_rescaled", [False, True], ids=["plain", "rescaled"])
@pytest.mark.parametrize("is_double", [False, True], ids=["dqn", "double"])
def test_expected_sarsa_bootstraps_from_the_policy_that_acts(
    is_double: bool, is_rescaled: bool
) -> None:
    online = scaled(ONLINE, NEXT)
    chosen = [best(row) for row in (online if is_double else AFTER)]
    back, to = (inverse_h, h) if is_rescaled else (float, float)
    values = [
        0.6 * back(row[a]) + 0.4 * (back(row[0]) + back(row[1])) / 2
        for row, a in zip(AFTER, chosen, strict=True)
    ]
    rows = zip(RETURNS, DISCOUNTS, values, strict=True)
    options = {"target": "expected_sarsa", "double_dqn": is_double, "value_rescaling": is_rescaled}
    check_expected(ask_for(**options)[0], [to(r + d * v) for r, d, v in rows])


@pytest.mark.parametrize(("options", "loss"), [
    ({"loss": "squared"}, lambda error: error**2 / 2),
    ({"loss": "log_cosh"}, lambda error: math.log(math.cosh(error))),
    ({"huber_delta": 0.2}, lambda error: huber(error, 0.2)),
])  # fmt: skip
def test_the_loss_is_the_configured_one(options: dict[str, Any], loss: Any) -> None:
    targets = [r + d * max(q) for r, d, q in zip(RETURNS, DISCOUNTS, AFTER, strict=True)]
    errors = [target - chosen for target, chosen in zip(targets, CHOSEN, strict=True)]
    found, _ = ask_for(**options)
    check(found, [loss(each) for each in errors], [abs(each) for each in errors], CHOSEN)


def test_munchausen_adds_the_target_policys_logarithm_and_bootstraps_softly() -> None:
    soft = [
        sum(p * (value - 0.25 * math.log(p)) for p, value in zip(soft_policy(q), q, strict=True))
        for q in AFTER
    ]
    earned = bonuses(scaled(TARGET, TARGET_NOW))
    rows = zip(RETURNS, earned, DISCOUNTS, soft, strict=True)
    check_expected(ask_for(**MUNCHAUSEN)[0], [r + m + d * v for r, m, d, v in rows])


@pytest.mark.parametrize("is_double", [False, True])
def test_rescaled_values_are_learned_as_such(is_double: bool) -> None:
    online = scaled(ONLINE, NEXT)
    chosen = [best(row) for row in (online if is_double else AFTER)]
    rows = zip(RETURNS, DISCOUNTS, AFTER, chosen, strict=True)
    targets = [h(r + d * inverse_h(q[a])) for r, d, q, a in rows]
    check_expected(ask_for(value_rescaling=True, double_dqn=is_double)[0], targets)


@pytest.mark.parametrize("is_double", [False, True])
@pytest.mark.parametrize("kind", list(ANY))
def test_the_gradient_is_that_of_the_values_of_the_actions_taken(
    kind: str, is_double: bool
) -> None:
    config = Config.from_values({"double_dqn": is_double, **ANY[kind]})
    parameters, following = tf.constant(ONLINE), tf.constant(NEXT)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([parameters, following])
        found, bootstrap, _ = ask(config, parameters, following if is_double else None)
        total = tf.reduce_sum(found.loss)
    sources = [following, *bootstrap]
    assert [tape.gradient(total, each) for each in sources] == [None] * len(sources)

    def total_at(a: float, b: float) -> float:
        # The targets do not move: a change this small does not change the action chosen.
        return float(tf.reduce_sum(ask(config, tf.constant([a, b]))[0].loss))

    step = 1e-2
    (a, b), gradient = ONLINE, tape.gradient(total, parameters).numpy()
    slopes = [
        (total_at(a + step, b) - total_at(a - step, b)) / (2 * step),
        (total_at(a, b + step) - total_at(a, b - step)) / (2 * step),
    ]
    assert gradient.tolist() == pytest.approx(slopes, abs=2e-3)
    assert abs(gradient[0]) > 0.01


@pytest.mark.parametrize("kind", list(ANY))
def test_noise_is_drawn_anew_for_the_target_the_online_network_and_the_selector(kind: str) -> None:
    _, network = ask_for(**ANY[kind], double_dqn=True)
    assert [each["a"] for each in network.calls] == [TARGET[0], ONLINE[0], ONLINE[0]]
    assert len({tuple(each["noise"]) for each in network.calls}) == 3


def test_without_munchausen_there_is_no_bonus() -> None:
    _, bootstrap, network = ask(Config.from_values({"double_dqn": False}), tf.constant(ONLINE))
    assert isinstance(bootstrap, Bootstrap)
    assert bootstrap.bonus.numpy().tolist() == [0.0] * 3
    assert len(network.calls) == 2, "no values of the states acted in are needed"
