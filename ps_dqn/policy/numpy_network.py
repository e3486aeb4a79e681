"""A trained network in NumPy alone: `Network("model.npz")(observation)`.

This file lies beside the `model.npz` that it reads, and needs nothing else of its project. The file
has the weights by layer and name (`dense/kernel`), and `steps`, text in JSON: a list of layers in
their order, each with its name, its kind, settings and the names of the layers whose results it is
given. The last one's results are the values of actions, or a policy's logits: `output` says which.
Of weights most of which are zero it may have the others alone (`dense/kernel`), with the shape
(`dense/kernel.shape`) and which of all they are, a bit for each (`dense/kernel.bits`).

Shapes: B observations, A actions; H height, W width and C channels of images, which come last; h
and w of a window; U filters.
"""

import functools
import itertools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray


def _dense(weights: dict[str, Array], x: Array) -> Array:
    return x @ weights["kernel"] + weights["bias"]


def _windows(
    x: Array, size: Sequence[int], strides: Sequence[int], padding: str, outside: float
) -> Array:
    """What a window sees at each of its places, from [B, H, W, C] to [B, H', W', h, w, C].

    With the padding "same" it has ⌈H / stride⌉ places and sees `outside` beyond the edges; of an
    odd number of rows to add the last edge has one more.
    """
    if padding == "same":
        edges = [(0, 0)]
        for side, window, stride in zip(x.shape[1:3], size, strides, strict=True):
            missing = max((-(-side // stride) - 1) * stride + window - side, 0)
            edges.append((missing // 2, missing - missing // 2))
        x = np.pad(x, [*edges, (0, 0)], constant_values=outside)
    windows = np.lib.stride_tricks.sliding_window_view(x, tuple(size), axis=(1, 2))
    return np.moveaxis(windows[:, :: strides[0], :: strides[1]], 3, -1)


def _convolution(weights: dict[str, Array], x: Array, strides: list[int], padding: str) -> Array:
    """As a dense layer of all that the kernel [h, w, C, U] sees at one place."""
    *seen, filters = weights["kernel"].shape
    windows = _windows(x, seen[:2], strides, padding, 0)
    matrix = weights["kernel"].reshape(-1, filters)
    found = _dense(weights | {"kernel": matrix}, windows.reshape(-1, len(matrix)))
    return found.reshape(*windows.shape[:3], filters)


def _max_pooling(
    weights: dict[str, Array], x: Array, pool_size: list[int], strides: list[int], padding: str
) -> Array:
    windows = _windows(x, pool_size, strides, padding, -np.inf)
    places = itertools.product(*map(range, pool_size))
    # One place of all windows after the other: NumPy is slow at maxima of a few numbers each.
    return functools.reduce(np.maximum, (windows[:, :, :, i, j] for i, j in places))


def _layer_norm(weights: dict[str, Array], x: Array, epsilon: float) -> Array:
    mean = _mean_of(x.shape[-1])
    centred = x - x @ mean
    centred /= np.sqrt(np.square(centred) @ mean + epsilon)
    centred *= weights["gamma"]
    centred += weights["beta"]
    return centred


@functools.lru_cache(maxsize=16)
def _mean_of(size: int) -> Array:
    """A product with it is the mean, of few numbers several times as fast as by NumPy's own."""
    return np.full((size, 1), 1 / size, np.float32)


def _activation(weights: dict[str, Array], x: Array, activation: str) -> Array:
    functions: dict[str, Any] = {
        "relu": lambda: np.maximum(x, 0),
        "tanh": lambda: np.tanh(x),
        "silu": lambda: x / (1 + np.exp(-x)),
        "elu": lambda: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    }
    return functions[activation]()


def _softmax(weights: dict[str, Array], x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


LAYERS: dict[str, Any] = {
    "Dense": _dense,
    "Conv2D": _convolution,
    "MaxPooling2D": _max_pooling,
    "LayerNormalization": _layer_norm,
    "Activation": _activation,
    "Flatten": lambda weights, x: x.reshape(len(x), -1),
    "Rescaling": lambda weights, x, scale: x * scale,
    "Reshape": lambda weights, x, newshape: x.reshape(newshape),
    # In the order of memory: windows of a view in another order are copied more slowly.
    "Permute": lambda weights, x, dims: np.ascontiguousarray(x.transpose(0, *dims)),
    "Softmax": _softmax,
    "Add": lambda weights, x, y: x + y,
    "Subtract": lambda weights, x, y: x - y,
    "Multiply": lambda weights, x, y: x * y,
    "Maximum": lambda weights, x, y: np.maximum(x, y),
    "Clip": lambda weights, x, x_min, x_max: np.clip(x, x_min, x_max),
    "Mean": lambda weights, x, axis, keepdims: x.mean(axis=tuple(axis), keepdims=keepdims),
    "Max": lambda weights, x, axis, keepdims: x.max(axis=tuple(axis), keepdims=keepdims),
    "Sum": lambda weights, x, axis, keepdims: x.sum(axis=tuple(axis), keepdims=keepdims),
    "Concatenate": lambda weights, *x, axis: np.concatenate(x, *axis),
    "GetItem": lambda weights, x, key: x[tuple(slice(*each) if each else ... for each in key)],
}
ACTIVATIONS = ("relu", "tanh", "silu", "elu")


def by_layer(arrays: dict[str, Array]) -> dict[str, dict[str, Array]]:
    """Arrays named `dense/kernel` as those of each layer."""
    found: dict[str, dict[str, Array]] = {}
    for name, array in arrays.items():
        layer, _, weight = name.rpartition("/")
        found.setdefault(layer, {})[weight] = array
    return found


def computed(
    steps: list[dict[str, Any]],
    weights: dict[str, dict[str, Array]],
    first: str,
    observations: Array,
) -> Array:
    """The last step's results, float32 [B, A].

    Args:
        steps: layers in their order.
        weights: of each, by name.
        first: the name of what the first ones are given.
        observations: that, [B, …].
    """
    found = {first: np.asarray(observations).astype(np.float32)}
    for step in steps:
        name, own = step["name"], weights.get(step["name"], {})
        given = [found[each] for each in step["of"]]
        if "constant" in own:
            given.append(own["constant"])
        found[name] = LAYERS[step["kind"]](own, *given, **step["settings"])
    return found[steps[-1]["name"]]


class Network:
    """From observations of the environment to its actions."""

    def __init__(self, path: str):
        """Reads the file."""
        with np.load(path, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
        self._steps = json.loads(str(arrays.pop("steps")))
        self._input = str(arrays.pop("input"))  # its name among the layers
        self._output = str(arrays.pop("output"))  # q_values or logits
        self._actions = arrays.pop("actions")  # the environment's own, [A, …]
        for name in [each.removesuffix(".bits") for each in arrays if each.endswith(".bits")]:
            whole = np.zeros(arrays.pop(f"{name}.shape"), np.float32)
            bits = np.unpackbits(arrays.pop(f"{name}.bits"), count=whole.size)
            whole.flat[np.flatnonzero(bits)] = arrays[name]
            arrays[name] = whole
        self._weights = by_layer(arrays)

    def values(self, observations: Array) -> Array:
        """What actions are chosen by, float32 [B, A], of observations [B, …].

        Their values (`q_values`), or the logits of a policy, whose softmax are their probabilities.
        """
        return computed(self._steps, self._weights, self._input, observations)

    def __call__(self, observations: Array, masks: Array | None = None) -> dict[str, Array]:
        """The environment's own actions, and their `q_values` or `logits`.

        Args:
            observations: [B, …].
            masks: which actions are allowed, bool [B, A]; None: all are.
        """
        values = allowed = self.values(observations)
        if masks is not None:
            allowed = np.where(masks | ~masks.any(axis=1, keepdims=True), values, -1e9)
        return {"action": self._actions[allowed.argmax(axis=1)], self._output: values}
