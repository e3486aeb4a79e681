"""Images and quantiles of all minibatches at once fit into no cache: none are made."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_dqn import networks
from ps_dqn.config import Config, Learning, Network, ParameterServer, Value
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.learning import loss_scaling, minibatches
from ps_dqn.learning.learner import local_optimizer_slots, make_learner
from ps_dqn.replay.batch import zero_batch

SHAPES = {"nature": (4, 36, 36), "minatar": (10, 10, 4), "mlp": (4,)}


@pytest.mark.parametrize(
    ("name", "distribution", "at_once"),
    [("nature", "none", 1), ("minatar", "none", 1), ("mlp", "iqn", 1), ("mlp", "none", 3)],
)
def test_what_is_large_is_found_for_one_minibatch_at_a_time(
    name: str, distribution: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dtype = np.dtype(np.float32 if name == "mlp" else np.uint8)
    environment = EnvironmentSpec(SHAPES[name], dtype, 2, None)
    config = dataclasses.replace(
        Config(),
        network=Network(network=name, hidden_sizes=(8,)),
        value=Value(value_distribution=distribution),
        parameter_server=ParameterServer(local_updates=3),
        learning=Learning(batch_size=2),
    )
    network = networks.build(config.network, config.value, environment, 0)
    prepare, sizes = minibatches.TransitionSource.prepare, []

    def measured(self: Any, parameters: Any, batch: Any, seed: Any) -> Any:
        sizes.append(batch.actions.shape[0])
        return prepare(self, parameters, batch, seed)

    monkeypatch.setattr(minibatches.TransitionSource, "prepare", measured)
    vector = tf.constant(network.initial)
    slots = tf.zeros([local_optimizer_slots(config), network.num_parameters])
    batch = tf.nest.map_structure(tf.constant, zero_batch(config, environment))
    make_learner(config, network).get_concrete_function(
        *(vector, vector, slots, 0.0, 0.1, 0.1, tf.constant([1, 2]), batch, loss_scaling.NONE)
    )
    assert sizes == [at_once]
