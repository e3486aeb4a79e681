"""Tasks that TensorFlow must know again when it connects anew.

It asks each task whether it still has this process's context. Over a connection that was cut off,
the question fails for up to a second after the network is back, and TensorFlow takes the task for
another process: a second context, of the same number, takes the place of the first. As soon as the
last that runs in the first one has ended, which may have been waiting for a worker that was cut off
too, that takes the connections of the second one with it: everything sent between here and there is
refused ("Cleanup ..."), or waited for without end.
"""

import struct
import threading
import time
from collections.abc import Iterable, Mapping

from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context

from ps_dqn.cluster import health
from ps_dqn.cluster.spec import Task
from ps_dqn.coordinator.connecting import runtime

KEEP_ALIVE = "/tensorflow.eager.EagerService/KeepAlive"

# How long a task may take to answer, how long TensorFlow's own connection to one that does may take
# until it works again, and from one look at it to the next (seconds).
ANSWER_SECONDS, CONNECTION_SECONDS, PERIOD = 2.0, 5.0, 0.05


def wait_until_known(addresses: Mapping[Task, str]) -> None:
    """Returns once TensorFlow would find this process's context where it is.

    A task that was started again has none, and is not waited for.

    Args:
        addresses: of tasks that answer, as TensorFlow knows them, host:port.
    """
    ours = [task for task, address in addresses.items() if is_ours(address)]
    # One that stands still meanwhile does not answer: whoever asks it is left behind.
    asking = threading.Thread(target=_wait_for, args=(ours,), name="known tasks", daemon=True)
    asking.start()
    asking.join(CONNECTION_SECONDS)


def is_ours(address: str) -> bool:
    """Whether a task answers, and has this process's context."""
    return _has_context(address, pywrap_tfe.TFE_GetContextId(context.context()._handle))


def _wait_for(tasks: Iterable[Task]) -> None:
    """Returns when TensorFlow's own connections to them all work, or are given up."""
    deadline = time.monotonic() + CONNECTION_SECONDS
    for task in tasks:
        while not runtime.is_alive(task) and time.monotonic() < deadline:
            time.sleep(PERIOD)


def _has_context(address: str, number: int) -> bool:
    """Whether a task has a context, asked over a connection of its own."""
    import grpc

    request = b"\x09" + struct.pack("<Q", number)  # KeepAliveRequest: fixed64 context_id = 1
    with health.channel_to(address) as channel:
        try:
            channel.unary_unary(KEEP_ALIVE)(request, timeout=ANSWER_SECONDS)
        except grpc.RpcError:
            return False
    return True
