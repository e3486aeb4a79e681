"""What TensorFlow's own ways to speak with tasks do wrong, done otherwise.

TensorFlow's own binding holds the lock while it asks a task whether it is there, and while it
registers a function with every task. No thread of Python runs then, so nobody would see that a task
stands still, nor hear a signal, for as long as that takes: for good, where the task never answers.
It makes a function of each new kind of operation that runs at once, too; where that is a constant,
it holds the lock as well. The C API's calls do the same without the lock.

TensorFlow copies what a closure returned with a function of two parts, one of them the worker's. It
keeps what it knows of such parts in a vector (`function_data_` of
EagerClusterFunctionLibraryRuntime), and whoever runs one takes a pointer into it and lets the lock
go. Where the vector has to grow meanwhile, as another thread makes a part, the first reads memory
that was let go: the process crashed, or a worker could not read what it was asked for. That
happened at first steps, once in some hundreds of runs. So the vector is made to grow while nobody
else is there. (A copy that is no function would not do: one worker that dies during its copy aborts
those of all others.)

TensorFlow forgets operations only once no closure is under way any more, and holds the lock until
then. A closure may outlive its connection, for good where it waits for a server that is gone: this
process stood still without a word. So a thread of its own waits for that, without the lock.
"""

import contextlib
import ctypes
import functools
import itertools
import math
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.eager import context
from tensorflow.python.framework import c_api_util, errors_impl

from ps_dqn.cluster.spec import Task
from ps_dqn.profiling import timeline

# The vector's room doubles as it gets full. There is to be room for so many parts of each worker,
# which has three or so at first, and again where TensorFlow forgets them as a worker comes. Each
# takes milliseconds at the start, so there are bounds.
_ROOM_PER_WORKER, _LEAST_ROOM, _MOST_ROOM = 16, 32, 128
# Each part has a number, so that none is used again.
_numbers = itertools.count()
# How long operations may take to be forgotten before this process goes on (seconds): closures of a
# connection that was lost may still be under way.
FORGET_SECONDS = 1.0


def install(first: Task, num_workers: int) -> None:
    """Once this process is connected: from now on, TensorFlow does so.

    Args:
        first: a task that it is connected to.
        num_workers: of the cluster.

    Raises:
        tf.errors.OpError: that one is lost.
    """
    context.Context.add_c_function = _add_c_function
    _make_functions_of_operations(True)
    _make_room_for_parts(first, parts(num_workers))


@contextlib.contextmanager
def without_functions_of_operations() -> Iterator[None]:
    """Makes none in the block, nor registers any, so that constants wait for nobody.

    Only while no closure of this connection is under way: an operation that is no function and
    takes what a worker has returned crashes where that worker dies meanwhile.
    """
    _make_functions_of_operations(False)
    try:
        yield
    finally:
        _make_functions_of_operations(True)
        _forget_operations()  # that are no functions


def wait_for_nobody() -> None:
    """Makes none any more, once a run is over: tasks may hang that nobody looks after by then.

    What closures return that are still under way is not asked for again. Operations stay as they
    are until this process connects anew: to forget them would wait for every task.
    """
    _make_functions_of_operations(False)


def is_alive(task: Task) -> bool:
    """Whether a task answers over TensorFlow's own connection."""
    with _status() as status:
        return bool(_library().TFE_ContextCheckAlive(_handle(), _name(task).encode(), status))


def _make_functions_of_operations(makes: bool) -> None:
    with _checked() as status:
        _library().TFE_ContextSetRunEagerOpAsFunction(_handle(), makes, status)


def _add_c_function(self: context.Context, function: Any) -> None:
    """In the place of `tensorflow.python.eager.context.Context.add_c_function`."""
    self.ensure_initialized()
    with c_api_util.tf_buffer() as buffer:
        pywrap_tf_session.TF_FunctionToFunctionDef(function, buffer)
        definition = pywrap_tf_session.TF_GetBuffer(buffer)
    with timeline.span("registering a function with tasks"), _checked() as status:
        _library().TFE_ContextAddFunctionDef(_handle(), definition, len(definition), status)


def parts(num_workers: int) -> int:
    """How many to make at first: one more than fit, so that there is room for as many again."""
    room = min(max(_ROOM_PER_WORKER * num_workers, _LEAST_ROOM), _MOST_ROOM)
    return 2 ** math.ceil(math.log2(room)) + 1


def _make_room_for_parts(first: Task, number: int) -> None:
    with tf.device(_name(first)):
        there = tf.raw_ops.Timestamp()  # a constant would wait with Python's lock
    for part in itertools.islice(_numbers, number):
        with tf.device(f"/job:{context.get_server_def().job_name}"):
            tf.raw_ops.CheckNumerics(tensor=there, message=f"part {part}")


def _forget_operations() -> None:
    forgetting = threading.Thread(
        target=lambda: _library().TFE_ContextClearCaches(_handle()),
        name="forgetting operations",
        daemon=True,
    )
    forgetting.start()
    forgetting.join(FORGET_SECONDS)


def _name(task: Task) -> str:
    return f"/job:{task.job}/replica:0/task:{task.index}"


@contextlib.contextmanager
def _status() -> Iterator[int]:
    """The address of a status for a call."""
    status: int = _library().TF_NewStatus()
    try:
        yield status
    finally:
        _library().TF_DeleteStatus(status)


@contextlib.contextmanager
def _checked() -> Iterator[int]:
    """Likewise; raises what the call says went wrong, as TensorFlow's own binding does."""
    with _status() as status:
        yield status
        if code := _library().TF_GetCode(status):
            message = _library().TF_Message(status).decode(errors="replace")
            raise errors_impl.exception_type_from_error_code(code)(None, None, message)


def _handle() -> int:
    """The address of this process's context."""
    of_capsule = ctypes.pythonapi.PyCapsule_GetPointer
    of_capsule.restype, of_capsule.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: int = of_capsule(context.context()._handle, None)
    return address


@functools.cache
def _library() -> ctypes.CDLL:
    [path] = pathlib.Path(tf.sysconfig.get_lib()).glob("libtensorflow_cc*")
    library = ctypes.CDLL(str(path))
    status = pointer = ctypes.c_void_p
    library.TF_NewStatus.restype = status
    library.TF_DeleteStatus.argtypes = library.TF_GetCode.argtypes = [status]
    library.TF_Message.argtypes, library.TF_Message.restype = [status], ctypes.c_char_p
    library.TFE_ContextClearCaches.restype = None
    library.TFE_ContextClearCaches.argtypes = [pointer]
    library.TFE_ContextCheckAlive.restype = ctypes.c_bool
    library.TFE_ContextCheckAlive.argtypes = [pointer, ctypes.c_char_p, status]
    text, length = ctypes.c_char_p, ctypes.c_size_t
    library.TFE_ContextAddFunctionDef.argtypes = [pointer, text, length, status]
    library.TFE_ContextSetRunEagerOpAsFunction.argtypes = [pointer, ctypes.c_ubyte, status]
    return library
