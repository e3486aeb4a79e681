"""Batches become losses: against slow references in NumPy, on a recurrent network of four numbers.

The network's parameters are how much of its memory it keeps, what an observation adds to it, and
the weights of two actions: h ← keep·h + add·x, Q(a) = weight_a·h. Without memory h = add·x.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.learning.minibatches import MinibatchLoss, make_source
from ps_dqn.learning.objectives import Bootstrap
from ps_dqn.replay.batch import Sequences, Transitions, zero_batch

SEED = tf.constant([5, 6])
# keep, add, weight of action 0, weight of action 1
ONLINE = np.array([0.7, 0.9, 1.2, -0.8])
TARGET = np.array([0.5, 1.1, -0.6, 0.9])
SMALL = {"num_envs_per_worker": 1, "update_period": 1, "double_dqn": False}


class Memory:
    """The network, as far as sources use it."""

    def __init__(self, state_size: int):
        self.state_size = state_size

    def features(self, parameters: Any, observations: Any, noise: Any = None) -> tf.Tensor:
        return parameters[1] * observations  # [B, 1]

    def unroll(
        self, parameters: Any, observations: Any, starts: Any, state: Any, noise: Any = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        rows = []
        for i in range(observations.shape[1]):
            state = tf.where(starts[:, i, None], 0.0, state)
            state = parameters[0] * state + parameters[1] * observations[:, i]
            rows.append(state)
        return tf.stack(rows, axis=1), state

    def outputs(self, parameters: Any, features: Any, noise: Any = None) -> tf.Tensor:
        return features * parameters[2:]  # [K, 2]

    def q_values(self, outputs: Any) -> tf.Tensor:
        return outputs


def tensors(batch: Any) -> Any:
    return type(batch)(*map(tf.constant, batch))


def one(batch: Any, index: int) -> Any:
    """One minibatch of a batch."""
    return type(batch)(*(array[index] for array in batch))


def single(vector: np.ndarray) -> tf.Tensor:
    return tf.constant(vector, tf.float32)


def learn(
    source: Any, batch: Any, index: int, online: np.ndarray = ONLINE, target: np.ndarray = TARGET
) -> tuple[MinibatchLoss, np.ndarray]:
    """The loss of one minibatch, and its gradient."""
    prepared = source.prepare(single(target), tensors(batch), SEED)
    mine = tf.nest.map_structure(lambda each: each[index], prepared)
    parameters = single(online)
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        found = source.loss(parameters, source.minibatch(tensors(batch), index), mine, SEED)
    return found, tape.gradient(found.loss, parameters).numpy()


def slopes(function: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    """The gradient by central differences, in double precision."""
    steps = np.eye(len(at)) * 1e-5
    return np.array([(function(at + step) - function(at - step)) / 2e-5 for step in steps])


def close(values: Any) -> Any:
    return pytest.approx(np.asarray(values), rel=1e-4, abs=1e-5)


def random_transitions(rng: np.random.Generator) -> Transitions:
    """Three minibatches of four transitions."""
    return Transitions(
        rng.normal(size=(3, 4, 1)).astype(np.float32),
        rng.integers(2, size=(3, 4)).astype(np.int32),
        rng.normal(size=(3, 4)).astype(np.float32),
        np.where(rng.random((3, 4)) < 0.25, 0, 0.9).astype(np.float32),
        rng.normal(size=(3, 4, 1)).astype(np.float32),
        rng.uniform(0.2, 1, (3, 4)).astype(np.float32),
    )


def squared_source(state_size: int = 0, **values: Any) -> Any:
    options = SMALL | {"loss": "squared", "batch_size": 4, **values}
    return make_source(Config.from_values(options), Memory(state_size))  # type: ignore[arg-type]


def bonus(q_values: np.ndarray, action: int) -> float:
    logits = q_values / 0.3
    return 0.9 * max(0.3 * (logits[action] - np.log(np.exp(logits).sum())), -1.0)


def next_value(mode: str, target: np.ndarray, online: np.ndarray) -> float:
    """The value of the bootstrap state from both networks' values there."""
    if mode == "munchausen":
        return 0.3 * np.log(np.exp(target / 0.3).sum())
    return target[np.argmax(online)] if mode == "double" else target.max()


