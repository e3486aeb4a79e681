"""The learner against the same updates written down one by one, and what XLA compiles of it."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from support.reference_updates import reference_learn
from support.small import SMALL

from ps_dqn import environments, networks
from ps_dqn.config import Config
from ps_dqn.learning.learner import local_optimizer_slots, make_learner
from ps_dqn.replay.batch import Transitions, zero_batch

ACTIONS = 2


def learner_inputs(config: Config):
    """A network, and inputs far from zero and from each other, so that no option idles."""
    environment = environments.describe(config.environment)
    network, other = (
        networks.build(config.network, config.value, environment, seed) for seed in (1, 2)
    )
    rng = np.random.default_rng(3)
    shape = (config.parameter_server.local_updates, config.learning.batch_size)
    batch = Transitions(
        rng.normal(size=(*shape, 4)).astype(np.float32),
        rng.integers(ACTIONS, size=shape).astype(np.int32),
        rng.normal(size=shape).astype(np.float32) * 3,
        np.where(rng.random(shape) < 0.2, 0, 0.9).astype(np.float32),
        rng.normal(size=(*shape, 4)).astype(np.float32),
        *[np.ones((*shape, 0), np.bool_)] * 2,
        rng.uniform(0.2, 1, size=shape).astype(np.float32),
        np.ones((*shape, 0), np.float32),
    )
    slots_shape = (local_optimizer_slots(config), network.num_parameters)
    slots = rng.random(slots_shape).astype(np.float32) * 0.01
    return network, network.initial, other.initial, slots, batch


def learn(**options):
    config = Config.from_values({**SMALL, **options})
    network, online, target, slots, batch = learner_inputs(config)
    learner = make_learner(config, network)
    vectors = (tf.constant(each) for each in (online, target, slots))
    tensors = Transitions(*(tf.constant(array) for array in batch))
    numbers = tf.constant(7.0), tf.constant(0.01), tf.constant(0.3), tf.constant([1, 2])
    *parts, entropy, scale, growth = map(np.asarray, learner(*vectors, *numbers, tensors))
    assert entropy == 0, "a policy's alone"
    assert growth.size == 0, "of weights that are not there"
    assert scale.size == 0, "of float16 alone"
    return parts


def learn_by_reference(**options):
    config = Config.from_values({**SMALL, **options})
    network, online, target, slots, batch = learner_inputs(config)
    return reference_learn(config, network, online, target, slots, 7, 0.01, batch)


def assert_close(learned, expected):
    for part, reference in zip(learned, expected, strict=True):
        np.testing.assert_allclose(part, reference, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "adagrad", "sgd"])
def test_local_updates_are_single_updates_in_a_row(optimizer):
    options = {"local_updates": 4, "optimizer": optimizer}
    assert_close(learn(**options), learn_by_reference(**options))


# The gradient's norm is about 1 to 10 here and TD errors are about 3.
BASE = {
    "local_updates": 1,
    "batch_size": 32,
    "max_grad_norm": 0.0,
    "loss": "huber",
    "huber_delta": 1.0,
}


@pytest.mark.parametrize(
    "option",
    [
        {"double_dqn": False},
        {"loss": "squared"},
        {"huber_delta": 0.2},
        {"max_grad_norm": 0.05},
    ],
    ids=str,
)
def test_an_option_changes_the_gradient_as_it_should(option):
    changed = {**BASE, **option}
    learned = learn(**changed)
    assert_close(learned, learn_by_reference(**changed))
    assert np.abs(learned[0] - learned_by_base()[0]).max() > 1e-3


@functools.cache
def learned_by_base():
    return learn(**BASE)


def test_xla_and_graph_agree():
    # With Adam, the norm clipped; test_learner.py has what else there is to compile.
    graph, xla = learn(local_updates=4), learn(local_updates=4, jit_compile="update")
    for part, other in zip(graph, xla, strict=True):
        np.testing.assert_allclose(part, other, atol=1e-5)
    assert np.abs(graph[0]).max() > 1e-3


def is_compiled(function) -> bool:
    """Whether XLA must compile a function, as its definition says."""
    return function.attr["_XlaMustCompile"].b


@pytest.mark.parametrize(
    ("compiled", "network", "whole", "inside"),
    [
        ("none", "mlp", False, 0),
        ("optimizer", "mlp", False, 1),
        ("update", "mlp", True, 0),
        ("auto", "mlp", True, 0),
        pytest.param("update", "nature", True, 0, marks=pytest.mark.slow),
        # XLA is slow with convolutions.
        ("auto", "nature", False, 1),
    ],
)
def test_xla_compiles_what_it_is_asked_to(compiled, network, whole, inside):
    options = {"local_updates": 4, "jit_compile": compiled, "network": network}
    config = Config.from_values({**SMALL, **options})
    environment = environments.EnvironmentSpec((36, 36, 4), np.dtype(np.bool_), 3, None)
    built = networks.build(config.network, config.value, environment, seed=1)
    vector = tf.constant(built.initial)
    slots = tf.zeros([local_optimizer_slots(config), built.num_parameters])
    numbers = tf.constant(7.0), tf.constant(0.01), tf.constant(0.3), tf.constant([1, 2])
    batch = zero_batch(config, environment)
    tensors = Transitions(*(tf.constant(array) for array in batch))
    learner = make_learner(config, built)
    traced = learner.get_concrete_function(vector, vector, slots, *numbers, tensors)
    assert is_compiled(traced.function_def) == whole
    library = traced.graph.as_graph_def().library.function
    assert sum(map(is_compiled, library)) == inside
