"""What one push does to the parameters, against formulas written out in float64."""

import dataclasses
import math

import numpy as np
import pytest
from support.single_server import SIZE, close

from ps_dqn.config import Config
from ps_dqn.parameter_server.rule import Numbers, Rule
from ps_dqn.state import Counters, State

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

    def __init__(self, config: Config, size: int = SIZE):
        self.rule = Rule(config)
        self.online = np.linspace(-1, 1, size).astype(np.float32)
        self.average = self.online.copy()
        self.slots = [np.zeros(size, np.float32) for _ in range(self.rule.num_slots)]
        self.steps = 0

    def step(
        self,
        vector: np.ndarray,
        step_size: float = 1.0,
        weight: float = 1.0,
        momentum: float = 0.0,
        worth: float = 1.0,
    ) -> np.ndarray:
        self.steps += 1
        before = vector.copy()
        follows = self.rule.average_step(worth)
        numbers = Numbers(weight, step_size, momentum, follows, math.nan, float(self.steps))
        self.online, self.average, self.slots = self.rule.apply(
            self.online, self.average, self.slots, vector, numbers
        )
        assert vector.tolist() == before.tolist(), "the push itself is left alone"
        for each in (self.online, self.average, *self.slots):
            assert each.dtype == np.float32
        return self.online.astype(np.float64)


# What may go on from which state.

OUTER = {"local_updates": 64}
GRADIENTS = {"local_updates": 1}


def state_of(**options) -> State:
    """What servers with these options hold."""
    rule, zeros = Rule(make_config(**options)), np.zeros(SIZE, np.float32)
    slots, counters = (zeros,) * rule.num_slots, Counters(0, 0, 0, 0, 0)
    return State(zeros, zeros, zeros, slots, counters, slots_of=rule.slots_of)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (OUTER, {**GRADIENTS, "optimizer": "rmsprop"}, "outer nesterov, and these flags want rms"),
        (OUTER, {**GRADIENTS, "optimizer": "sgd"}, "outer nesterov, and these flags want sgd"),
        (
            {**OUTER, "outer_optimizer": "adam"},
            {**GRADIENTS, "optimizer": "adam"},
            "outer adam, and these flags want adam",
        ),
        (
            {**GRADIENTS, "optimizer": "radam"},
            {**GRADIENTS, "optimizer": "rmsprop_centered"},
            "adam, and these flags want rmsprop_centered",
        ),
    ],
    ids=str,
)
def test_another_optimizer_does_not_go_on_from_a_state(before, after, said) -> None:
    with pytest.raises(ValueError, match=f"its optimizer state is of {said}"):
        Rule(make_config(**after)).check(state_of(**before), SIZE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (OUTER, {"local_updates": 16, "outer_momentum": 0.5}),
        ({**GRADIENTS, "optimizer": "adam"}, {**GRADIENTS, "optimizer": "adamw"}),
        ({**OUTER, "outer_optimizer": "sgd"}, {**OUTER, "outer_momentum": 0.0}),
    ],
    ids=str,
)
def test_slots_that_mean_the_same_are_gone_on_with(before, after) -> None:
    Rule(make_config(**after)).check(state_of(**before), SIZE)


def test_a_state_that_does_not_say_what_its_slots_are_of_is_taken() -> None:
    saved = dataclasses.replace(state_of(**OUTER), slots_of="")
    Rule(make_config(**GRADIENTS, optimizer="rmsprop")).check(saved, SIZE)


# One local update: gradients, for the optimizer of the configuration.


def adam(x, slots, g, rate, t):
    slots[0] = 0.9 * slots[0] + 0.1 * g
    slots[1] = 0.999 * slots[1] + 0.001 * g**2
    corrected = rate * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return x - corrected * slots[0] / (np.sqrt(slots[1]) + EPSILON)


def rmsprop(x, slots, g, rate, t):
    slots[0] = 0.95 * slots[0] + 0.05 * g**2
    return x - rate * g / np.sqrt(slots[0] + EPSILON)


def rmsprop_centered(x, slots, g, rate, t):
    slots[0] = 0.95 * slots[0] + 0.05 * g
    slots[1] = 0.95 * slots[1] + 0.05 * g**2
    return x - rate * g / np.sqrt(slots[1] - slots[0] ** 2 + EPSILON)


def adagrad(x, slots, g, rate, t):
    slots[0] = slots[0] + g**2
    return x - rate * g / (np.sqrt(slots[0]) + EPSILON)


def sgd(x, slots, g, rate, t):
    slots[0] = 0.8 * slots[0] + g
    return x - rate * slots[0]


