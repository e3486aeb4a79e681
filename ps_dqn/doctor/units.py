"""Hidden units that hardly ever answer: of a checkpoint's network, as it plays.

A unit is dormant where its mean activation, by size, is at most 0.025 of what its layer's units
have in the mean (Sokar et al. 2023, arXiv:2302.12902). Such a unit neither says nor learns much.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ps_dqn import environments, networks
from ps_dqn.config import Config
from ps_dqn.run.checkpoints import Checkpoint
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Evaluation

TAU = 0.025
# What is looked at: episodes side by side, so many steps of each, half of them at random.
EPISODES, STEPS, EPSILON, _SEED = 8, 64, 0.5, 1


def dormant_share(config: Config, checkpoint: Checkpoint) -> float:
    """The share of the hidden units that are dormant; NaN where the network has none.

    Args:
        config: of the run.
        checkpoint: one of its own.
    """
    environment = environments.describe(config.environment)
    network = networks.build(config.network, config.value, environment, config.run.seed)
    explores = dataclasses.replace(config.run, eval_epsilon=EPSILON)
    evaluation = Evaluation(dataclasses.replace(config, run=explores), EPISODES, goes_on=True)
    parameters = tf.constant(checkpoint.state.online)
    activity = _Activity()
    playing = evaluation.begin(_SEED)
    for _ in range(STEPS):
        if not playing.episodes:
            break
        observations, state, masks = map(tf.constant, playing[:3])
        with activity.of(network.as_keras()):
            acted = network.act(parameters, observations, state, masks=masks)
        playing = evaluation.step(Acted(*(each.numpy() for each in acted)))
    evaluation.end()
    return activity.dormant_share()


class _Activity:
    """Sums of what hidden units answer, by layer."""

    def __init__(self) -> None:
        self._sums: dict[int, np.ndarray] = {}

    @contextlib.contextmanager
    def of(self, model: keras.Model) -> Iterator[None]:
        """Listens to the activations of a model's layers while it is called."""
        layers = [
            layer
            for layer in model._flatten_layers(include_self=False, recursive=True)
            if getattr(layer, "activation", keras.activations.linear)
            is not keras.activations.linear
        ]
        kept = [layer.activation for layer in layers]
        for number, layer in enumerate(layers):
            layer.activation = self._listening(number, layer.activation)
        try:
            yield
        finally:
            for layer, activation in zip(layers, kept, strict=True):
                layer.activation = activation

    def dormant_share(self) -> float:
        """Of all units."""
        if not self._sums:
            return float("nan")
        scores = [sums / (sums.mean() or 1.0) for sums in self._sums.values()]
        return float(np.mean(np.concatenate(scores) <= TAU))

    def _listening(self, number: int, activation: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def listen(x: Any) -> Any:
            y = activation(x)
            # Of an image, a channel is a unit.
            size = np.abs(np.asarray(y)).reshape(-1, y.shape[-1]).mean(axis=0)
            self._sums[number] = self._sums.get(number, 0.0) + size
            return y

        return listen
