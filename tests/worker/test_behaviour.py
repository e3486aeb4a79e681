"""What workers act with while they learn."""

import numpy as np
import pytest
import tensorflow as tf
from support import small_networks
from support.option_values import A3C

from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.worker.graph import behaviour

SPEC = small_networks.VECTOR
OPTIONS = {"hidden_sizes": (16, 8), "value_distribution": "none", "layer_norm": False}
APEX = {"topology": "apex", "num_actors": 1, "replay": "prioritized"}
SHOWN = small_networks.observations(SPEC, 40), np.zeros((40, 0), np.float32)


def made(acting_precision: str, **values):
    config = Config.from_values({**OPTIONS, "acting_precision": acting_precision, **values})
    network = networks.build(config.network, config.value, SPEC, config.run.seed)
    return network, behaviour.make(config, SPEC, network).collecting


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({}, behaviour.InNumPy),
        ({"acting_backend": "tensorflow"}, behaviour.Same),
        ({"noisy": True}, behaviour.Same),
        ({"precision": "bfloat16"}, behaviour.Same),
        ({"recurrent_size": 4}, behaviour.Same),
        (A3C, behaviour.Same),
        ({"acting_precision": "int8"}, behaviour.Quantized),
        (APEX, behaviour.InNumPy),
        ({"topology": "seed"}, behaviour.InNumPy),
        ({"topology": "seed", "acting_backend": "tensorflow"}, behaviour.Same),
        ({**APEX, "noisy": True}, behaviour.WithValues),
    ],
    ids=str,
)
def test_dense_layers_without_noise_are_left_to_numpy(values, kind) -> None:
    _, acts = made(**{"acting_precision": "same", **values})
    assert type(acts) is kind


def test_otherwise_it_is_the_network_that_learns() -> None:
    network, acts = made("same", acting_backend="tensorflow")
    online = tf.constant(small_networks.random_vector(network))
    assert acts.weights(online) is online
    for one, other in zip(acts.act(online, *SHOWN), network.act(online, *SHOWN), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", [1, 2])
def test_in_8_bits_it_is_the_best_action_of_what_was_pulled_and_rounded(seed: int) -> None:
    network, acts = made("int8")
    online = np.random.default_rng(seed).normal(size=network.num_parameters).astype(np.float32)
    weights = acts.weights(tf.constant(online))
    # By hand: each kernel's columns and each row are multiples of a 127th of their largest.
    x = SHOWN[0].astype(np.float64)
    for layer, part in enumerate(range(0, 9, 3)):
        kernel, scales, bias = (each.numpy().astype(np.float64) for each in weights[part:][:3])
        assert np.abs(kernel).max() == 127
        largest = np.abs(x).max(axis=1, keepdims=True) / 127
        x = np.round(x / largest) @ kernel * largest * scales + bias
        x = np.maximum(x, 0) if layer < 2 else x
    found = acts.act(weights, *SHOWN)[0].numpy()
    plain = network.act(tf.constant(online), *SHOWN)[0].numpy()
    assert np.mean(found == x.argmax(axis=1)) > 0.97, "but for halves that are rounded otherwise"
    assert np.mean(found == plain) > 0.8
