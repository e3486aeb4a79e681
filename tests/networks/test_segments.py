"""Which parts of a parameter vector are before the head, by what changes when they change."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from support.small_networks import IMAGE, VALUES, VECTOR, build, network, observations

from ps_dqn.config import Value

CASES = {
    "mlp": (network((8, 6), layer_norm=True), VECTOR, VALUES[0]),
    "one layer": (network((8,)), VECTOR, VALUES[0]),
    "rainbow": (
        dataclasses.replace(network((8, 6)), dueling=True, noisy=True),
        VECTOR,
        VALUES[1],
    ),
    "iqn": (network((8, 6)), VECTOR, VALUES[3]),
    "minatar": (dataclasses.replace(network((6,)), network="minatar"), IMAGE, VALUES[0]),
    "normalized": (
        dataclasses.replace(network((8, 6)), normalize_observations="on"),
        VECTOR,
        Value(normalize_returns="on"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_features_come_from_what_is_before_the_head(name: str) -> None:
    config, spec, value = CASES[name]
    built, seen = build(config, spec, value=value), observations(spec, 5)
    changes = np.random.default_rng(3).normal(size=built.num_parameters).astype(np.float32)

    def features(vector: np.ndarray) -> np.ndarray:
        return np.asarray(built.features(tf.constant(vector), seen))

    def outputs(vector: np.ndarray) -> np.ndarray:
        return built.outputs(tf.constant(vector), tf.constant(features(built.initial))).numpy()

    moved = np.zeros(built.num_parameters, np.int64)
    for segment in built.segments:
        part = slice(segment.start, segment.stop)
        moved[part] += 1
        vector = built.initial.copy()
        vector[part] += changes[part]
        # Deviations of noise count where there is noise alone.
        is_noise = (
            config.noisy and len(set(built.initial[part])) == 1 and built.initial[part][0] > 0
        )
        is_same = (features(vector) == features(built.initial)).all()
        assert segment.is_head <= is_same
        assert (outputs(vector) == outputs(built.initial)).all() == (
            not segment.is_head or is_noise
        )
        assert is_same == (segment.is_head or is_noise)
    # Means and scales come first, and are not learned.
    followed = 2 * 4 + 1 if name == "normalized" else 0
    assert moved.tolist() == [0] * followed + [1] * (built.num_parameters - followed)
    assert any(not each.is_head for each in built.segments) == (name != "one layer")


@pytest.mark.parametrize("name", CASES)
def test_a_variable_begins_with_one_value_or_with_independent_ones(name: str) -> None:
    config, spec, value = CASES[name]
    vectors = [build(config, spec, seed, value) for seed in (1, 2)]
    for segment in vectors[0].segments:
        one, other = (each.initial[segment.start : segment.stop] for each in vectors)
        is_constant = len({*one, *other}) == 1
        assert is_constant or len({*one, *other}) == 2 * len(one)
