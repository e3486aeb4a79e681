"""Calls Python that lives in a worker's process, from a closure that runs on that worker.

`tf.numpy_function` pins its operation to the process that traced it, which is the coordinator.
The operation beneath it, `PyFunc`, has no such pin: it runs where it is placed, and looks its
token up in the registry of the process it runs in. Three facts make that sound:

* Tokens are `pyfunc_0`, `pyfunc_1`, … in the order of registration in a process. `install`
  registers first thing in every task, so the token is the same in all of them; it checks.
* The registry holds its functions weakly; `install` keeps the graph that holds ours.
* `PyFunc` is stateful, so TensorFlow neither prunes, repeats, folds nor reorders its calls.

One token serves everything: its first input names the method, its second the worker (several
workers share a process in an in-process cluster, and each has a host of its own).

An exception in hosted Python would reach the coordinator as an operation error, which
ClusterCoordinator treats as fatal. So it is caught here: the worker's host remembers the
traceback, this call and the following ones return zeros, and the closure returns the traceback
as a value when it asks for `take_error`.
"""

import json
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

TOKEN = "pyfunc_0"


class Host(Protocol):
    """What a worker task hosts."""

    @property
    def methods(self) -> dict[str, Callable[..., Sequence[Any]]]:
        """Functions of NumPy arrays that return a sequence of them."""

    def close(self) -> None:
        """Lets go of what the host holds."""


_graph: tf.Graph | None = None
_make_host: Callable[[int], Host]
_hosts: dict[int, Host] = {}
_errors: dict[int, str] = {}
_lock = threading.Lock()


def install(make_host: Callable[[int], Host]) -> None:
    """Makes this process answer bridge calls; call before anything else uses TensorFlow.

    Args:
        make_host: makes the host of a worker from its index, at that worker's first call.

    Raises:
        RuntimeError: something registered a Python function with TensorFlow before.
    """
    global _graph, _make_host
    _make_host = make_host
    if _graph is not None:
        return
    graph = tf.Graph()
    with graph.as_default():
        name = tf.constant("")
        result = tf.numpy_function(_dispatch, [name, 0, name], [tf.string])
        token = result[0].op.get_attr("token").decode()
    if token != TOKEN:
        raise RuntimeError(
            f"the bridge was registered as {token}, not {TOKEN}: another Python function was "
            f"registered with TensorFlow in this process before it"
        )
    _graph = graph


def call(
    method: str, worker: tf.Tensor, inputs: Sequence[Any], outputs: Sequence[tf.TensorSpec]
) -> list[tf.Tensor]:
    """Adds a call of a hosted method to the graph being traced.

    Args:
        method: a name in the host's `methods`.
        worker: int index of the worker, [].
        inputs: tensors the method receives as NumPy arrays.
        outputs: static shapes and dtypes of what it returns. Sizes that vary (None) are 0 in the
            zeros returned after an error.

    Returns:
        The method's results, or zeros once something failed on this worker.
    """
    zeros = json.dumps([([size or 0 for size in spec.shape], spec.dtype.name) for spec in outputs])
    results = tf.raw_ops.PyFunc(
        input=[tf.constant(method), tf.cast(worker, tf.int32), tf.constant(zeros), *inputs],
        token=TOKEN,
        Tout=[spec.dtype for spec in outputs],
    )
    return [
        tf.ensure_shape(result, spec.shape) for result, spec in zip(results, outputs, strict=True)
    ]


def take_error(worker: tf.Tensor, after: Sequence[tf.Tensor] = ()) -> tf.Tensor:
    """The traceback of the first failure since it was last taken, or an empty text, string []."""
    with tf.control_dependencies(after):
        return call(_TAKE_ERROR, worker, [], [tf.TensorSpec([], tf.string)])[0]


_TAKE_ERROR = "take_error"


def close() -> None:
    """Closes every host this process made."""
    for host in _hosts.values():
        host.close()


def _dispatch(method: bytes, worker: Any, zeros: bytes, *inputs: np.ndarray) -> list[Any]:
    """Runs in the worker's process, on one of TensorFlow's threads."""
    name, index = method.decode(), int(worker)
    if name == _TAKE_ERROR:
        return [_errors.pop(index, "")]
    if index not in _errors:
        try:
            return list(_host(index).methods[name](*inputs))
        except BaseException:  # a SystemExit of hosted Python, too, is only a failed call
            _errors[index] = traceback.format_exc()
    return [
        "" if dtype == "string" else np.zeros(shape, dtype) for shape, dtype in json.loads(zeros)
    ]


def _host(index: int) -> Host:
    with _lock:
        if index not in _hosts:
            _hosts[index] = _make_host(index)
        return _hosts[index]
