"""A Keras model's weights in TensorFlow's own two kinds of file."""

import pathlib
import warnings
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ps_dqn.networks.network import QNetwork
from ps_dqn.run import directory, disk

NAME = "network"


def save_model(network: QNetwork, parameters: np.ndarray, folder: pathlib.Path) -> None:
    """Writes a run's network as a Keras model into the run's folder.

    Args:
        network: which; it has these weights then.
        parameters: float32 [P].
        folder: of the run.
    """
    network.assign(parameters)
    with disk.beside(folder / directory.MODEL) as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Keras's own calls of NumPy: no errors for anybody
        network.as_keras().save(temporary)


def save(model: keras.Model, folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes a model's weights as `network.weights.h5` and as a `tf.train.Checkpoint`, `network`.

    `model.load_weights` reads the first and `tf.train.Checkpoint(model=model).read` the second, of
    a model of the same layers. In the checkpoint each weight is also under the name of its layer:
    `tf.train.load_checkpoint` finds it at `layers/dense/kernel/.ATTRIBUTES/VARIABLE_VALUE`.

    Args:
        model: `QNetwork.as_keras`'s, with the weights to write.
        folder: which exists.

    Returns:
        The files written.
    """
    keras_file = folder / f"{NAME}.weights.h5"
    model.save_weights(keras_file)
    # The layers come first, so that a weight that both have is named by its layer.
    tf.train.Checkpoint(layers=_by_layer(model), model=model).write(str(folder / NAME))
    return [keras_file, folder / f"{NAME}.index", *folder.glob(f"{NAME}.data-*")]


def _by_layer(model: keras.Model) -> dict[str, Any]:
    """A model's variables in nested dictionaries, by the words of their paths."""
    tree: dict[str, Any] = {}
    for variable in model.variables:
        *layers, name = variable.path.split("/")
        branch = tree
        for layer in layers:
            branch = branch.setdefault(layer, {})
        branch[name] = variable
    return tree
