"""What one push does to the parameters, against formulas written out in float64."""

import math

import numpy as np
import pytest
from support.single_server import SIZE, close

from ps_dqn.config import Config
from ps_dqn.parameter_server.rule import Rule, outer_learning_rate, outer_momentum

EPSILON = 1e-4


def make_config(**options) -> Config:
    defaults = {"num_envs_per_worker": 1, "average_decay": 0.0}
    if options.get("optimizer") != "sgd":
        defaults["optimizer_epsilon"] = EPSILON
    return Config.from_values({**defaults, **options})


def vectors(count: int, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(8).normal(size=(count, size)).astype(np.float32)


class Walk:
    """A rule, what it works on, and the path it takes."""

    def __init__(self, config: Config, num_workers: int = 1, size: int = SIZE):
        self.rule = Rule(config, num_workers)
        self.online = np.linspace(-1, 1, size).astype(np.float32)
        self.average = self.online.copy()
        self.slots = [np.zeros(size, np.float32) for _ in range(self.rule.num_slots)]
        self.steps = 0

    def step(self, vector: np.ndarray, rate: float = 0.0, weight: float = 1.0) -> np.ndarray:
        self.steps += 1
        before = vector.copy()
        self.online, self.average, self.slots = self.rule.apply(
            self.online, self.average, self.slots, vector, rate, weight, float(self.steps)
        )
        assert vector.tolist() == before.tolist(), "the push itself is left alone"
        for each in (self.online, self.average, *self.slots):
            assert each.dtype == np.float32
        return self.online.astype(np.float64)


# One local update: gradients, for the optimizer of the configuration.


def adam(x, slots, g, rate, t):
    slots[0] = 0.9 * slots[0] + 0.1 * g
    slots[1] = 0.999 * slots[1] + 0.001 * g**2
    corrected = rate * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return x - corrected * slots[0] / (np.sqrt(slots[1]) + EPSILON)


def rmsprop(x, slots, g, rate, t):
    slots[0] = 0.95 * slots[0] + 0.05 * g**2
    return x - rate * g / np.sqrt(slots[0] + EPSILON)


def adagrad(x, slots, g, rate, t):
    slots[0] = slots[0] + g**2
    return x - rate * g / (np.sqrt(slots[0]) + EPSILON)


def sgd(x, slots, g, rate, t):
    slots[0] = 0.8 * slots[0] + g
    return x - rate * slots[0]


OPTIMIZERS = {"adam": (adam, 2), "rmsprop": (rmsprop, 1), "adagrad": (adagrad, 1), "sgd": (sgd, 1)}


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_gradients_go_to_the_optimizer_and_weights_to_its_step_size(name, weighed):
    formula, num_slots = OPTIMIZERS[name]
    momentum = {"momentum": 0.8} if name == "sgd" else {}
    walk = Walk(make_config(local_updates=1, optimizer=name, **momentum))
    expected, slots = walk.online.astype(np.float64), [np.zeros(SIZE)] * num_slots
    assert walk.rule.num_slots == num_slots
    for t, gradient in enumerate(vectors(12), start=1):
        rate = 0.02 / t
        weight = 0.5**t if weighed else 1.0
        expected = formula(expected, slots, gradient, weight * rate, t)
        assert walk.step(gradient, rate, weight) == close(expected)
        for slot, wanted in zip(walk.slots, slots, strict=True):
            assert slot == close(wanted, 1e-5)


# More local updates: changes, for the outer optimizer.


def test_a_change_is_added_times_the_step_size_and_its_weight():
    walk = Walk(make_config(local_updates=4, outer_learning_rate=0.25, outer_momentum=0.0))
    assert walk.rule.num_slots == 0
    expected = walk.online.astype(np.float64)
    for change, weight in zip(vectors(5), (1.0, 0.5, 0.1, 0.0, 2.0), strict=True):
        expected = expected + 0.25 * weight * change
        # The learning rate is the worker's business.
        assert walk.step(change, rate=123.0, weight=weight) == close(expected)


def test_changes_may_have_nesterov_momentum():
    walk = Walk(make_config(local_updates=4, outer_learning_rate=0.7, outer_momentum=0.9))
    assert walk.rule.num_slots == 1
    expected, velocity = walk.online.astype(np.float64), np.zeros(SIZE)
    for change, weight in zip(vectors(6), (1.0, 1.0, 0.5, 1.0, 0.0, 1.0), strict=True):
        # A change is the negative of a gradient (Sutskever et al. 2013, in the form of DiLoCo).
        gradient = -weight * change
        velocity = 0.9 * velocity + gradient
        expected = expected - 0.7 * (gradient + 0.9 * velocity)
        assert walk.step(change, rate=123.0, weight=weight) == close(expected)
        assert walk.slots[0] == close(velocity)


def test_the_default_momentum_is_one_half():
    default = make_config(local_updates=2).parameter_server
    assert outer_momentum(default) == 0.5
    none = make_config(local_updates=2, outer_momentum=0.0).parameter_server
    assert outer_momentum(none) == 0.0


@pytest.mark.parametrize("momentum", [0.0, 0.75])
def test_the_default_step_size_depends_on_momentum_and_who_waits_for_whom(momentum):
    for options, num_workers, wanted in [
        ({"aggregation": "sync"}, 4, 1.0 - momentum),
        ({"aggregation": "async"}, 1, 1.0 - momentum),
        ({"aggregation": "async"}, 4, 0.5 * (1.0 - momentum)),
        ({"aggregation": "async"}, 2, 0.5**0.5 * (1.0 - momentum)),
        ({"aggregation": "async"}, 5, (1.0 - momentum) / 5),
        ({"aggregation": "async", "outer_learning_rate": 0.125}, 4, 0.125),
        ({"aggregation": "sync", "outer_learning_rate": 0.125}, 4, 0.125),
        ({"aggregation": "async", "outer_learning_rate": 0.0}, 4, 0.0),
    ]:
        config = make_config(local_updates=2, outer_momentum=momentum, **options)
        rate = outer_learning_rate(config.parameter_server, num_workers)
        assert rate == pytest.approx(wanted)
        walk = Walk(config, num_workers)
        before = walk.online.astype(np.float64)
        change = vectors(1)[0]
        # From rest, Nesterov's first step is 1 + momentum times as long.
        assert walk.step(change) == close(before + wanted * (1 + momentum) * change)


@pytest.mark.parametrize("local_updates", [1, 3])
@pytest.mark.parametrize("decay", [0.0, 0.9])
def test_the_average_follows_as_after_that_many_updates(local_updates, decay):
    walk = Walk(make_config(local_updates=local_updates, average_decay=decay))
    expected = walk.average.astype(np.float64)
    for push in vectors(6):
        online = walk.step(push, rate=0.05)
        for _ in range(local_updates):
            expected = decay * expected + (1 - decay) * online
        assert walk.average == close(expected)
    assert (walk.average == walk.online).all() == (decay == 0.0)


def outer_adam(x, slots, g, rate, t):
    slots[0] = 0.9 * slots[0] + 0.1 * g
    slots[1] = 0.99 * slots[1] + 0.01 * g**2
    corrected = rate * math.sqrt(1 - 0.99**t) / (1 - 0.9**t)
    return x - corrected * slots[0] / (np.sqrt(slots[1]) + 1e-3)


@pytest.mark.parametrize(("options", "rate"), [({}, 0.01), ({"outer_learning_rate": 0.3}, 0.3)])
def test_changes_may_go_to_adam(options, rate):
    walk = Walk(make_config(local_updates=4, outer_optimizer="adam", **options))
    expected, slots = walk.online.astype(np.float64), [np.zeros(SIZE)] * 2
    assert walk.rule.num_slots == 2
    for t, (change, weight) in enumerate(zip(vectors(4), (1.0, 0.5, 2.0, 1.0), strict=True), 1):
        expected = outer_adam(expected, slots, -weight * change, rate, t)
        assert walk.step(change, rate=123.0, weight=weight) == close(expected)


def test_changes_may_be_added_as_they_are():
    walk = Walk(make_config(local_updates=4, outer_optimizer="sgd"))
    assert walk.rule.num_slots == 0
    before, change = walk.online.astype(np.float64), vectors(1)[0]
    assert walk.step(change) == close(before + change)