OPTIMIZERS = {
    "adam": (adam, 2),
    "rmsprop": (rmsprop, 1),
    "rmsprop_centered": (rmsprop_centered, 2),
    "adagrad": (adagrad, 1),
    "sgd": (sgd, 1),
}


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
        # The momentum is that of changes.
        assert walk.step(gradient, rate, weight, momentum=0.9) == close(expected)
        for slot, wanted in zip(walk.slots, slots, strict=True):
            assert slot == close(wanted, 1e-5)


# More local updates: changes, for the outer optimizer.


def test_a_change_is_added_times_the_step_size_and_its_weight():
    walk = Walk(make_config(local_updates=4, outer_momentum=0.0))
    assert walk.rule.num_slots == 0
    expected = walk.online.astype(np.float64)
    for change, weight in zip(vectors(5), (1.0, 0.5, 0.1, 0.0, 2.0), strict=True):
        expected = expected + 0.25 * weight * change
        assert walk.step(change, 0.25, weight) == close(expected)


@pytest.mark.parametrize("momenta", [[0.9] * 6, [0.5, 0.5, 0.0, 0.0, 0.5, 0.25]], ids=str)
def test_changes_may_have_nesterov_momentum(momenta):
    walk = Walk(make_config(local_updates=4))
    assert walk.rule.num_slots == 1
    expected, velocity = walk.online.astype(np.float64), np.zeros(SIZE)
    weights = (1.0, 1.0, 0.5, 1.0, 0.0, 1.0)
    for change, weight, momentum in zip(vectors(6), weights, momenta, strict=True):
        # A change is the negative of a gradient (Sutskever et al. 2013, in the form of DiLoCo).
        gradient = -weight * change
        velocity = momentum * velocity + gradient
        expected = expected - 0.7 * (gradient + momentum * velocity)
        assert walk.step(change, 0.7, weight, momentum) == close(expected)
        assert walk.slots[0] == close(velocity)


@pytest.mark.parametrize(
    ("options", "num_slots"),
    [
        ({}, 1),  # its workers may become fewer, down to one, which has a momentum
        ({"aggregation": "sync"}, 1),
        ({"outer_momentum": 0.25}, 1),
        ({"outer_momentum": 0.0}, 0),
        ({"outer_momentum": 0.0, "aggregation": "sync"}, 0),
        ({"outer_optimizer": "adam"}, 2),
        ({"outer_optimizer": "sgd"}, 0),
    ],
    ids=str,
)
def test_velocity_is_kept_unless_it_is_said_that_there_is_none(options, num_slots):
    assert Walk(make_config(local_updates=4, **options)).rule.num_slots == num_slots


@pytest.mark.parametrize("local_updates", [1, 3])
@pytest.mark.parametrize("decay", [0.0, 0.9])
@pytest.mark.parametrize("worth", [1, 3])
def test_the_average_follows_as_after_that_many_updates(local_updates, decay, worth):
    walk = Walk(make_config(local_updates=local_updates, average_decay=decay))
    expected = walk.average.astype(np.float64)
    for push in vectors(6):
        online = walk.step(push, 0.05, worth=worth)
        for _ in range(worth):
            expected = decay * expected + (1 - decay) * online
        assert walk.average == close(expected)
    assert (walk.average == walk.online).all() == (decay == 0.0)


def test_the_average_follows_side_by_side_as_one_after_the_other():
    rule = Rule(make_config(average_decay=0.9))
    # Four pushes worth a quarter of an update each keep 0.9 together.
    assert (1 - rule.average_step(0.25)) ** 4 == pytest.approx(0.9)
    assert rule.average_step(0.0) == 0.0


def outer_adam(x, slots, g, rate, t):
    slots[0] = 0.9 * slots[0] + 0.1 * g
    slots[1] = 0.99 * slots[1] + 0.01 * g**2
    corrected = rate * math.sqrt(1 - 0.99**t) / (1 - 0.9**t)
    return x - corrected * slots[0] / (np.sqrt(slots[1]) + 1e-3)


def test_changes_may_go_to_adam():
    walk = Walk(make_config(local_updates=4, outer_optimizer="adam"))
    expected, slots = walk.online.astype(np.float64), [np.zeros(SIZE)] * 2
    assert walk.rule.num_slots == 2
    for t, (change, weight) in enumerate(zip(vectors(4), (1.0, 0.5, 2.0, 1.0), strict=True), 1):
        # It would undo a weight of the change, so the step is weighed.
        expected = outer_adam(expected, slots, -change, 0.3 * weight, t)
        assert walk.step(change, 0.3, weight) == close(expected)


def test_changes_may_be_added_as_they_are():
    walk = Walk(make_config(local_updates=4, outer_optimizer="sgd"))
    assert walk.rule.num_slots == 0
    before, change = walk.online.astype(np.float64), vectors(1)[0]
    assert walk.step(change, momentum=0.9) == close(before + change)
