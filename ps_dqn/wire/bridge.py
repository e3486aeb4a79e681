"""Calls Python that lives in a task's process, from a closure that runs on a worker.

`tf.numpy_function` pins its operation to the process that traced it, which is the coordinator.
The operation beneath it, `PyFunc`, has no such pin: it runs where it is placed, and looks its
token up in the registry of the process it runs in. Three facts make that sound:

* Tokens are `pyfunc_0`, `pyfunc_1`, … in the order of registration in a process. `install`
  registers first thing in every task, so the token is the same in all of them; it checks.
* The registry holds its functions weakly; `install` keeps the graph that holds ours.
* `PyFunc` is stateful, so TensorFlow neither prunes, repeats, folds nor (unless it is told to run
  a call independently) reorders its calls.

One token serves everything: its first input names the method, its second the task (several tasks
share a process in an in-process cluster, and each has a host of its own): worker i is i, parameter
server i is -1 - i. The call runs where it is placed; the number only finds the host.

An exception in hosted Python would reach the coordinator as an operation error, which
ClusterCoordinator treats as fatal. So it is caught here: the task remembers the traceback and
writes it to its log, this call and the following ones return zeros, and the closure returns the
traceback as a value when it asks for `take_error`.
"""

import json
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from ps_dqn.errors import UsageError
from ps_dqn.profiling import timeline
from ps_dqn.profiling.recording import NOTHING, Recording

TOKEN = "pyfunc_0"
# Begins the text of an error that is a person's to mend; it needs no traceback.
USAGE = "usage: "


class Superseded(Exception):  # noqa: N818 - nothing is wrong
    """Nobody waits for what was asked, or it is not there: zeros return, and nothing has failed."""


class Host(Protocol):
    """What a task hosts."""

    @property
    def methods(self) -> dict[str, Callable[..., Any]]:
        """Functions of NumPy arrays that return one, or a record or list of them."""

    @property
    def figures(self) -> Any:
        """What `telemetry.prometheus` makes metrics of; None where there is nothing to show."""

    @property
    def pulse(self) -> Any:
        """What `telemetry.pulse` makes a pulse of; None where there is nothing to show."""

    @property
    def recording(self) -> Recording | None:
        """Of what it does, if the run that it is in asks for one."""

    def leave(self) -> None:
        """The task is told to end: ends what is under way, and lets go of what the host holds."""


_graph: tf.Graph | None = None
_make_host: Callable[[int], Host]
_hosts: dict[int, Host] = {}
_errors: dict[int, str] = {}
_lock = threading.Lock()


