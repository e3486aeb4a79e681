"""Objectives, each with its arithmetic written out in plain Python, on a network of a few products.

Three transitions, two actions. The network's parameters are a and b: outputs are a times the
features, and where there are quantile fractions τ, plus b times them.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.learning import objectives
from ps_dqn.learning.objectives import Bootstrap, Losses, Outcomes

ONLINE, TARGET = [2.0, 0.3], [1.5, -0.4]
SEED = tf.constant([11, 22])
ACTIONS = [0, 1, 1]
RETURNS = [0.5, -1.25, 2.0]
DISCOUNTS = [0.9, 0.81, 0.0]
# Each network's own features. The two disagree about the best next action of the first two.
NOW = [[0.3, -0.2], [1.1, 0.4], [-0.7, 0.9]]
NEXT = [[1.0, -0.5], [0.2, 0.8], [-0.3, 0.6]]
TARGET_NOW = [[0.6, 0.1], [-0.4, 0.5], [0.2, -0.1]]
TARGET_NEXT = [[0.4, 1.2], [0.9, -0.6], [0.7, 0.1]]
# As logits or quantile values: three for each of the two actions.
SPREAD = [-0.6, 0.1, 0.8]


class Products:
    """A network whose arithmetic is a line; it remembers what it was asked."""

    def __init__(self, config: Config):
        self.value = config.value
        self.asked: list[dict[str, Any]] = []

    def outputs(
        self, parameters: Any, features: Any, noise: Any = None, taus: Any = None
    ) -> tf.Tensor:
        self.asked.append({"a": float(parameters[0]), "noise": noise.numpy().tolist()})
        scaled = parameters[0] * features  # [K, A]
        if taus is not None:
            self.asked[-1]["taus"] = taus.numpy().tolist()
            return scaled[:, :, None] + parameters[1] * taus[:, None, :]  # [K, A, N]
        if self.value.value_distribution == "none":
            return scaled
        return scaled[:, :, None] * (1.0 + tf.constant(SPREAD)) + tf.constant(SPREAD)

    def q_values(self, outputs: Any) -> tf.Tensor:
        if self.value.value_distribution == "none":
            return outputs
        if self.value.value_distribution == "c51":
            return tf.reduce_sum(tf.nn.softmax(outputs) * tf.constant(ATOMS), -1)
        return tf.reduce_mean(outputs, -1)


ATOMS = [-2.0, 0.0, 2.0]
ANY = {
    "none": {"value_distribution": "none"},
    "c51": {"value_distribution": "c51", "num_atoms": 3, "v_min": -2.0, "v_max": 2.0},
    "qr_dqn": {"value_distribution": "qr_dqn", "num_quantiles": 3, "huber_delta": 0.7},
    "iqn": {
        "value_distribution": "iqn",
        "num_quantiles": 3,
        "num_target_quantiles": 4,
        "huber_delta": 0.7,
    },
}


def ask(config: Config, parameters: Any, next_features: Any = None) -> tuple[Losses, Any, Products]:
    """Losses of the three transitions, as a source asks for them."""
    network = Products(config)
    objective = objectives.make(config, network)  # type: ignore[arg-type]
    actions = tf.constant(ACTIONS)
    bootstrap = objective.bootstrap(
        tf.constant(TARGET), tf.constant(TARGET_NOW), tf.constant(TARGET_NEXT), actions, SEED
    )
    if config.value.double_dqn and next_features is None:
        next_features = tf.constant(NEXT)
    outcomes = Outcomes(actions, tf.constant(RETURNS), tf.constant(DISCOUNTS))
    found = objective.losses(parameters, tf.constant(NOW), next_features, outcomes, bootstrap, SEED)
    return found, bootstrap, network


def ask_for(**values: Any) -> tuple[Losses, Products]:
    found, _, network = ask(
        Config.from_values({"double_dqn": False, **values}), tf.constant(ONLINE)
    )
    return found, network


def best(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def huber(error: float, delta: float = 1.0) -> float:
    return error**2 / 2 if abs(error) <= delta else delta * (abs(error) - delta / 2)


def softmax(values: Sequence[float]) -> list[float]:
    total = sum(math.exp(value) for value in values)
    return [math.exp(value) / total for value in values]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def scaled(parameters: Sequence[float], features: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[parameters[0] * each for each in row] for row in features]


def close(values: object) -> object:
    return pytest.approx(values, rel=1e-5, abs=1e-6)


def check(found: Losses, losses: list[float], errors: list[float], q_values: list[float]) -> None:
    assert found.loss.numpy().tolist() == close(losses)
    assert found.error.numpy().tolist() == close(errors)
    assert found.q_value.numpy().tolist() == close(q_values)


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


@pytest.mark.parametrize(("options", "loss"), [
    ({"loss": "squared"}, lambda error: error**2 / 2),
    ({"huber_delta": 0.2}, lambda error: huber(error, 0.2)),
])  # fmt: skip
def test_the_loss_is_the_configured_one(options: dict[str, Any], loss: Any) -> None:
    targets = [r + d * max(q) for r, d, q in zip(RETURNS, DISCOUNTS, AFTER, strict=True)]
    errors = [target - chosen for target, chosen in zip(targets, CHOSEN, strict=True)]
    found, _ = ask_for(**options)
    check(found, [loss(each) for each in errors], [abs(each) for each in errors], CHOSEN)


MUNCHAUSEN = {
    "munchausen": True,
    "munchausen_alpha": 0.8,
    "munchausen_temperature": 0.25,
    "munchausen_clip": -0.4,
}


def soft_policy(q_values: Sequence[float]) -> list[float]:
    return softmax([value / 0.25 for value in q_values])


def bonuses(now: list[list[float]]) -> list[float]:
    logs = [math.log(soft_policy(q)[a]) for q, a in zip(now, ACTIONS, strict=True)]
    assert 0.25 * min(logs) < -0.4 < 0.25 * max(logs), "one is clipped, one is not"
    return [0.8 * max(0.25 * each, -0.4) for each in logs]


def test_munchausen_adds_the_target_policys_logarithm_and_bootstraps_softly() -> None:
    soft = [
        sum(p * (value - 0.25 * math.log(p)) for p, value in zip(soft_policy(q), q, strict=True))
        for q in AFTER
    ]
    earned = bonuses(scaled(TARGET, TARGET_NOW))
    rows = zip(RETURNS, earned, DISCOUNTS, soft, strict=True)
    check_expected(ask_for(**MUNCHAUSEN)[0], [r + m + d * v for r, m, d, v in rows])


def h(x: float) -> float:
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + 1e-3 * x


def inverse_h(y: float) -> float:
    root = (math.sqrt(1 + 4e-3 * (abs(y) + 1 + 1e-3)) - 1) / 2e-3
    return math.copysign(root**2 - 1, y)


@pytest.mark.parametrize("is_double", [False, True])
def test_rescaled_values_are_learned_as_such(is_double: bool) -> None:
    online = scaled(ONLINE, NEXT)
    chosen = [best(row) for row in (online if is_double else AFTER)]
    rows = zip(RETURNS, DISCOUNTS, AFTER, chosen, strict=True)
    targets = [h(r + d * inverse_h(q[a])) for r, d, q, a in rows]
    check_expected(ask_for(value_rescaling=True, double_dqn=is_double)[0], targets)


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


def implicit(asked: dict[str, Any], parameters: list[float], features: Any) -> Any:
    """Quantile values [K][A][N] of the fractions that the network was asked for."""
    rows = zip(features, asked["taus"], strict=True)
    a, b = parameters
    return [[[a * value + b * tau for tau in taus] for value in row] for row, taus in rows]


@pytest.mark.parametrize("is_double", [False, True])
def test_iqn_regresses_at_the_fractions_it_asks_for(is_double: bool) -> None:
    found, network = ask_for(**ANY["iqn"], double_dqn=is_double)
    target, online, *chooser = network.asked
    after = implicit(target, TARGET, TARGET_NEXT)
    choosing = implicit(chooser[0], ONLINE, NEXT) if is_double else after
    now = implicit(online, ONLINE, NOW)
    check_quantiles(found, now, after, choosing, online["taus"])


def test_iqns_fractions_are_fresh_for_every_transition_and_network() -> None:
    _, network = ask_for(**ANY["iqn"], double_dqn=True)
    taus = [np.array(each["taus"]) for each in network.asked]
    assert [each.shape for each in taus] == [(3, 4), (3, 3), (3, 4)]
    drawn = np.concatenate([each.ravel() for each in taus])
    assert len(set(drawn.tolist())) == drawn.size
    assert (drawn >= 0).all()
    assert (drawn < 1).all()
    again = ask_for(**ANY["iqn"], double_dqn=True)[1]
    assert again.asked == network.asked, "the seed decides"


@pytest.mark.parametrize("kind", ["qr_dqn", "iqn"])
def test_munchausen_quantiles_are_mixed_by_the_target_policy(kind: str) -> None:
    found, network = ask_for(**ANY[kind], **MUNCHAUSEN)
    if kind == "iqn":
        asked_after, asked_before, asked_now = network.asked
        after, before = (
            implicit(asked, TARGET, features)
            for asked, features in ((asked_after, TARGET_NEXT), (asked_before, TARGET_NOW))
        )
        now, taus = implicit(asked_now, ONLINE, NOW), asked_now["taus"]
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
    assert [tape.gradient(total, each) for each in sources] == [None] * 3

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
def test_noise_is_drawn_anew_for_the_target_the_online_network_and_the_chooser(kind: str) -> None:
    _, network = ask_for(**ANY[kind], double_dqn=True)
    assert [each["a"] for each in network.asked] == [TARGET[0], ONLINE[0], ONLINE[0]]
    assert len({tuple(each["noise"]) for each in network.asked}) == 3


def test_without_munchausen_there_is_no_bonus() -> None:
    _, bootstrap, network = ask(Config.from_values({"double_dqn": False}), tf.constant(ONLINE))
    assert isinstance(bootstrap, Bootstrap)
    assert bootstrap.bonus.numpy().tolist() == [0.0] * 3
    assert len(network.asked) == 2, "the states acted in are not asked about"


def test_derived_seeds_differ_by_purpose_and_seed() -> None:
    seeds = [tf.constant(each) for each in ([3, 4], [4, 3], [2**31 - 1, 5])]
    derived = [tuple(objectives.derive(s, p).numpy().tolist()) for s in seeds for p in range(1, 9)]
    assert len(set(derived)) == len(derived)
    assert objectives.derive(seeds[0], 3).dtype == tf.int32
    from_tensor = objectives.derive(seeds[0], tf.constant(3)).numpy().tolist()
    assert from_tensor == objectives.derive(seeds[0], 3).numpy().tolist()
