"""A Keras model of dense layers over one array as the steps that `numpy_network` computes."""

import json
from collections.abc import Iterator
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
    "LayerNormalization": ("epsilon",),
    "Activation": ("activation",),
    "Rescaling": ("scale",),
    "Reshape": ("newshape",),
    "Clip": ("x_min", "x_max"),
    "Mean": ("axis", "keepdims"),
    "Sum": ("axis", "keepdims"),
    "Concatenate": ("axis",),
}


class Steps(NamedTuple):
    """A model."""

    first: str  # the name of what it is given
    steps: list[dict[str, Any]]  # layers in their order: see `numpy_network`
    arrays: dict[str, np.ndarray]  # weights and constants by layer and name


def of(model: keras.Model) -> Steps:
    """The steps of a model whose layers are all known.

    Args:
        model: of Keras's own layers: see `plain`.
    """
    first, steps, arrays = "", [], {}
    for layer, written in zip(model.operations, model.get_config()["layers"], strict=True):
        kind = type(layer).__name__
        if kind == "InputLayer":
            first = layer.name
            continue
        [node] = written["inbound_nodes"]
        given = [*_flat(node["args"])]
        settings = {name: _setting(name, getattr(layer, name)) for name in SETTINGS.get(kind, ())}
        others = [each for each in given if not _is_tensor(each)]
        if kind == "GetItem":
            settings = _of_last_axis(node["args"][1]) or {}
        elif others:
            [arrays[f"{layer.name}{CONSTANT}"]] = map(_constant, others)
        arrays |= {f"{layer.name}/{each.name}": each.numpy() for each in _weights(layer)}
        whose = [each["config"]["keras_history"][0] for each in given if _is_tensor(each)]
        steps.append({"name": layer.name, "kind": kind, "settings": settings, "of": whose})
    return Steps(first, steps, arrays)


def unknown(model: keras.Model) -> list[str]:
    """Kinds of layers and activations of a model that have no steps."""
    found = {type(each).__name__ for each in model.operations} - {"InputLayer"}
    activations = {
        each.activation.__name__
        for each in model.operations
        if isinstance(each, keras.layers.Activation)
    }
    parts = [
        "part of an array"
        for each in model.get_config()["layers"]
        if each["class_name"] == "GetItem"
        if _of_last_axis(each["inbound_nodes"][0]["args"][1]) is None
    ]
    return [
        *sorted(found - set(numpy_network.LAYERS)),
        *sorted(activations - set(numpy_network.ACTIVATIONS)),
        *parts[:1],
    ]


def program(network: QNetwork) -> str:
    """What a `numpy_policy` computes in the place of a network, without noise: values or logits.

    Returns:
        A text; an empty one for networks of another kind.
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


def _of_last_axis(key: Any) -> dict[str, int | None] | None:
    """Where `x[..., start:stop]`, as Keras writes its key, begins and ends; None of other keys."""
    match key:
        case [{"class_name": "__ellipsis__"}, {"class_name": "__slice__", "config": where}]:
            start, stop, step = (where[name] for name in ("start", "stop", "step"))
            return {"start": start, "stop": stop} if step in (None, 1) else None
    return None


def _weights(layer: Any) -> list[keras.Variable]:
    return list(getattr(layer, "weights", ()))


def _setting(name: str, value: Any) -> Any:
    if name == "axis":
        return [value] if isinstance(value, int) else list(value)
    return value.__name__ if callable(value) else value
