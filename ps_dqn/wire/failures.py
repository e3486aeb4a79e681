"""What went wrong on a task, as one of our exceptions: a task is lost, or its Python failed."""

import re
import sys
from typing import Any

import numpy as np
import tensorflow as tf

from ps_dqn.cluster.spec import SERVERS, Task
from ps_dqn.errors import ClusterLostError, UsageError, WorkerError
from ps_dqn.wire import bridge

# What TensorFlow raises for a graph that cannot be run, rather than for a task that is gone.
_FAULTS = (
    tf.errors.InternalError,
    tf.errors.InvalidArgumentError,
    tf.errors.ResourceExhaustedError,
    tf.errors.UnimplementedError,
)
# In the names of its files of compiled code.
_CODE = "xla_compile_cache__"
# Before what it says of an operation that failed.
_PREAMBLE = re.compile(r"\s*|.*:|Detected at node .*|<stack traces .*|\d+ root error.*")
_NUMBERED = re.compile(r"^\s*\(\d+\) [A-Z_]+:")  # the first of several
_MISTAKEN = re.compile(r"different device incarnation.*?/job:(\w+)/replica:0/task:(\d+)", re.DOTALL)
_SERVER = re.compile(rf"/job:({'|'.join(SERVERS)})/replica:0/task:(\d+)")


def reason(error: BaseException) -> str:
    """What TensorFlow says of an error, without the lines that it has before that."""
    lines = (str(error) or type(error).__name__).strip().splitlines()
    said = next((line for line in lines if not _PREAMBLE.fullmatch(line)), lines[0])
    return _NUMBERED.sub("", said).strip()[:200]


def lost(error: BaseException) -> ClusterLostError:
    """The one line for a task that TensorFlow cannot do without, or for a closure it cannot run."""
    if _CODE in str(error):
        found = next(line for line in str(error).splitlines() if _CODE in line)
        return ClusterLostError(
            f"compiled code cannot be written or read: start again with --compile_cache=FOLDER "
            f"elsewhere, or with --compile_cache= to keep none ({found.strip()[:300]})"
        )
    if isinstance(error, _FAULTS):
        print(error, file=sys.stderr, flush=True)  # its log
        return ClusterLostError(f"a closure failed inside TensorFlow: {reason(error)}")
    named = {Task(job, int(index)) for job, index in _SERVER.findall(str(error))}
    who = str(named.pop()) if len(named) == 1 else "a parameter server"
    return ClusterLostError(f"lost a task, likely {who}: {reason(error)}")


def mistaken(error: ClusterLostError) -> tuple[str, int] | None:
    """The job and index of a task whose predecessor TensorFlow still knows, if that was the loss.

    A task that was started again while this process connected may have been asked for its devices
    before, and for its context after. That is not put right by connecting anew.
    """
    found = _MISTAKEN.search(str(error.__cause__ or error))
    return (found[1], int(found[2])) if found else None


def check_error(text: Any) -> None:
    """Raises what a worker's Python raised, as a closure returned it; nothing for an empty text.

    Raises:
        UsageError: something a person can mend.
        WorkerError: with the worker's traceback.
    """
    if isinstance(text, np.ndarray):
        text = text.item()
    if text:
        decoded = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        if decoded.startswith(bridge.USAGE):
            raise UsageError(decoded.removeprefix(bridge.USAGE))
        raise WorkerError(f"Python hosted in a worker failed:\n{decoded}")
