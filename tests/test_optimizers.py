"""Both forms of every optimizer against its formula in NumPy, over several steps."""

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from ps_dqn import optimizers
from ps_dqn.config import Learning

STEPS = 12
RATES = np.linspace(0.01, 0.002, STEPS)  # the step size changes during a run
Formula = Callable[[np.ndarray, list[np.ndarray]], list[np.ndarray]]


def gradients() -> np.ndarray:
    """Of different sizes, with zeros in between, as dead units have them."""
    rng = np.random.default_rng(3)
    found = rng.normal(size=(STEPS, 7)) * 10.0 ** np.linspace(-2, 0.5, 7)
    found[::3, 2] = 0
    found[:, 5] = 0
    return found.astype(np.float32)


def start() -> np.ndarray:
    return np.linspace(-1, 1, 7).astype(np.float32)


# The formulas, in float64, each written from its paper. They yield the parameters after each step.


def adam(x: np.ndarray, grads: list[np.ndarray]) -> list[np.ndarray]:
    first, second, path = np.zeros(7), np.zeros(7), []
    for t, (g, rate) in enumerate(zip(grads, RATES, strict=True), start=1):
        first = 0.9 * first + 0.1 * g
        second = 0.999 * second + 0.001 * g * g
        # The form at the end of the paper's section 2, where epsilon is added before correction.
        rate_t = rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        x = x - rate_t * first / (np.sqrt(second) + 1e-4)
        path.append(x)
    return path


def rmsprop(x: np.ndarray, grads: list[np.ndarray]) -> list[np.ndarray]:
    square, path = np.zeros(7), []
    for g, rate in zip(grads, RATES, strict=True):
        square = 0.95 * square + 0.05 * g * g
        x = x - rate * g / np.sqrt(square + 1e-4)
        path.append(x)
    return path


def adagrad(x: np.ndarray, grads: list[np.ndarray]) -> list[np.ndarray]:
    square, path = np.zeros(7), []
    for g, rate in zip(grads, RATES, strict=True):
        square = square + g * g
        x = x - rate * g / (np.sqrt(square) + 1e-4)
        path.append(x)
    return path


def momentum(x: np.ndarray, grads: list[np.ndarray]) -> list[np.ndarray]:
    velocity, path = np.zeros(7), []
    for g, rate in zip(grads, RATES, strict=True):
        velocity = 0.8 * velocity + g
        x = x - rate * velocity
        path.append(x)
    return path


def nesterov(x: np.ndarray, grads: list[np.ndarray]) -> list[np.ndarray]:
    velocity, path = np.zeros(7), []
    for g, rate in zip(grads, RATES, strict=True):
        velocity = 0.8 * velocity + g
        x = x - rate * (g + 0.8 * velocity)
        path.append(x)
    return path


CASES = [
    pytest.param(optimizers.Adam(1e-4), adam, id="adam"),
    pytest.param(optimizers.RMSProp(1e-4), rmsprop, id="rmsprop"),
    pytest.param(optimizers.AdaGrad(1e-4), adagrad, id="adagrad"),
    pytest.param(optimizers.Momentum(0.8), momentum, id="momentum"),
    pytest.param(optimizers.Momentum(0.8, nesterov=True), nesterov, id="nesterov"),
]


def walk(optimizer: optimizers.Optimizer) -> tuple[list[np.ndarray], list[list[np.ndarray]]]:
    """Parameters and slots after each step of `apply`."""
    parameters = tf.constant(start())
    slots = [tf.zeros([7])] * optimizer.num_slots
    path, slot_path = [], []
    for i, (grad, rate) in enumerate(zip(gradients(), RATES, strict=True)):
        parameters, slots = optimizer.apply(
            parameters,
            slots,
            tf.constant(grad),
            tf.constant(rate, tf.float32),
            tf.constant(i + 1, tf.float32),
        )
        path.append(parameters.numpy())
        slot_path.append([slot.numpy() for slot in slots])
    return path, slot_path