def install(make_host: Callable[[int], Host]) -> None:
    """Makes this process answer bridge calls; call before anything else uses TensorFlow.

    Args:
        make_host: makes the host of a task from its number, at that task's first call.

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


def server(index: int) -> int:
    """The task number of a parameter server."""
    return -1 - index


def number(place: Any) -> int:
    """The number of a task that TensorFlow knows by this job and index; see `ClusterSpec.place`."""
    return place.index if place.job == "worker" else server(place.index)


def call(method: str, task: Any, inputs: Sequence[Any], outputs: Any, in_order: bool = True) -> Any:
    """Adds a call of a hosted method to the graph being traced, or makes it.

    Args:
        method: a name in the host's `methods`.
        task: int number of the task, [].
        inputs: tensors the method receives as NumPy arrays: a sequence, or a record's fields.
        outputs: what it returns: something with a static shape and a dtype for each array, alone or
            in records and lists. Sizes that vary (None) are 0 in the zeros returned after an error.
        in_order: TensorFlow runs it after every call traced before it; if False, after those whose
            results it takes.

    Returns:
        The method's results in the structure of `outputs`; zeros once something failed on this
        task.
    """
    specs = [tf.TensorSpec(each.shape, each.dtype) for each in tf.nest.flatten(outputs)]
    zeros = json.dumps([([size or 0 for size in spec.shape], spec.dtype.name) for spec in specs])
    is_eager = tf.executing_eagerly()
    if is_eager:
        name, shapes = (np.frombuffer(text.encode(), np.uint8) for text in (method, zeros))
        arguments = list(map(local_tensor, [name, np.int32(task), shapes, *inputs]))
    else:
        arguments = [tf.constant(method), tf.cast(task, tf.int32), tf.constant(zeros)]
        arguments += map(tf.convert_to_tensor, inputs)
    results = tf.raw_ops.PyFunc(
        input=arguments,
        token=TOKEN,
        Tout=[spec.dtype for spec in specs],
    )
    if not in_order and not is_eager:
        operation = results[0].op
        operation.graph.experimental_acd_manager.run_independently(operation)
    if not is_eager:
        # A graph has to be told them. Without one it would be an operation, for which TensorFlow
        # infers a shape while another thread receives it: it has read one that was half-written
        # ("Shape must be rank -1 but is rank 0 for EnsureShape").
        pairs = zip(results, specs, strict=True)
        results = [tf.ensure_shape(result, spec.shape) for result, spec in pairs]
    return tf.nest.pack_sequence_as(outputs, results)


def local_tensor(value: Any, is_lent: bool = False) -> tf.Tensor:
    """An array or number as a tensor of this process, whatever the tasks do.

    TensorFlow makes a constant by an operation, for which it holds Python's lock: one that is put
    on another task waits for it, and all wait while a lost task is looked for. Where the task
    hangs, no thread would run again. Taking over NumPy's memory is no operation. There is no way
    for texts; they are constants.

    Args:
        value: an array, a number or a text.
        is_lent: nobody changes it any more, so it need not be copied where it is aligned.
    """
    # Else its own memory: NumPy hands out only what can be written.
    is_lent = is_lent and isinstance(value, np.ndarray) and value.flags.writeable
    array = value if is_lent else np.array(value)
    if array.dtype.kind in "OSU":
        with tf.device("CPU:0"):
            return tf.constant(value)
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


def take_error(task: Any, after: Sequence[tf.Tensor] = ()) -> tf.Tensor:
    """The traceback of the first failure since it was last taken, or an empty text, string []."""
    with tf.control_dependencies(after):
        return call(_TAKE_ERROR, task, [], tf.TensorSpec([], tf.string))


_TAKE_ERROR = "take_error"
# Gives what a task has recorded: see `asking.recorded`. It goes on whatever has failed there.
RECORDED = "recorded"
# Gives a task's clock, and its timeline where that is asked for: see `asking.timeline`. Likewise.
TIMELINE = "timeline"


def figures() -> Any:
    """What one of this task's hosts has to show, once a run has made it; on any thread."""
    shown = (host.figures for host in list(_hosts.values()))
    return next((each for each in shown if each is not None), None)


def pulse(task: int) -> Any:
    """What a task of this process is at, once a run has made its host; on any thread."""
    host = _hosts.get(task)
    return None if host is None else host.pulse


def leave() -> None:
    """Ends what is under way at every host this process made, and lets go of them."""
    for host in _hosts.values():
        host.leave()


def _dispatch(method: Any, task: Any, zeros: Any, *inputs: np.ndarray) -> list[Any]:
    """Runs in the task's process, on one of TensorFlow's threads; texts are bytes in some form."""
    name, index = bytes(method).decode(), int(task)
    with timeline.hosted(index):
        return _answer(name, index, zeros, inputs)


def _answer(name: str, index: int, zeros: Any, inputs: Sequence[np.ndarray]) -> list[Any]:
    if name == _TAKE_ERROR:
        return [_errors.pop(index, "")]
    if name == RECORDED:
        return _recorded(index, int(inputs[0]))
    if name == TIMELINE:
        return [np.float64(timeline.now()), timeline.record().to_json() if int(inputs[0]) else ""]
    if index not in _errors:
        try:
            return tf.nest.flatten(_call(_host(index), name, inputs))
        except Superseded:
            pass
        except UsageError as error:
            _errors.setdefault(index, f"{USAGE}{error}")
        except BaseException:  # a SystemExit of hosted Python, too, is only a failed call
            # Calls that go on beside it may fail too; the first counts.
            text = traceback.format_exc()
            _errors.setdefault(index, text)
            print(text, file=sys.stderr, flush=True)  # its log
    return [
        "" if dtype == "string" else np.zeros(shape, dtype)
        for shape, dtype in json.loads(bytes(zeros))
    ]


def _call(host: Host, name: str, inputs: Sequence[np.ndarray]) -> Any:
    method, recorded = host.methods[name], host.recording
    return method(*inputs) if recorded is None else recorded.call(name, method, *inputs)


def recording(index: int) -> Recording | None:
    """What the host of a task of this process records, if it is there and does."""
    host = _hosts.get(index)
    return None if host is None else host.recording


def _recorded(index: int, place: int) -> list[Any]:
    found = recording(index)
    return (NOTHING if found is None else found.give(place)).as_arrays()


def _host(index: int) -> Host:
    with _lock:
        if index not in _hosts:
            _hosts[index] = _make_host(index)
        return _hosts[index]
