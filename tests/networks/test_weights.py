"""Exported weights, read back as a TensorFlow user would."""

import dataclasses
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from support.small_networks import IMAGE, VALUES, VECTOR, build, network, random_vector

from ps_dqn.config import Network
from ps_dqn.networks import weights
from ps_dqn.networks.network import QNetwork

ENDING = "/.ATTRIBUTES/VARIABLE_VALUE"
KINDS = {
    "mlp": network((6, 5), layer_norm=True),
    "recurrent": dataclasses.replace(network((6, 5), recurrent=3), dueling=True, noisy=True),
    "images": dataclasses.replace(network((6,)), network="minatar"),  # a model within the model
    "own": Network(network="support.user_networks:subclass"),
}


def make(kind: str, seed: int = 0) -> QNetwork:
    value = VALUES[3] if kind == "recurrent" else VALUES[0]
    return build(KINDS[kind], IMAGE if kind == "images" else VECTOR, seed, value)


def exported(kind: str, folder: pathlib.Path) -> tuple[np.ndarray, keras.Model]:
    """A vector that was written, and another model of the same layers."""
    built = make(kind)
    vector = random_vector(built)
    built.assign(vector)
    weights.save(built.as_keras(), folder)
    return vector, make(kind, seed=1).as_keras()


def flat(model: keras.Model) -> np.ndarray:
    return np.concatenate([np.ravel(each.numpy()) for each in model.trainable_variables])


@pytest.mark.parametrize("kind", KINDS)
def test_keras_reads_its_file(kind: str, tmp_path: pathlib.Path) -> None:
    vector, model = exported(kind, tmp_path)
    model.load_weights(tmp_path / "network.weights.h5")
    assert (flat(model) == vector).all()


@pytest.mark.parametrize("kind", KINDS)
def test_tensorflow_restores_its_checkpoint(kind: str, tmp_path: pathlib.Path) -> None:
    vector, model = exported(kind, tmp_path)
    status = tf.train.Checkpoint(model=model).read(str(tmp_path / "network"))
    status.assert_existing_objects_matched().expect_partial()
    assert (flat(model) == vector).all()
    # The way of a training that goes on with it counts its own saves.
    other = make(kind, seed=2).as_keras()
    tf.train.Checkpoint(model=other).restore(str(tmp_path / "network")).expect_partial()
    assert (flat(other) == vector).all()


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_is_once_in_the_checkpoint_under_its_layers_name(
    kind: str, tmp_path: pathlib.Path
) -> None:
    built = make(kind)
    built.assign(random_vector(built))
    weights.save(built.as_keras(), tmp_path)
    reader = tf.train.load_checkpoint(str(tmp_path / "network"))
    found = {name for name in reader.get_variable_to_shape_map() if name.endswith(ENDING)}
    variables = built.as_keras().trainable_variables
    assert found == {f"layers/{each.path}{ENDING}" for each in variables}
    for each in variables:
        assert (reader.get_tensor(f"layers/{each.path}{ENDING}") == each.numpy()).all()


def test_a_saved_model_takes_the_weights_of_another_checkpoint(tmp_path: pathlib.Path) -> None:
    make("recurrent", seed=3).as_keras().save(tmp_path / "best.keras")
    vector, _ = exported("recurrent", tmp_path)
    model = keras.models.load_model(tmp_path / "best.keras")
    model.load_weights(tmp_path / "network.weights.h5")
    assert (flat(model) == vector).all()


def test_the_files_written_are_named(tmp_path: pathlib.Path) -> None:
    files = weights.save(make("mlp").as_keras(), tmp_path)
    assert sorted(files) == sorted(tmp_path.iterdir())
    assert files[0] == tmp_path / "network.weights.h5"
    assert tmp_path / "network.index" in files
