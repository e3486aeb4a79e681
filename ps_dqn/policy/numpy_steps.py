"""A Keras model over one array as the steps that `numpy_network` computes."""

import json
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np

from ps_dqn.networks.network import QNetwork
from ps_dqn.policy import numpy_network
from ps_dqn.policy.plain import plain

CONSTANT = "/constant"  # ends the name of a number that is no weight
# Whole numbers up to here are different ones in float32.
_MOST_PARAMETERS = 2**24

# Settings of Keras's layers and operations that a reader needs.
SETTINGS = {
    "Conv2D": ("strides", "padding"),
    "MaxPooling2D": ("pool_size", "strides", "padding"),
    "LayerNormalization": ("epsilon",),
    "Activation": ("activation",),
    "Rescaling": ("scale",),
    "Reshape": ("newshape",),
    "Permute": ("dims",),
    "Clip": ("x_min", "x_max"),
    "Mean": ("axis", "keepdims"),
    "Max": ("axis", "keepdims"),
    "Sum": ("axis", "keepdims"),
    "Concatenate": ("axis",),
}


class Steps(NamedTuple):
    """A model."""

    first: str  # the name of what it is given
    steps: list[dict[str, Any]]  # layers in their order: see `numpy_network`
    arrays: dict[str, np.ndarray]  # weights and constants by layer and name


def of(model: keras.Model, inner: Collection[str] = ()) -> Steps:
    """The steps of a model whose layers are all known.

    Args:
        model: of Keras's own layers: see `plain`.
        inner: names of the models within it whose steps are taken in their place, each from one
            array to one.
    """
    first, steps = "", []
    arrays: dict[str, np.ndarray] = {}
    ends: dict[str, str] = {}  # the last steps of `inner`
    for layer, written in zip(model.operations, model.get_config()["layers"], strict=True):
        kind = type(layer).__name__
        if kind == "InputLayer":
            first = layer.name
            continue
        [node] = written["inbound_nodes"]
        given = [*_flat(node["args"])]
        whose = [each["config"]["keras_history"][0] for each in given if _is_tensor(each)]
        whose = [ends.get(name, name) for name in whose]
        if layer.name in inner:
            within = of(layer)
            starts = {within.first: whose[0]}
            steps += [
                step | {"of": [starts.get(name, name) for name in step["of"]]}
                for step in within.steps
            ]
            arrays |= within.arrays
            ends[layer.name] = steps[-1]["name"]
            continue
        settings = _settings(layer)
        others = [each for each in given if not _is_tensor(each)]
        if kind == "GetItem":
            settings = {"key": _slices(node["args"][1])}
        elif others:
            [arrays[f"{layer.name}{CONSTANT}"]] = map(_constant, others)
        arrays |= {f"{layer.name}/{each.name}": each.numpy() for each in _weights(layer)}
        steps.append({"name": layer.name, "kind": kind, "settings": settings, "of": whose})
    return Steps(first, steps, arrays)


def unknown(model: keras.Model, inner: Collection[str] = ()) -> list[str]:
    """Kinds of layers and activations of a model, and of `inner` ones, that have no steps."""
    models = [model, *(each for each in model.operations if each.name in inner)]
    layers = [each for one in models for each in one.operations if each not in models]
    found = {type(each).__name__ for each in layers} - {"InputLayer"}
    activations = {
        each.activation.__name__ for each in layers if isinstance(each, keras.layers.Activation)
    }
    parts = [
        "part of an array"
        for one in models
        for each in one.get_config()["layers"]
        if each["class_name"] == "GetItem"
        if _slices(each["inbound_nodes"][0]["args"][1]) is None
    ]
    return [
        *sorted(found - set(numpy_network.LAYERS)),
        *sorted(activations - set(numpy_network.ACTIVATIONS)),
        *parts[:1],
    ]


def program(network: QNetwork) -> str:
    """What a `numpy_policy` computes in the place of a network, without noise: values or logits.

    Returns:
        A text; an empty one for networks of another kind, those of images among them.
    """
    is_other = bool(network.branches or network.state_size)
    # What is followed of the environment is no weight that could be found again.
    if is_other or network.num_moments or network.num_parameters > _MOST_PARAMETERS:
        return ""
    network.assign(np.arange(network.num_parameters, dtype=np.float32))  # each shows where it is
    model = plain(network.as_keras())
    is_known = len(model.inputs) == 1 and not unknown(model)
    found = of(model) if is_known else None
    network.assign(network.initial)
    if found is None:
        return ""
    first, steps, arrays = found
    weights, constants = {}, {}
    for name, array in arrays.items():
        if name.endswith(CONSTANT):
            constants[name] = array.tolist()
            continue
        start = int(array.flat[0])
        if not np.array_equal(array.reshape(-1), np.arange(start, start + array.size)):
            return ""  # made of several
        weights[name] = [start, *array.shape]
    said = {"first": first, "steps": steps, "weights": weights, "constants": constants}
    return json.dumps(said)


def _is_leaf(value: Any) -> bool:
    return isinstance(value, dict) and "class_name" in value


def _is_tensor(value: Any) -> bool:
    return _is_leaf(value) and value["class_name"] == "__keras_tensor__"


def _flat(given: Any) -> Iterator[Any]:
    """What a layer is given, where it may be several tensors in one argument."""
    for each in given:
        if isinstance(each, list | tuple) and all(map(_is_tensor, each)):
            yield from each
        else:
            yield each


def _constant(value: Any) -> np.ndarray:
    """A number, or an array as Keras writes it."""
    return np.asarray(value["config"]["value"] if _is_leaf(value) else value, np.float32)


def _slices(key: Any) -> list[list[int | None]] | None:
    """The numbers of each slice of `x[..., start:stop:step]`, as Keras writes its key.

    Empty for the ellipsis. There are none of a key that has anything else: None.
    """
    found: list[list[int | None]] = []
    for each in key if isinstance(key, list | tuple) else [key]:
        match each:
            case {"class_name": "__ellipsis__"}:
                found.append([])
            case {"class_name": "__slice__", "config": where}:
                found.append([where[name] for name in ("start", "stop", "step")])
            case _:
                return None
    return found


def _weights(layer: Any) -> list[keras.Variable]:
    return list(getattr(layer, "weights", ()))


def _settings(layer: Any) -> dict[str, Any]:
    if isinstance(layer, keras.layers.Reshape):  # the operation says the first axis too
        return {"newshape": (-1, *layer.target_shape)}
    names = SETTINGS.get(type(layer).__name__, ())
    return {name: _setting(name, getattr(layer, name)) for name in names}


def _setting(name: str, value: Any) -> Any:
    if name == "axis":
        return [value] if isinstance(value, int) else list(value)
    return value.__name__ if callable(value) else value
