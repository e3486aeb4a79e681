"""A user's own network: a Keras model that their function builds.

Shapes: K rows, A actions, N atoms or quantiles.
"""

import contextlib
import math
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
from ps_dqn.networks import inputs, precision
from ps_dqn.networks.heads import num_atoms


class CustomHead:
    """A user's whole network as a head; its features are the flattened observations.

    Attributes:
        encoder: the layers from observations to features.
    """

    def __init__(self, model: keras.Model, value: Value, environment: EnvironmentSpec):
        self._model = model
        self._shapes = _shapes(environment)
        self.encoder = [_flattened(environment)]
        atoms = num_atoms(value)
        numbers = environment.num_actions + int(value.learns_policy)
        self._outputs = (-1, numbers, *([] if atoms is None else [atoms]))

    def __call__(
        self, features: tf.Tensor, noise: tf.Tensor | None = None, taus: tf.Tensor | None = None
    ) -> tf.Tensor:
        """From flattened observations [K, F] to what `Head` and `PolicyHead` say.

        It has no noise and no taus.
        """
        outputs = self._model(self._observations(features))
        return ops.reshape(ops.cast(outputs, "float32"), self._outputs)

    def _observations(self, features: tf.Tensor) -> tf.Tensor | dict[str, tf.Tensor]:
        if not isinstance(self._shapes, dict):
            return ops.reshape(features, (-1, *self._shapes))
        sizes = [math.prod(shape) for shape in self._shapes.values()]
        pieces = ops.split(features, np.cumsum(sizes)[:-1].tolist(), axis=-1)
        return {
            name: ops.reshape(piece, (-1, *shape))
            for piece, (name, shape) in zip(pieces, self._shapes.items(), strict=True)
        }


def _shapes(environment: EnvironmentSpec) -> tuple[int, ...] | dict[str, tuple[int, ...]]:
    """What the user's function is told of observations: their shape, or that of each part."""
    shapes = {part.name: environment.frames + part.read_shape for part in environment.parts}
    if not shapes:
        return environment.observation_shape
    return shapes[""] if list(shapes) == [""] else shapes


def _flattened(environment: EnvironmentSpec) -> keras.layers.Layer:
    """From observations to [B, F]: in their own dtype, or float32 with their parts joined."""
    if not environment.parts:
        return keras.layers.Flatten()
    given = inputs.as_keras(environment)
    named = inputs.by_name(given)
    flat = [
        keras.layers.Flatten()(inputs.read(part, named[part.name])) for part in environment.parts
    ]
    return keras.Model(given, ops.concatenate(flat, axis=-1))


def build(
    network: Network, value: Value, environment: EnvironmentSpec, seed: int, numbers: str
) -> CustomHead:
    """The network that the user's function `--network=package.module:function` builds.

    It is called as function(observation_shape, num_outputs) and returns a Keras model from
    observations [B, …], float32 or uint8 as the environment gives them, to [B, num_outputs]; of
    several parts the shape is a dictionary, and so are the observations, float32, numbers of things
    one-hot. The outputs are A action values, or A·N logits or quantile values. It is the whole
    network, so the widths, activation and normalisation of the other networks do not apply to it.
    While it is called, Keras's policy is that of `numbers`.

    Raises:
        UsageError: there is no such function; or what it returns does not fit, or has state beside
            its trainable weights (such as BatchNormalization's averages), which a parameter server
            would not share.
    """
    name = network.network
    function = _function(name)
    shape = _shapes(environment)
    num_outputs = environment.num_actions * (num_atoms(value) or 1)
    num_outputs += int(value.learns_policy)  # the value of the state
    explained = _explained(name, f"observation_shape={shape}, {num_outputs=}")
    with _global_seed(seed), precision.computing(numbers), explained:
        model = function(shape, num_outputs)
    if not isinstance(model, keras.Model):
        raise UsageError(
            f"--network={name}: returned {type(model).__name__}: let it return a keras.Model"
        )
    _check_input(name, model, shape)
    observations: Any
    if isinstance(shape, dict):
        observations = {part: keras.Input(each) for part, each in shape.items()}
    else:
        dtype = "float32" if environment.parts else environment.observation_dtype.name
        observations = keras.Input(shape, dtype=dtype)
    explained = _explained(name, f"observations of the shape {shape}")
    with _global_seed(seed), precision.computing(numbers), explained:
        outputs = model(observations)  # a subclass makes its weights here
        found = keras.tree.map_structure(lambda each: tuple(each.shape)[1:], outputs)
    _check_outputs(name, found, num_outputs)
    if numbers != precision.FULL and outputs.dtype != precision.FULL:
        raise UsageError(
            f"--network={name}: its outputs are {outputs.dtype} with --precision={numbers}, too "
            f"few digits for values: give its last layer dtype='float32'"
        )
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


def _check_input(name: str, model: keras.Model, shape: Any) -> None:
    # A model that is a subclass has no inputs before its first call.
    takes = getattr(model, "inputs", None)
    if takes is None or isinstance(shape, dict):  # calling it tells
        return
    found = [tuple(each.shape)[1:] for each in takes]
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
    except user_code.FAILURES as error:  # whatever a user's network raises
        raise UsageError(
            f"--network={name}: failed with {arguments} ({user_code.with_place(error)}): correct "
            f"the function"
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
