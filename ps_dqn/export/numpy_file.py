"""Networks over one array, for `numpy_network`: weights and steps."""

import json
import pathlib
import shutil
from typing import Any

import numpy as np

from ps_dqn.environments.interface import Interface
from ps_dqn.errors import UsageError
from ps_dqn.networks.network import QNetwork
from ps_dqn.policy import greedy, numpy_network, numpy_steps
from ps_dqn.policy.plain import plain

READER = "numpy_network.py"


def check(network: QNetwork, interface: Interface, form: str) -> None:
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
    found = [what for what, is_there in has.items() if is_there]
    found = found or numpy_steps.unknown(plain(network.as_keras()), network.inner_models)
    if found:
        raise UsageError(
            f"--format={form}: is for dense layers and convolutions over one array, and the "
            f"network here has {', '.join(found)}: say another format, onnx for instance"
        )


def write(
    network: QNetwork, interface: Interface, path: pathlib.Path, is_sparse: bool = False
) -> None:
    """Writes a network that `check` has found to be one of these, and its reader beside it.

    Args:
        network: with the weights.
        interface: of the run.
        path: of the file.
        is_sparse: of arrays with zeros the other numbers alone, and where they are, if that is
            less.
    """
    numbers = np.arange(interface.spec.num_actions)
    arrays: dict[str, Any] = {"actions": interface.actions.of(numbers)}
    first, steps, found = numpy_steps.of(plain(network.as_keras()), network.inner_models)
    arrays |= {"input": first, "output": greedy.values_of(network), **found}
    if is_sparse:
        arrays = {key: value for each in arrays.items() for key, value in sparse(*each).items()}
    np.savez(path, steps=json.dumps(steps), **arrays)
    shutil.copyfile(numpy_network.__file__, path.parent / READER)


def sparse(name: str, array: np.ndarray) -> dict[str, Any]:
    """What a sparse file has of an array: itself, or what `numpy_network` makes it of."""
    # Of a layer (`dense/kernel`), and no constant or list of actions.
    is_kernel = "/" in name and array.ndim > 1 and array.dtype == np.float32
    if not is_kernel or array.nbytes <= 4 * np.count_nonzero(array) + -(-array.size // 8):
        return {name: array}
    flat = array.reshape(-1)
    bits = np.packbits(flat != 0)
    return {name: flat[flat != 0], f"{name}.bits": bits, f"{name}.shape": np.array(array.shape)}
