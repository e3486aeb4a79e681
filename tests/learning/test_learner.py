"""The update loop: against NumPy on a linear network, and compiled against not."""

import dataclasses
import functools
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support.small_learner import (
    ACTIONS,
    DELTA,
    DISTRIBUTIONS,
    DUELING,
    EPSILON,
    FEATURES,
    IQN,
    NOISY,
    RATE,
    RECURRENT,
    SIZE,
    SMALL,
    STEPS,
    Inputs,
    inputs,
    learn,
)
from support.tiers import tiered

from ps_dqn.config import Config
from ps_dqn.learning.learner import Learned, compiled_by_xla, local_optimizer_slots
from ps_dqn.replay.batch import Transitions


def q_values(parameters: np.ndarray, observation: np.ndarray) -> np.ndarray:
    """Of the linear network, from the flat vector of its kernel and bias."""
    kernel = parameters[:-ACTIONS].reshape(FEATURES, ACTIONS)
    return observation @ kernel + parameters[-ACTIONS:]


def reference_gradient(
    given: Inputs, online: np.ndarray, target: np.ndarray, index: int
) -> tuple[np.ndarray, list[float], list[float]]:
    """Of one minibatch: gradient, loss, mean value and norm; errors."""
    config, gradient, loss, chosen, errors = given.config, np.zeros(online.size), 0.0, [], []
    minibatch = Transitions(*(array[index] for array in given.batch))
    for x, a, r, d, y, *_, weight, _ in zip(*minibatch, strict=True):
        after = q_values(target, y)
        following = after[np.argmax(q_values(online, y) if config.value.double_dqn else after)]
        if config.value.target == "expected_sarsa":
            following = (1 - EPSILON) * following + EPSILON * after.mean()
        value = q_values(online, x)[a]
        error = r + d * following - value
        slope = np.zeros((FEATURES + 1, ACTIONS))
        slope[:, a] = [*x, 1.0]
        gradient -= weight * np.clip(error, -DELTA, DELTA) * slope.ravel() / SIZE
        size = abs(error)
        loss += weight * (size**2 / 2 if size <= DELTA else DELTA * (size - DELTA / 2)) / SIZE
        chosen.append(value)
        errors.append(size)
    norm = np.sqrt((gradient**2).sum())
    limit = config.learning.max_grad_norm
    if limit and norm > limit:
        gradient *= limit / norm
    return gradient, [loss, float(np.mean(chosen)), norm], errors


def adam(parameters: np.ndarray, slots: np.ndarray, gradient: np.ndarray, step: int) -> np.ndarray:
    """Kingma and Ba 2015 with the paper's ε outside of the corrections; changes `slots`."""
    slots[0] = 0.9 * slots[0] + 0.1 * gradient
    slots[1] = 0.999 * slots[1] + 0.001 * gradient**2
    rate = RATE * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    return parameters - rate * slots[0] / (np.sqrt(slots[1]) + 1e-5)


def reference_learn(given: Inputs) -> Learned:
    """One update after the other; a gradient where there is one only."""
    online, slots = given.online.astype(np.float64), given.slots.astype(np.float64)
    sums, errors = np.zeros(3), []
    for i in range(given.config.parameter_server.local_updates):
        has_target = given.config.learning.target_update_period > 0
        target = given.target if has_target else online
        gradient, values, sizes = reference_gradient(given, online, target, i)
        sums += values
        errors.append(sizes)
        if not len(slots):
            return Learned(gradient, slots, *sums, np.array(errors))
        online = adam(online, slots, gradient, STEPS + 1 + i)
    return Learned(online - given.online, slots, *sums, np.array(errors))


def assert_close(learned: Learned, expected: Learned, **tolerance: float) -> None:
    tolerance = {"rtol": 1e-4, "atol": 1e-5} | tolerance
    for name, part, reference in zip(Learned._fields, learned, expected, strict=True):
        assert part.shape == np.shape(reference), name
        np.testing.assert_allclose(part, reference, **tolerance, err_msg=name)


@functools.cache
def learned_plainly(local_updates: int) -> Learned:
    """By DQN, that the others differ from."""
    return learn(inputs(local_updates=local_updates))


MODES: dict[str, dict[str, Any]] = {
    "dqn": {},
    "double": {"double_dqn": True},
    "expected_sarsa": {"target": "expected_sarsa"},
    "expected_sarsa, double": {"target": "expected_sarsa", "double_dqn": True},
    "no target network": {"target_update_period": 0},
    "clipped": {"max_grad_norm": 0.3},
}


@pytest.mark.parametrize("local_updates", [1, 3])
@pytest.mark.parametrize("mode", MODES)
def test_one_update_gives_the_gradient_and_more_the_change(mode: str, local_updates: int) -> None:
    given = inputs(**MODES[mode], local_updates=local_updates)
    learned = learn(given)
    assert_close(learned, reference_learn(given))
    assert learned.errors.shape == (local_updates, SIZE)
    if mode != "dqn":
        plain = learned_plainly(local_updates)
        assert np.abs(learned.vector - plain.vector).max() > 1e-3


