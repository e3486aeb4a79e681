"""What an exported network is of, for whoever finds its file: `metadata.json` beside it."""

import dataclasses
import hashlib
import importlib.metadata
import json
import pathlib
import platform
from collections.abc import Sequence
from typing import Any

import keras

from ps_dqn.environments.interface import Interface
from ps_dqn.policy.policy import Source

FILE = "metadata.json"
PACKAGES = ("ps-dqn", "tensorflow", "keras", "numpy", "tf2onnx", "onnxruntime", "ai-edge-litert")


def describe(
    form: str,
    files: Sequence[pathlib.Path],
    interface: Interface,
    source: Source,
    model: keras.Model,
    checked: dict[str, Any],
) -> dict[str, Any]:
    """JSON values.

    Args:
        form: of the files.
        files: that were written, in one folder.
        interface: of the run.
        source: of the weights.
        model: the network, with its inputs and outputs.
        checked: what is known of it beside.
    """
    values = dataclasses.asdict(source)
    values["eval_return"] = source.eval_return if source.eval_return == source.eval_return else None
    return {
        "format": form,
        "env_id": interface.env_id,
        "inputs": {each.name: _tensor(each) for each in model.inputs},
        "outputs": {name: _tensor(each) for name, each in model.output.items()},
        "checkpoint": values,
        **checked,
        "interface": interface.as_dict(),
        "versions": {"python": platform.python_version(), **_versions()},
        "sha256": {
            str(path.relative_to(files[0].parent)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in _all(files)
        },
    }


def write(folder: pathlib.Path, values: dict[str, Any]) -> pathlib.Path:
    """Writes them into the folder of the files."""
    path = folder / FILE
    path.write_text(json.dumps(values, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return path


def _tensor(each: Any) -> dict[str, Any]:
    return {"shape": [None, *each.shape[1:]], "dtype": str(each.dtype)}


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _all(files: Sequence[pathlib.Path]) -> list[pathlib.Path]:
    return sorted(
        path
        for file in files
        for path in ([file] if file.is_file() else file.rglob("*"))
        if path.is_file()
    )
