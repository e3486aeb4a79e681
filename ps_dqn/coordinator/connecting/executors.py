"""What a thread of TensorFlow's coordinator waits for after each closure: nothing but the closure.

`ClusterCoordinator` runs a worker's closures in the scope of an executor of that worker's own, and
then lets go of its handle to the executor that was set before, the one that all threads share. A
handle that is let go waits for all that is pending on its executor. What TensorFlow sends on the
shared one by itself is that tasks may forget results. A worker that hangs never answers it, and
from then on no worker would be given another closure.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from tensorflow.python.eager import context, executor

# Handles that are never let go: the shared executor's, one for each thread that came by.
_shared: dict[int, executor.Executor] = {}


class _Innermost(threading.local):
    """The executor of the scope that this thread is in."""

    own: executor.Executor | None = None


_innermost = _Innermost()


@contextlib.contextmanager
def _scope(own: executor.Executor) -> Iterator[None]:
    """As `tensorflow.python.eager.context.executor_scope`, without waiting at its end."""
    current: Any = context.context()
    thread = threading.get_ident()
    if thread not in _shared:
        _shared[thread] = current.executor
    outer, _innermost.own = _innermost.own, own
    current.executor = own
    try:
        yield
    finally:
        _innermost.own = outer
        current.executor = outer or _shared[thread]


def install() -> None:
    """Gives TensorFlow's coordinators these scopes, from now on."""
    context.executor_scope = _scope
