"""A user's own network: a Keras model that their function builds.

Shapes: K rows, A actions, N atoms or quantiles.
"""

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from ps_dqn import user_code
from ps_dqn.config import Network, Value
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError
from ps_dqn.networks.heads import num_atoms


class CustomHead:
    """A user's whole network as a head; its features are the flattened observations."""

    def __init__(self, model: keras.Model, value: Value, environment: EnvironmentSpec):
        self._model = model
        self._observations = (-1, *environment.observation_shape)
        atoms = num_atoms(value)
        self._outputs = (-1, environment.num_actions, *([] if atoms is None else [atoms]))

    def __call__(
        self, features: tf.Tensor, noise: tf.Tensor | None = None, taus: tf.Tensor | None = None
    ) -> tf.Tensor:
        """From flattened observations [K, F] to [K, A] or [K, A, N]; it has no noise, no taus."""
        outputs = self._model(ops.reshape(features, self._observations))
        return ops.reshape(ops.cast(outputs, "float32"), self._outputs)


def build(network: Network, value: Value, environment: EnvironmentSpec, seed: int) -> CustomHead:
    """The network that the user's function `--network=package.module:function` builds.

    It is called as function(observation_shape, num_outputs) and returns a Keras model from
    observations [B, …], float32 or uint8 as the environment gives them, to [B, num_outputs]:
    A action values, or A·N logits or quantile values. It is the whole network, so the widths,
    activation and normalisation of the other networks do not apply to it.

    Raises:
        UsageError: there is no such function; or what it returns does not fit, or has state beside
            its trainable weights (such as BatchNormalization's averages), which a parameter server
            would not share.
    """
    name = network.network
    function = _function(name)
    shape = environment.observation_shape
    num_outputs = environment.num_actions * (num_atoms(value) or 1)
    with _global_seed(seed), _explained(name, f"observation_shape={shape}, {num_outputs=}"):
        model = function(shape, num_outputs)
    if not isinstance(model, keras.Model):
        raise UsageError(
            f"--network={name}: returned {type(model).__name__}: let it return a keras.Model"
        )
    _check_input(name, model, shape)
    observations = keras.Input(shape, dtype=environment.observation_dtype.name)
    with _global_seed(seed), _explained(name, f"observations of the shape {shape}"):
        outputs = model(observations)  # a subclass makes its weights here
        found = keras.tree.map_structure(lambda each: tuple(each.shape)[1:], outputs)
    _check_outputs(name, found, num_outputs)
    _check_weights(name, model)
    return CustomHead(model, value, environment)


def _function(name: str) -> Callable[..., Any]:
    module_name, _, attribute = name.partition(":")
    module = user_code.import_module(f"--network={name}", module_name)
    function = getattr(module, attribute, None)
    if function is None:
        raise UsageError(
            f"--network={name}: {module_name} has no {attribute!r}: name a function as "
            f"package.module:function"
        )
    if not callable(function):
        raise UsageError(
            f"--network={name}: is not a function but {type(function).__name__}: let it be called "
            f"as {attribute}(observation_shape, num_outputs)"
        )
    return function


def _check_input(name: str, model: keras.Model, shape: tuple[int, ...]) -> None:
    # A model that is a subclass has no inputs before its first call.
    inputs = getattr(model, "inputs", None)
    if inputs is None:
        return
    found = [tuple(each.shape)[1:] for each in inputs]
    fits = len(found) == 1 and len(found[0]) == len(shape)
    if not fits or any(own not in (None, axis) for own, axis in zip(found[0], shape, strict=True)):
        shown = found[0] if len(found) == 1 else found
        raise UsageError(
            f"--network={name}: its input has the shape {shown}, and observations here have "
            f"{shape}: use the function's first argument, keras.Input(observation_shape)"
        )


def _check_outputs(name: str, found: Any, num_outputs: int) -> None:
    if found != (num_outputs,):
        raise UsageError(
            f"--network={name}: its outputs have the shape {found} for each observation: let the "
            f"last layer have num_outputs={num_outputs} units, so that it is {(num_outputs,)}"
        )


def _check_weights(name: str, model: keras.Model) -> None:
    state = [variable.path for variable in model.non_trainable_variables]
    if state:
        raise UsageError(
            f"--network={name}: keeps state beside its trainable weights ({', '.join(state)}), "
            f"which workers cannot share: use layers without such state (LayerNormalization, say)"
        )
    if not model.weights:
        raise UsageError(f"--network={name}: has no weights to learn: give it a layer that has")


@contextlib.contextmanager
def _explained(name: str, arguments: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # whatever a user's network raises
        raise UsageError(
            f"--network={name}: failed with {arguments} ({user_code.one_line(error)}): correct the "
            f"function"
        ) from error


@contextlib.contextmanager
def _global_seed(seed: int) -> Iterator[None]:
    """Makes initializers without a seed reproducible: Keras draws theirs from `random`."""
    python, numpy = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