MODES: dict[str, dict[str, Any]] = {
    "dqn": {},
    "double": {"double_dqn": True},
    "munchausen": {"munchausen": True, "munchausen_temperature": 0.3},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("index", [0, 2])
def test_transitions_against_a_reference(mode: str, index: int) -> None:
    batch = random_transitions(np.random.default_rng(1))
    found, gradient = learn(squared_source(**MODES[mode]), batch, index)

    targets, flips = [], 0
    mine = one(batch, index)
    for x, a, r, d, y, _ in zip(*mine, strict=True):
        after, choosing = (w[1] * y[0] * w[2:] for w in (TARGET, ONLINE))
        flips += after.argmax() != choosing.argmax()
        earned = bonus(TARGET[1] * x[0] * TARGET[2:], a) if mode == "munchausen" else 0.0
        targets.append(r + earned + d * next_value(mode, after, choosing))
    assert flips, "Double makes a difference"

    def q_values(w: np.ndarray) -> np.ndarray:
        rows = zip(mine.observations[:, 0], mine.actions, strict=True)
        return np.array([w[1] * x * w[2 + a] for x, a in rows])

    def loss(w: np.ndarray) -> float:
        return float(np.mean(mine.weights * (np.array(targets) - q_values(w)) ** 2 / 2))

    assert float(found.loss) == close(loss(ONLINE))
    assert found.errors.numpy() == close(np.abs(targets - q_values(ONLINE)))
    assert float(found.q_value) == close(q_values(ONLINE).mean())
    # The online network chooses, but no gradient comes through what it says of the next states.
    assert gradient == close(slopes(loss, ONLINE))
    assert np.abs(gradient[1:]).min() > 1e-3


def random_sequences(rng: np.random.Generator) -> Sequences:
    """Two minibatches of three sequences; episodes begin anywhere, one row is no transition."""
    burn_in, steps, n_step = SIZES.values()
    shape, rows = (2, 3), burn_in + steps + n_step
    lengths = rng.integers(1, n_step + 1, (*shape, steps))
    weights = rng.uniform(0.2, 1, (*shape, steps))
    weights[:, 1, 1] = 0
    lengths[:, 1, 1] = 0
    return Sequences(
        rng.normal(size=(*shape, rows, 1)).astype(np.float32),
        rng.random((*shape, rows)) < 0.2,
        rng.normal(size=(*shape, 1)).astype(np.float32),
        rng.integers(2, size=(*shape, steps)).astype(np.int32),
        rng.normal(size=(*shape, steps)).astype(np.float32),
        np.where(rng.random((*shape, steps)) < 0.25, 0, 0.9).astype(np.float32),
        (burn_in + np.arange(steps) + lengths).astype(np.int32),
        weights.astype(np.float32),
    )


SIZES = {"burn_in": 3, "sequence_length": 4, "n_step": 2}
RECURRENT = SIZES | {"recurrent_size": 1, "batch_size": 3, "sequence_period": 2}


def memories(w: np.ndarray, frozen: np.ndarray, batch: Sequences, item: int) -> list[float]:
    """What the network holds after each row of one sequence; `frozen` serves the burn-in."""
    h, held = float(batch.states[item, 0]), []
    for row, (x, begins) in enumerate(
        zip(batch.observations[item], batch.starts[item], strict=True)
    ):
        keep, add = (frozen if row < SIZES["burn_in"] else w)[:2]
        h = keep * (0.0 if begins else h) + add * float(x[0])
        held.append(h)
    return held


def reference_errors(w: np.ndarray, batch: Sequences, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Target less value, [3, 4], and values, of sequences; the targets are ONLINE's."""
    errors, values = np.zeros((2, 3, 4))
    for item in range(3):
        held = memories(w, ONLINE, batch, item)
        still, other = (memories(each, each, batch, item) for each in (ONLINE, TARGET))
        for t in range(4):
            row, end = SIZES["burn_in"] + t, batch.bootstraps[item, t]
            action = batch.actions[item, t]
            after = other[end] * TARGET[2:]
            target = batch.discounts[item, t] * next_value(mode, after, still[end] * ONLINE[2:])
            target += batch.returns[item, t]
            if mode == "munchausen":
                target += bonus(other[row] * TARGET[2:], action)
            values[item, t] = held[row] * w[2 + action]
            errors[item, t] = target - values[item, t]
    return errors, values


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("index", [0, 1])
def test_sequences_against_a_reference(mode: str, index: int) -> None:
    batch = random_sequences(np.random.default_rng(7))
    assert batch.starts[..., :3].any(), "within the burn-in"
    assert batch.starts[..., 4:].any()
    found, gradient = learn(squared_source(1, **RECURRENT, **MODES[mode]), batch, index)
    mine = one(batch, index)

    def loss(w: np.ndarray) -> float:
        return float(np.mean(mine.weights * reference_errors(w, mine, mode)[0] ** 2 / 2))

    errors, values = reference_errors(ONLINE, mine, mode)
    assert float(found.loss) == close(loss(ONLINE))
    assert float(found.q_value) == close(values.mean())
    # The burn-in moves no parameters, nor does what the online network says of bootstrap states.
    assert gradient == close(slopes(loss, ONLINE))
    assert np.abs(gradient).min() > 1e-3
    sizes = [np.abs(row[w > 0]) for row, w in zip(errors, mine.weights, strict=True)]
    assert list(map(len, sizes)) == [4, 3, 4], "steps of weight 0 do not count"
    assert found.errors.numpy() == close([0.9 * each.max() + 0.1 * each.mean() for each in sizes])


def changed(batch: Any, name: str, places: Any, value: Any) -> Any:
    array = np.array(getattr(batch, name))
    array[places] = value
    return batch._replace(**{name: array})


def test_the_stored_state_and_the_burn_in_matter_until_an_episode_begins() -> None:
    batch = random_sequences(np.random.default_rng(7))
    batch = batch._replace(starts=np.zeros_like(batch.starts))
    source = squared_source(1, **RECURRENT)
    loss, gradient = learn(source, batch, 0)
    for name, places in (("states", (0, 0, 0)), ("observations", (0, 0, 1, 0))):
        other_loss, other_gradient = learn(source, changed(batch, name, places, 3.0), 0)
        assert abs(float(other_loss.loss - loss.loss)) > 1e-3
        assert np.abs(other_gradient - gradient).max() > 1e-3
    # Row 2 is the burn-in's last, row 3 the first that is learned from.
    for row in (2, 3):
        begun = changed(batch, "starts", (slice(None), slice(None), row), True)
        loss, gradient = learn(source, begun, 0)
        for name, places in (("states", (0, 0, 0)), ("observations", (0, 0, 1, 0))):
            other_loss, other_gradient = learn(source, changed(begun, name, places, 3.0), 0)
            assert float(other_loss.loss) == float(loss.loss)
            assert (other_gradient == gradient).all()


def test_a_burn_in_is_a_stored_state_found_by_the_same_parameters() -> None:
    batch = random_sequences(np.random.default_rng(7))
    source = squared_source(1, **RECURRENT)
    found, gradient = learn(source, batch, 1, target=ONLINE)
    held = [memories(ONLINE, ONLINE, one(batch, 1), item)[2] for item in range(3)]
    later = batch._replace(
        observations=batch.observations[:, :, 3:],
        starts=batch.starts[:, :, 3:],
        states=np.array([[[0.0]] * 3, [[h] for h in held]], np.float32),
        bootstraps=batch.bootstraps - 3,
    )
    without = squared_source(1, **RECURRENT | {"burn_in": 0})
    expected, expected_gradient = learn(without, later, 1, target=ONLINE)
    assert float(found.loss) == close(float(expected.loss))
    assert gradient == close(expected_gradient)


def test_steps_of_weight_zero_leave_neither_gradient_nor_priority() -> None:
    batch = random_sequences(np.random.default_rng(7))
    source = squared_source(1, **RECURRENT)
    found, gradient = learn(source, batch, 0)
    other = changed(batch, "returns", (0, 1, 1), 50.0)
    other = changed(other, "actions", (0, 1, 1), 1 - batch.actions[0, 1, 1])
    same, same_gradient = learn(source, other, 0)
    assert (same_gradient == gradient).all()
    assert (same.errors.numpy() == found.errors.numpy()).all()
    # The same change counts where there is a weight.
    counted, _ = learn(source, changed(batch, "returns", (0, 1, 2), 50.0), 0)
    assert counted.errors[1] > 40
    nothing = changed(batch, "weights", 0, 0.0)
    found, gradient = learn(source, nothing, 0)
    assert found.errors.numpy().tolist() == [0.0] * 3
    assert gradient.tolist() == [0.0] * 4


ENVIRONMENT = EnvironmentSpec((3,), np.dtype(np.float32), 3, None)
KINDS: dict[str, dict[str, Any]] = {
    "none": {},
    "double": {"double_dqn": True},
    "c51": {"value_distribution": "c51", "num_atoms": 5},
    "qr_dqn": {"value_distribution": "qr_dqn", "num_quantiles": 3},
    "iqn": {"value_distribution": "iqn", "num_quantiles": 3, "num_target_quantiles": 2},
    "munchausen": {"munchausen": True},
    "noisy": {"noisy": True},
}


def random_batch(config: Config) -> Any:
    """A batch of two minibatches that a real network can learn from."""
    rng = np.random.default_rng(8)
    zeros = zero_batch(config, ENVIRONMENT)
    values = {
        name: rng.normal(size=array.shape).astype(np.float32)
        for name, array in zeros._asdict().items()
        if array.dtype == np.float32 and name != "discounts"
    }
    batch = zeros._replace(**values, discounts=np.full_like(zeros.discounts, 0.9))
    if isinstance(batch, Sequences):
        last = config.replay.burn_in + config.replay.sequence_length
        batch = batch._replace(bootstraps=np.full_like(batch.bootstraps, last))
    return batch._replace(weights=np.ones_like(batch.weights))


@pytest.mark.parametrize("is_recurrent", [False, True], ids=["feedforward", "recurrent"])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_scale_what_each_item_adds_to_the_gradient(kind: str, is_recurrent: bool) -> None:
    sizes = {"hidden_sizes": (4,), "local_updates": 2, "batch_size": 3}
    state = {"recurrent_size": 2, "burn_in": 1, "sequence_length": 2} if is_recurrent else {}
    config = Config.from_values({**SMALL, **sizes, **state, **KINDS[kind]})
    network = networks.build(config.network, config.value, ENVIRONMENT, seed=1)
    source, batch = make_source(config, network), random_batch(config)
    target = network.initial * 1.1

    def gradient(weights: list[float]) -> np.ndarray:
        shaped = np.reshape(weights, (3, *[1] * (batch.weights.ndim - 2)))
        weighted = batch._replace(weights=(batch.weights * shaped).astype(np.float32))
        return learn(source, weighted, 1, network.initial, target)[1]

    alone = [gradient(row) for row in np.eye(3).tolist()]
    assert all(np.linalg.norm(each) > 1e-3 for each in alone)
    assert not gradient([0.0, 0.0, 0.0]).any()
    expected = 0.5 * alone[0] + 0.25 * alone[1] + 2.0 * alone[2]
    np.testing.assert_allclose(gradient([0.5, 0.25, 2.0]), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("state", [{}, RECURRENT], ids=["feedforward", "recurrent"])
def test_all_minibatches_are_prepared_as_each_alone(state: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    batch = random_sequences(rng) if state else random_transitions(rng)
    source = squared_source(len(state) and 1, **state, **MODES["munchausen"])
    together = source.prepare(single(TARGET), tensors(batch), SEED)
    assert isinstance(together, Bootstrap)
    for index in range(len(batch.actions)):
        part = type(batch)(*(array[index : index + 1] for array in batch))
        alone = source.prepare(single(TARGET), tensors(part), SEED)
        for whole, expected in zip(together, alone, strict=True):
            assert whole[index].numpy() == close(expected[0].numpy())