@pytest.mark.parametrize(
    ("target", "memory", "period"),
    [
        *itertools.product(["expected_sarsa"], ["feedforward", "recurrent"], [0, 10]),
        ("greedy", "feedforward", 10),
        ("greedy", "recurrent", 0),
    ],
)
def test_epsilon_counts_for_expected_sarsa_only(target: str, memory: str, period: int) -> None:
    options = RECURRENT if memory == "recurrent" else {}
    given = inputs(**options, target=target, target_update_period=period, local_updates=2)
    first = learn(given, epsilon=0.1)
    if target == "greedy":
        # A pull before the first step has no ε yet.
        other = learn(given, epsilon=np.nan)
        assert all((a == b).all() for a, b in zip(first, other, strict=True))
    else:
        other = learn(given, epsilon=0.9)
        assert np.abs(first.errors - other.errors).max() > 0.01
        assert np.abs(first.vector - other.vector).max() > 1e-5


@pytest.mark.parametrize(
    ("kind", "memory"),
    [
        ("none", {}),
        ("iqn", {}),
        pytest.param("iqn", RECURRENT, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_target_counts_where_there_is_one(kind: str, memory: dict[str, Any]) -> None:
    for period in (0, 10):
        options = {**DISTRIBUTIONS[kind], **memory, "target_update_period": period}
        given = inputs(**options, local_updates=2)
        first, other = learn(given), learn(dataclasses.replace(given, target=given.target * -3))
        if period:
            assert np.abs(first.errors - other.errors).max() > 0.1
            assert np.abs(first.vector - other.vector).max() > 1e-4
        else:
            assert all((a == b).all() for a, b in zip(first, other, strict=True))


@pytest.fixture
def same_noise_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random numbers that XLA and TensorFlow's kernels agree about: theirs they do not share."""

    def waves(shape: Any, seed: tf.Tensor) -> tf.Tensor:
        count = int(np.prod([int(each) for each in shape]))
        start = tf.cast(seed[0] % 997 + seed[1] % 991, tf.float32)
        return tf.reshape(tf.sin(start + 1.7 * tf.range(count, dtype=tf.float32)), shape)

    def uniform(shape: Any, seed: tf.Tensor, **_: Any) -> tf.Tensor:
        return 0.5 + 0.49 * waves(shape, seed)

    monkeypatch.setattr(tf.random, "stateless_uniform", uniform)
    monkeypatch.setattr(tf.random, "stateless_normal", lambda shape, seed, **_: waves(shape, seed))


C51 = DISTRIBUTIONS["c51"] | {"huber_delta": 1.0}  # its loss has no such thing
COMPILED: dict[str, dict[str, Any]] = {
    "none": DUELING | {"double_dqn": True},
    "hl_gauss": DISTRIBUTIONS["hl_gauss"] | {"huber_delta": 1.0, "double_dqn": True},
    "c51": C51 | NOISY | {"target_update_period": 0},
    "qr_dqn": DISTRIBUTIONS["qr_dqn"] | {"double_dqn": True},
    "iqn": IQN | DUELING | {"munchausen": True},
    "expected_sarsa": DUELING
    | {"target": "expected_sarsa", "loss": "log_cosh", "huber_delta": 1.0},
    # What a memory changes is the same for every kind of values but iqn, whose fractions are drawn.
    "recurrent none": RECURRENT | {"value_rescaling": True, "double_dqn": True},
    "recurrent iqn": RECURRENT | IQN | NOISY,
}


@pytest.mark.usefixtures("same_noise_everywhere")
@pytest.mark.parametrize(
    "kind", tiered(COMPILED, quick=("none", "qr_dqn"), slow=("c51", "iqn", "recurrent none"))
)
def test_compiled_and_not_agree(kind: str) -> None:
    # One update compiles sooner; test_recurrent_networks.py has a loop within the loop.
    updates = 1 if "recurrent" in kind else 2
    options = {**COMPILED[kind], "local_updates": updates, "optimizer": "sgd"}
    graph = learn(inputs(**options))
    assert np.abs(graph.vector).max() > 1e-3
    assert_close(learn(inputs(**options, jit_compile="update")), graph, atol=5e-5)


def test_the_optimizer_alone_may_be_compiled() -> None:
    assert_close(learn(inputs(jit_compile="optimizer")), learn(inputs()))


@pytest.mark.parametrize(
    ("said", "images", "dense", "on_gpus"),
    [
        ("auto", "optimizer", "update", "update"),
        ("none", "none", "none", "none"),
        ("update", "update", "update", "update"),
        ("optimizer", "optimizer", "optimizer", "optimizer"),
    ],
)
def test_loops_with_convolutions_are_compiled_on_gpus_or_where_that_is_said(
    said, images, dense, on_gpus
) -> None:
    config = Config.from_values({"jit_compile": said})
    for expected, has_convolutions in ((images, True), (dense, False)):
        network: Any = SimpleNamespace(has_convolutions=has_convolutions)
        assert compiled_by_xla(config, network, on_gpus=False) == expected
        assert compiled_by_xla(config, network, on_gpus=True) == on_gpus


@pytest.mark.parametrize(("optimizer", "slots"), [("adam", 2), ("rmsprop", 1), ("sgd", 1)])
def test_a_gradient_needs_no_slots_of_the_worker(optimizer: str, slots: int) -> None:
    for updates, expected in ((1, 0), (2, slots)):
        values = SMALL | {"optimizer": optimizer, "local_updates": updates}
        assert local_optimizer_slots(Config.from_values(values)) == expected
