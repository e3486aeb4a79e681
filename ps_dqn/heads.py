"""Heads: from features to action values or to their distributions.

Shapes: K rows, F features, A actions, N atoms or quantiles.
"""

import contextlib
import importlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from ps_dqn.config import Network, Value
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError
from ps_dqn.layers import Factory, run


def num_atoms(value: Value) -> int | None:
    """N where the network has its own outputs for each: c51 and qr_dqn."""
    return {"c51": value.num_atoms, "qr_dqn": value.num_quantiles}.get(value.value_distribution)


def expected_values(outputs: tf.Tensor, value: Value) -> tf.Tensor:
    """Q-values [K, A] of a head's outputs.

    The outputs themselves (none), the mean of the categorical distribution of logits [K, A, N] on
    `v_min`..`v_max` (C51, arXiv:1707.06887), or the mean of quantile values [K, A, N].
    """
    if value.value_distribution == "none":
        return outputs
    if value.value_distribution == "c51":
        support = np.linspace(value.v_min, value.v_max, value.num_atoms, dtype=np.float32)  # [N]
        return ops.sum(ops.softmax(outputs, axis=-1) * support, axis=-1)
    return ops.mean(outputs, axis=-1)


class Head:
    """The last hidden layer and the output layer.

    With `dueling` both exist twice, for the state's value and the actions' advantages, and
    Q = V + A - mean A (Wang et al. 2016, arXiv:1511.06581), for each atom or quantile.
    """

    def __init__(self, network: Network, value: Value, num_actions: int, factory: Factory):
        self._num_actions = num_actions
        self._atoms = num_atoms(value)
        self._embedding = None
        if value.value_distribution == "iqn":
            self._embedding = factory.quantile_embedding(
                value.num_cosines, value.num_policy_quantiles
            )

        def stream(outputs: int) -> list[keras.layers.Layer]:
            layers: list[keras.layers.Layer] = []
            for width in network.hidden_sizes[-1:]:
                layers += factory.hidden(width)
            return [*layers, factory.dense(outputs * (self._atoms or 1), 1.0)]

        self._values = stream(1) if network.dueling else []
        self._actions = stream(num_actions)

    def __call__(
        self, features: tf.Tensor, noise: tf.Tensor | None = None, taus: tf.Tensor | None = None
    ) -> tf.Tensor:
        """From features [K, F] to [K, A], or to [K, A, N] with a value distribution.

        Args:
            features: float32 [K, F].
            noise: seed of the noisy layers, int32 [2]; None is their means.
            taus: quantile fractions of iqn, [K, N]; None is the midpoints of the policy.
        """
        if self._embedding is None:
            return self._outputs(features, noise)
        embedded = self._embedding(features, taus)  # [K, N, F]
        number, width = embedded.shape[1:]
        values = self._outputs(ops.reshape(embedded, (-1, width)), noise)  # [K·N, A]
        values = ops.reshape(values, (-1, number, self._num_actions))
        return ops.transpose(values, (0, 2, 1))  # [K, A, N]

    def _outputs(self, x: tf.Tensor, noise: tf.Tensor | None) -> tf.Tensor:
        atoms = () if self._atoms is None else (self._atoms,)
        actions = run(self._actions, x, noise)
        if atoms:
            actions = ops.reshape(actions, (-1, self._num_actions, *atoms))
        if not self._values:
            return actions
        values = ops.reshape(run(self._values, x, noise), (-1, 1, *atoms))
        return values + actions - ops.mean(actions, axis=1, keepdims=True)


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


def custom(network: Network, value: Value, environment: EnvironmentSpec, seed: int) -> CustomHead:
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
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever a user's module raises
        raise UsageError(
            f"--network={name}: {module_name} cannot be imported ({_one_line(error)}). It must be "
            f"importable on every task: run from its folder or put that on PYTHONPATH"
        ) from error
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
            f"--network={name}: failed with {arguments} ({_one_line(error)}): correct the function"
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


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
