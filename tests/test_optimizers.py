"""Every optimizer, of arrays and of tensors, against its formula in float64, over several steps."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from ps_dqn import optimizers
from ps_dqn.config import Learning, ParameterServer
from ps_dqn.parameter_server.rule import OUTER

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


def adamw(x: np.ndarray, grads: list[np.ndarray]) -> list[np.ndarray]:
    first, second, path = np.zeros(7), np.zeros(7), []
    for t, (g, rate) in enumerate(zip(grads, RATES, strict=True), start=1):
        first = 0.9 * first + 0.1 * g
        second = 0.999 * second + 0.001 * g * g
        rate_t = rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        x = x - rate_t * first / (np.sqrt(second) + 1e-4) - rate * 0.2 * x
        path.append(x)
    return path


def radam(x: np.ndarray, grads: list[np.ndarray]) -> list[np.ndarray]:
    first, second, path = np.zeros(7), np.zeros(7), []
    longest = 2 / (1 - 0.999) - 1
    for t, (g, rate) in enumerate(zip(grads, RATES, strict=True), start=1):
        first = 0.9 * first + 0.1 * g
        second = 0.999 * second + 0.001 * g * g
        mean = first / (1 - 0.9**t)
        length = longest - 2 * t * 0.999**t / (1 - 0.999**t)
        if length > 4:
            share = (length - 4) * (length - 2) * longest
            share /= (longest - 4) * (longest - 2) * length
            adapted = np.sqrt(1 - 0.999**t) / (np.sqrt(second) + 1e-4)
            x = x - rate * np.sqrt(share) * adapted * mean
        else:
            x = x - rate * mean
        path.append(x)
    return path


def rmsprop(x: np.ndarray, grads: list[np.ndarray]) -> list[np.ndarray]:
    square, path = np.zeros(7), []
    for g, rate in zip(grads, RATES, strict=True):
        square = 0.95 * square + 0.05 * g * g
        x = x - rate * g / np.sqrt(square + 1e-4)
        path.append(x)
    return path


def rmsprop_centered(x: np.ndarray, grads: list[np.ndarray]) -> list[np.ndarray]:
    square, mean, path = np.zeros(7), np.zeros(7), []
    for g, rate in zip(grads, RATES, strict=True):
        square, mean = 0.95 * square + 0.05 * g * g, 0.95 * mean + 0.05 * g
        x = x - rate * g / np.sqrt(square - mean * mean + 1e-4)
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
    pytest.param(optimizers.AdamW(1e-4, weight_decay=0.2), adamw, id="adamw"),
    pytest.param(optimizers.RAdam(1e-4), radam, id="radam"),
    pytest.param(optimizers.RMSProp(1e-4, rho=0.95), rmsprop, id="rmsprop"),
    pytest.param(
        optimizers.CenteredRMSProp(1e-4, rho=0.95), rmsprop_centered, id="rmsprop_centered"
    ),
    pytest.param(optimizers.AdaGrad(1e-4), adagrad, id="adagrad"),
    pytest.param(optimizers.Momentum(0.8), momentum, id="momentum"),
    pytest.param(optimizers.Momentum(0.8, nesterov=True), nesterov, id="nesterov"),
]


ARRAYS = {
    # What the parameter servers give `apply`, and what the workers' loops do.
    "numpy": (np.asarray, float),
    "tensors": (tf.constant, lambda number: tf.constant(number, tf.float32)),
}
each_array = pytest.mark.parametrize("array", ARRAYS)


def walk(
    optimizer: optimizers.Optimizer, array: str
) -> tuple[list[np.ndarray], list[list[np.ndarray]]]:
    """Parameters and slots after each step of `apply`."""
    vector, scalar = ARRAYS[array]
    parameters = vector(start())
    slots = [vector(np.zeros(7, np.float32)) for _ in range(optimizer.num_slots)]
    path, slot_path = [], []
    for i, (grad, rate) in enumerate(zip(gradients(), RATES, strict=True)):
        parameters, slots = optimizer.apply(
            parameters, slots, vector(grad), scalar(rate), scalar(i + 1)
        )
        path.append(np.asarray(parameters))
        slot_path.append([np.asarray(slot) for slot in slots])
    return path, slot_path


@each_array
def test_gradients_that_hardly_change_have_no_variance_below_zero(array: str) -> None:
    """Where rounding says so, a root of it would be none, and so would be all parameters."""
    vector, scalar = ARRAYS[array]
    optimizer = optimizers.CenteredRMSProp(1e-5, rho=0.95)
    parameters, slots = vector(np.zeros(64, np.float32)), [vector(np.zeros(64, np.float32))] * 2
    gradient = vector(np.linspace(8, 12, 64, dtype=np.float32))
    for i in range(400):
        given = gradient, scalar(1e-4), scalar(i + 1)
        parameters, slots = optimizer.apply(parameters, slots, *given)
    assert np.isfinite(np.asarray(parameters)).all()
    assert (np.asarray(parameters) < 0).all()


@each_array
@pytest.mark.parametrize(("optimizer", "formula"), CASES)
def test_apply_is_the_formula(
    optimizer: optimizers.Optimizer, formula: Formula, array: str
) -> None:
    path, _ = walk(optimizer, array)
    expected = formula(start().astype(np.float64), list(gradients()))
    for got, wanted in zip(path, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)
    # It did move: agreement is not that of two things standing still.
    moved = np.abs(path[-1] - start())
    assert (moved[[0, 1, 3, 4, 6]] > 1e-4).all()
    assert (moved[5] == 0) == (formula is not adamw), "no gradient, no step but a decay"


@pytest.mark.parametrize(("optimizer", "formula"), CASES)
def test_arrays_and_tensors_have_the_same_slots(
    optimizer: optimizers.Optimizer, formula: Formula
) -> None:
    by_array, by_tensor = walk(optimizer, "numpy")[1], walk(optimizer, "tensors")[1]
    for ours, theirs in zip(by_array, by_tensor, strict=True):
        assert len(ours) == len(theirs) == optimizer.num_slots
        for slot, wanted in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(slot, wanted, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("optimizer", "formula"), CASES)
def test_apply_gives_arrays_for_arrays_and_leaves_its_own_alone(
    optimizer: optimizers.Optimizer, formula: Formula
) -> None:
    # float64 would be twice the memory and another arithmetic than that of the workers.
    parameters, gradient = start(), gradients()[0]
    slots = [np.ones(7, np.float32) for _ in range(optimizer.num_slots)]
    found, kept = optimizer.apply(parameters, slots, gradient, 0.01, 3.0)
    for each in (found, *kept):
        assert isinstance(each, np.ndarray)
        assert each.dtype == np.float32
    assert (found != start()).any()
    assert parameters.tolist() == start().tolist()
    assert gradient.tolist() == gradients()[0].tolist()
    assert all(slot.tolist() == [1.0] * 7 for slot in slots)


@pytest.mark.parametrize(("optimizer", "formula"), CASES)
def test_a_traced_step_is_the_same(optimizer: optimizers.Optimizer, formula: Formula) -> None:
    # As it runs on the workers, where the number of steps is a tensor too.
    @tf.function(autograph=False)
    def traced(vector: tf.Tensor, grad: tf.Tensor, rate: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        slots = [tf.fill([7], 0.5)] * optimizer.num_slots
        return optimizer.apply(vector, slots, grad, rate, step)[0]

    got = traced(
        tf.constant(start()), tf.constant(gradients()[0]), tf.constant(0.01), tf.constant(4.0)
    )
    slots = [np.full(7, 0.5, np.float32)] * optimizer.num_slots
    wanted, _ = optimizer.apply(start(), slots, gradients()[0], 0.01, 4.0)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)
    assert (got.numpy() != start()).any()


@each_array
@pytest.mark.parametrize(("optimizer", "formula"), CASES)
def test_zero_gradient_at_the_start_gives_no_nan(
    optimizer: optimizers.Optimizer, formula: Formula, array: str
) -> None:
    vector, scalar = ARRAYS[array]
    zeros = vector(np.zeros(7, np.float32))
    slots = [zeros] * optimizer.num_slots
    parameters, slots = optimizer.apply(vector(start()), slots, zeros, scalar(0.1), scalar(1.0))
    kept = start() * np.float32(1 - 0.1 * getattr(optimizer, "weight_decay", 0.0))
    assert np.asarray(parameters).tolist() == pytest.approx(kept.tolist(), rel=1e-7)
    assert not any(np.asarray(slot).any() for slot in slots)


def test_build_takes_the_configured_optimizer() -> None:
    def build(name: str) -> optimizers.Optimizer:
        values = {"optimizer_epsilon": 0.25, "momentum": 0.5, "weight_decay": 0.125}
        return optimizers.build(Learning(optimizer=name, **values))

    assert build("adam") == optimizers.Adam(0.25)
    assert build("adamw") == optimizers.AdamW(0.25, weight_decay=0.125)
    assert build("radam") == optimizers.RAdam(0.25)
    assert build("rmsprop") == optimizers.RMSProp(0.25, rho=0.95)
    assert build("rmsprop_centered") == optimizers.CenteredRMSProp(0.25, rho=0.95)
    assert build("adagrad") == optimizers.AdaGrad(0.25)
    assert build("sgd") == optimizers.Momentum(0.5)
    assert {name: build(name).num_slots for name in optimizers.OPTIMIZERS} == {
        "adam": 2, "adamw": 2, "radam": 2, "rmsprop": 1, "rmsprop_centered": 2, "adagrad": 1,
        "sgd": 1,
    }  # fmt: skip


def test_every_choice_of_the_flags_is_an_optimizer() -> None:
    def choices(topic: type, name: str) -> set[str]:
        [field] = [each for each in dataclasses.fields(topic) if each.name == name]
        return set(field.metadata["choices"])

    assert set(optimizers.OPTIMIZERS) == choices(Learning, "optimizer")
    assert set(OUTER) == choices(ParameterServer, "outer_optimizer")