@pytest.mark.parametrize(("optimizer", "formula"), CASES)
def test_apply_is_the_formula(optimizer: optimizers.Optimizer, formula: Formula) -> None:
    path, _ = walk(optimizer)
    expected = formula(start().astype(np.float64), list(gradients()))
    for got, wanted in zip(path, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)
    # It did move: agreement is not that of two things standing still.
    moved = np.abs(path[-1] - start())
    assert (moved[[0, 1, 3, 4, 6]] > 1e-4).all()
    assert moved[5] == 0, "no gradient, no step"


@pytest.mark.parametrize(("optimizer", "formula"), CASES)
def test_fused_form_does_the_same(optimizer: optimizers.Optimizer, formula: Formula) -> None:
    path, slot_path = walk(optimizer)
    parameters = tf.Variable(start())
    slots = [tf.Variable(tf.zeros([7])) for _ in range(optimizer.num_slots)]
    for i, (grad, rate) in enumerate(zip(gradients(), RATES, strict=True)):
        optimizer.apply_fused(
            parameters,
            slots,
            tf.constant(grad),
            tf.constant(rate, tf.float32),
            tf.constant(i + 1, tf.float32),
        )
        np.testing.assert_allclose(parameters.numpy(), path[i], rtol=0, atol=1e-6)
        for slot, wanted in zip(slots, slot_path[i], strict=True):
            # Relative here: the squares of large gradients have large rounding errors. Adam's
            # kernel forms 1 - 0.999 in float32, which is off by 1.3e-5.
            np.testing.assert_allclose(slot.numpy(), wanted, rtol=3e-5, atol=1e-6)


@pytest.mark.parametrize(("optimizer", "formula"), CASES)
def test_forms_agree_inside_a_graph(optimizer: optimizers.Optimizer, formula: Formula) -> None:
    # As they run: `apply` in a worker's compiled loop, `apply_fused` in a closure.
    grad = tf.constant(gradients()[0])
    rate, step = tf.constant(0.01), tf.constant(1.0)
    parameters = tf.Variable(start())
    slots = [tf.Variable(tf.zeros([7])) for _ in range(optimizer.num_slots)]

    @tf.function(autograph=False)
    def fused() -> None:
        optimizer.apply_fused(parameters, slots, grad, rate, step)

    @tf.function(autograph=False)
    def pure(vector: tf.Tensor) -> tf.Tensor:
        zeros = [tf.zeros([7])] * optimizer.num_slots
        return optimizer.apply(vector, zeros, grad, rate, step)[0]

    fused()
    np.testing.assert_allclose(parameters, pure(tf.constant(start())), rtol=0, atol=1e-6)
    assert (parameters.numpy() != start()).any()


@pytest.mark.parametrize("optimizer", [case.values[0] for case in CASES], ids=lambda each: "")
def test_zero_gradient_at_the_start_gives_no_nan(optimizer: optimizers.Optimizer) -> None:
    zeros = [tf.zeros([7])] * optimizer.num_slots
    parameters, slots = optimizer.apply(
        tf.constant(start()), zeros, tf.zeros([7]), tf.constant(0.1), tf.constant(1.0)
    )
    assert parameters.numpy().tolist() == start().tolist()
    assert not any(slot.numpy().any() for slot in slots)


def test_build_takes_the_configured_optimizer() -> None:
    def build(name: str) -> optimizers.Optimizer:
        return optimizers.build(Learning(optimizer=name, optimizer_epsilon=0.25, momentum=0.5))

    assert build("adam") == optimizers.Adam(0.25)
    assert build("rmsprop") == optimizers.RMSProp(0.25)
    assert build("adagrad") == optimizers.AdaGrad(0.25)
    assert build("sgd") == optimizers.Momentum(0.5)
    assert [build(name).num_slots for name in ("adam", "rmsprop", "adagrad", "sgd")] == [2, 2, 1, 1]
