"""Random numbers of the update loop: each use has its own, and the seed decides all."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support.small_learner import DISTRIBUTIONS, IQN, NOISY, RECURRENT, SEED, Inputs, inputs, learn

from ps_dqn.seeds import Purpose, derive


def repeated(given: Inputs) -> Inputs:
    """The same minibatch for every update, and nothing to bootstrap from."""
    same = (np.repeat(array[:1], len(array), axis=0) for array in given.batch)
    batch = type(given.batch)(*same)._replace(discounts=np.zeros_like(given.batch.discounts))
    return dataclasses.replace(given, batch=batch)


@pytest.mark.parametrize(
    "memory",
    [{}, pytest.param(RECURRENT, marks=pytest.mark.slow)],
    ids=["feedforward", "recurrent"],
)
@pytest.mark.parametrize("options", [NOISY, IQN], ids=["noisy", "iqn"])
def test_every_update_has_noise_of_its_own_which_the_seed_decides(
    options: dict[str, Any], memory: dict[str, Any]
) -> None:
    # Nothing is learned, so what differs between updates is noise.
    given = repeated(inputs(**options, **memory))
    first, again = (learn(given, rate=0.0).errors for _ in range(2))
    other = learn(given, SEED + 1, rate=0.0).errors
    assert (first == again).all()
    rows = [*first, *other]
    for i, row in enumerate(rows):
        assert all(np.abs(row - earlier).max() > 1e-3 for earlier in rows[:i])


def test_without_noise_the_seed_has_no_influence() -> None:
    given = repeated(inputs(**DISTRIBUTIONS["qr_dqn"]))
    first, other = learn(given, rate=0.0).errors, learn(given, SEED + 1, rate=0.0).errors
    assert (first == other).all()
    assert (first == first[:1]).all()


@pytest.fixture
def eagerly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Functions run as Python, so that a test sees the numbers they work with."""

    def while_loop(condition: Any, body: Any, values: Any, **_: Any) -> Any:
        while condition(*values):
            values = body(*values)
        return values

    monkeypatch.setattr(tf, "while_loop", while_loop)
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


class Listening:
    """A network that remembers the seeds of its noise."""

    def __init__(self, network: Any):
        self._network = network
        self.heads: list[tuple[int, ...]] = []
        self.encoders: list[tuple[int, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    def features(self, parameters: Any, observations: Any, noise: tf.Tensor) -> Any:
        self.encoders.append(tuple(noise.numpy().tolist()))
        return self._network.features(parameters, observations, noise)

    def unroll(self, parameters: Any, *inputs: Any) -> Any:
        self.encoders.append(tuple(inputs[-1].numpy().tolist()))
        return self._network.unroll(parameters, *inputs)

    def outputs(self, parameters: Any, features: Any, noise: tf.Tensor, *taus: Any) -> Any:
        self.heads.append(tuple(noise.numpy().tolist()))
        return self._network.outputs(parameters, features, noise, *taus)


def listen(mode: dict[str, Any]) -> Listening:
    given = inputs(**mode, local_updates=6)
    given.network = Listening(given.network)
    learn(given)
    return given.network


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    ("mode", "networks"),
    [
        ({"double_dqn": True}, 3),  # target, online and what chooses
        ({"double_dqn": False}, 2),
        ({"target_update_period": 0}, 2),
        pytest.param({"double_dqn": True, **RECURRENT}, 3, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_every_network_of_every_update_has_noise_of_its_own(
    mode: dict[str, Any], networks: int
) -> None:
    network = listen({**NOISY, **mode})
    used = [*network.heads, *network.encoders]
    assert len(network.heads) == networks * 6
    parts = 2 if "recurrent_size" in mode else 1  # the burn-in, with the same noise
    assert len(network.encoders) == networks * 6 * parts
    assert len(set(used)) == networks * 6 * 2
    # Nor is any that of acting, which counts its steps.
    steps = Purpose.ACTING + tf.range(10_000)[:, tf.newaxis]
    acting = {tuple(seed) for seed in derive(SEED[np.newaxis], steps).numpy().tolist()}
    assert not acting & set(used)


@pytest.mark.usefixtures("eagerly")
def test_without_noise_the_target_is_asked_once_for_all_updates() -> None:
    network = listen({"double_dqn": True})
    assert len(network.heads) == len(network.encoders) == 1 + 2 * 6
