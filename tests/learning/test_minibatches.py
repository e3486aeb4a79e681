"""Transitions become losses, and what holds of every kind of minibatch."""

from typing import Any

import numpy as np
import pytest
from support.four_numbers import (
    MODES,
    ONLINE,
    RECURRENT,
    SEED,
    SMALL,
    STATE,
    TARGET,
    bonus,
    close,
    learn,
    next_value,
    one,
    random_sequences,
    random_transitions,
    single,
    slopes,
    squared_source,
    tensors,
)

from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.learning.minibatches import make_source
from ps_dqn.learning.passes import Bootstrap
from ps_dqn.replay.batch import Sequences, zero_batch


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("index", [0, 2])
def test_transitions_against_a_reference(mode: str, index: int) -> None:
    batch = random_transitions(np.random.default_rng(1))
    found, gradient = learn(squared_source(**MODES[mode]), batch, index)

    targets, flips = [], 0
    minibatch = one(batch, index)
    for x, a, r, d, y, *_ in zip(*minibatch, strict=True):
        after, choosing = (w[1] * y[0] * w[2:] for w in (TARGET, ONLINE))
        flips += after.argmax() != choosing.argmax()
        earned = bonus(TARGET[1] * x[0] * TARGET[2:], a) if mode == "munchausen" else 0.0
        targets.append(r + earned + d * next_value(mode, after, choosing))
    assert flips, "Double makes a difference"

    def q_values(w: np.ndarray) -> np.ndarray:
        rows = zip(minibatch.observations[:, 0], minibatch.actions, strict=True)
        return np.array([w[1] * x * w[2 + a] for x, a in rows])

    def loss(w: np.ndarray) -> float:
        return float(np.mean(minibatch.weights * (np.array(targets) - q_values(w)) ** 2 / 2))

    assert float(found.loss) == close(loss(ONLINE))
    assert found.errors.numpy() == close(np.abs(targets - q_values(ONLINE)))
    assert float(found.q_value) == close(q_values(ONLINE).mean())
    # The online network chooses, but no gradient comes through what it says of the next states.
    assert gradient == close(slopes(loss, ONLINE))
    assert np.abs(gradient[1:]).min() > 1e-3


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
    source = squared_source(STATE if state else 0, **state, **MODES["munchausen"])
    together = source.prepare(single(TARGET), tensors(batch), SEED)
    assert isinstance(together, Bootstrap)
    for index in range(len(batch.actions)):
        part = type(batch)(*(array[index : index + 1] for array in batch))
        alone = source.prepare(single(TARGET), tensors(part), SEED)
        for whole, expected in zip(together, alone, strict=True):
            assert whole[index].numpy() == close(expected[0].numpy())
