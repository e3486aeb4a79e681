"""Networks of dense layers over one array, for `numpy_network`: weights and steps."""

import json
import pathlib
import shutil
from typing import Any

import keras
import numpy as np

from ps_dqn.environments.interface import Interface
from ps_dqn.errors import UsageError
from ps_dqn.export import numpy_network
from ps_dqn.networks.network import QNetwork
from ps_dqn.policy.plain import plain

READER = "numpy_network.py"
# Settings of Keras's layers and operations that a reader needs.
SETTINGS = {
    "LayerNormalization": ("epsilon",),
    "Activation": ("activation",),
    "Rescaling": ("scale",),
    "Reshape": ("newshape",),
    "Clip": ("x_min", "x_max"),
    "Mean": ("axis", "keepdims"),
    "Sum": ("axis", "keepdims"),
}


def check(network: QNetwork, interface: Interface) -> None:
    """Refuses networks of another kind.

    Raises:
        UsageError: with what to do.
    """
    spec = interface.spec
    has = {
        "observations of several parts": bool(spec.parts),
        "branches": bool(spec.branches),
        "a recurrent layer": bool(network.state_size),
    }
    found = [what for what, is_there in has.items() if is_there] or _unknown(network)
    if found:
        raise UsageError(
            f"--format=npz: is for dense layers over one array, and the network here has "
            f"{', '.join(found)}: say another format, onnx for instance"
        )


def write(network: QNetwork, interface: Interface, path: pathlib.Path) -> None:
    """Writes a network that `check` has found to be one of these, and its reader beside it."""
    numbers = np.arange(interface.spec.num_actions)
    arrays: dict[str, Any] = {"actions": interface.actions.of(numbers)}
    model = plain(network.as_keras())
    steps = []
    for layer, written in zip(model.operations, model.get_config()["layers"], strict=True):
        kind = type(layer).__name__
        if kind == "InputLayer":
            arrays["input"] = layer.name
            continue
        [node] = written["inbound_nodes"]
        given = node["args"]
        if constants := [each for each in given if not _is_tensor(each)]:
            [arrays[f"{layer.name}/constant"]] = map(_constant, constants)
        arrays |= {f"{layer.name}/{each.name}": each.numpy() for each in _weights(layer)}
        settings = {name: _setting(name, getattr(layer, name)) for name in SETTINGS.get(kind, ())}
        of = [each["config"]["keras_history"][0] for each in given if _is_tensor(each)]
        steps.append({"name": layer.name, "kind": kind, "settings": settings, "of": of})
    np.savez(path, steps=json.dumps(steps), **arrays)
    shutil.copyfile(numpy_network.__file__, path.parent / READER)


def _is_leaf(value: Any) -> bool:
    return isinstance(value, dict) and "class_name" in value


def _is_tensor(value: Any) -> bool:
    return _is_leaf(value) and value["class_name"] == "__keras_tensor__"


def _constant(value: Any) -> np.ndarray:
    """A number, or an array as Keras writes it."""
    return np.asarray(value["config"]["value"] if _is_leaf(value) else value, np.float32)


def _weights(layer: Any) -> list[keras.Variable]:
    return list(getattr(layer, "weights", ()))


def _setting(name: str, value: Any) -> Any:
    if name == "axis":
        return [value] if isinstance(value, int) else list(value)
    return value.__name__ if callable(value) else value


def _unknown(network: QNetwork) -> list[str]:
    model = plain(network.as_keras())
    found = {type(each).__name__ for each in model.operations} - {"InputLayer"}
    activations = {
        each.activation.__name__
        for each in model.operations
        if isinstance(each, keras.layers.Activation)
    }
    return sorted(found - set(numpy_network.LAYERS)) + sorted(
        activations - set(numpy_network.ACTIVATIONS)
    )
