"""A Q-network in Keras's own layers alone, so that its files need nothing of this project.

What this project adds to Keras is for learning: noise, other ways to differentiate, weights that
are made of others. Once weights stand still, all of it is a dense layer, a convolution or an
operation of Keras. Layers of a user's own network stay what they are.

Shapes: B rows, F features, U units, C cosines, N quantiles, S numbers of recurrent state.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import keras
import numpy as np
from keras import ops

from ps_dqn.networks import atoms
from ps_dqn.networks.convolutions import (
    GridMaximum,
    PatchConvolution,
    SpectralConvolution,
    largest_singular_value,
)
from ps_dqn.networks.layers import NoisyDense, QuantileEmbedding, Standardize
from ps_dqn.networks.lstm import LSTM

Tensor: TypeAlias = Any  # of Keras, which has no types


def plain(model: keras.Model) -> keras.Model:
    """A model that computes the same from the weights as they are.

    Args:
        model: `QNetwork.as_keras`'s.
    """
    made: dict[int, Callable[..., Any]] = {}

    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        # A layer that is called twice stays one.
        if id(layer) not in made:
            made[id(layer)] = _plain_layer(layer)
        return made[id(layer)](*args, **kwargs)

    return keras.models.clone_model(model, clone_function=lambda each: each, call_function=call)


def _plain_layer(layer: Any) -> Callable[..., Any]:
    if isinstance(layer, keras.Model):
        # Those of a user that are no graph of layers are called as they are.
        return plain(layer) if hasattr(layer, "_run_through_graph") else layer
    made = _PLAIN.get(type(layer))
    return layer if made is None else made(layer)


def dense(name: str, kernel: np.ndarray, bias: np.ndarray | None) -> keras.layers.Layer:
    """A dense layer with these weights, [F, U] and [U]."""
    layer = keras.layers.Dense(kernel.shape[1], use_bias=bias is not None, name=name)
    layer.build((None, kernel.shape[0]))
    layer.set_weights([kernel] if bias is None else [kernel, bias])
    return layer


def _without_noise(layer: NoisyDense) -> Callable[..., Tensor]:
    means = dense(layer.name, *_numpy(layer.kernel, layer.bias))
    return lambda inputs, noise=None: means(inputs)


def _convolution(layer: PatchConvolution | SpectralConvolution) -> Callable[..., Tensor]:
    kernel, bias = _numpy(layer.kernel, layer.bias)
    if isinstance(layer, SpectralConvolution):
        kernel = kernel / largest_singular_value(kernel).numpy()
    copy = keras.layers.Conv2D(
        layer.filters, layer.kernel_size, layer.strides, layer.padding, name=layer.name
    )
    copy.build((None, None, None, kernel.shape[2]))
    copy.set_weights([kernel, bias])
    return copy


def _embedding(layer: QuantileEmbedding) -> Callable[..., Tensor]:
    kernel, bias = _numpy(layer.kernel, layer.bias)
    taus = atoms.midpoints(layer.num_policy_quantiles).numpy()
    angles = np.float32(np.pi) * np.arange(layer.num_cosines, dtype=np.float32)
    cosines = np.cos(taus[:, None] * angles)  # [N, C]
    embedded = np.maximum(cosines @ kernel + bias, 0).astype(np.float32)  # [N, F]
    product = keras.layers.EinsumDense("bf,nf->bnf", embedded.shape, name=layer.name)
    product.build((None, embedded.shape[1]))
    product.set_weights([embedded])
    return lambda features, taus=None: product(features)


def _lstm(layer: LSTM) -> Callable[..., tuple[Tensor, Tensor]]:
    units, num_actions = layer.units, layer.num_actions
    kernel, recurrent_kernel, bias = _numpy(layer.kernel, layer.recurrent_kernel, layer.bias)
    if layer.reward_scale is not None:
        kernel[-1] *= layer.reward_scale.numpy()
    project = dense(f"{layer.name}_inputs", kernel, bias)
    recur = dense(f"{layer.name}_memory", recurrent_kernel, None)

    def call(features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        hidden, cell = state[:, :units], state[:, units : 2 * units]
        action, reward = state[:, 2 * units], state[:, 2 * units + 1 :]
        # 0 is no action: not all runtimes have a one-hot of -1.
        actions = ops.one_hot(ops.cast(action, "int32"), num_actions + 1)[:, 1:]
        gates = project(ops.concatenate([features, actions, reward], axis=-1)) + recur(hidden)
        enter, keep, new, leave = (gates[:, i * units : (i + 1) * units] for i in range(4))
        cell = ops.sigmoid(keep) * cell + ops.sigmoid(enter) * ops.tanh(new)
        hidden = ops.sigmoid(leave) * ops.tanh(cell)
        nothing = ops.zeros_like(state[:, 2 * units :])
        return hidden, ops.concatenate([hidden, cell, nothing], axis=-1)

    return call


def _standardize(layer: Standardize) -> Callable[..., Tensor]:
    mean, scale = _numpy(layer.mean, layer.scale)
    limit = float(layer.LIMIT)
    return lambda inputs: ops.clip((inputs - mean) * scale, -limit, limit)


def _numpy(*variables: keras.Variable) -> list[np.ndarray]:
    return [np.array(each.numpy()) for each in variables]


_PLAIN: dict[type, Callable[[Any], Callable[..., Any]]] = {
    NoisyDense: _without_noise,
    PatchConvolution: _convolution,
    SpectralConvolution: _convolution,
    GridMaximum: lambda layer: layer.call,  # operations of Keras
    QuantileEmbedding: _embedding,
    LSTM: _lstm,
    Standardize: _standardize,
}
