"""Sums over processes, by TensorFlow's own collectives: the ring of MultiWorkerMirroredStrategy.

A worker's process has a `tf.distribute.Server`, on which closures run, and beside it the eager
context of its own Python. That context gets a second server here, at a port of its own, for the
collectives alone: so what becomes of them is an exception in this process, and no closure fails.

What breaks and how, found out with real processes (docs/all-reduce.md):

* A peer that dies ends everybody's collective within a quarter of a second; one that is stopped
  ends none, nor does the operation's `timeout_seconds`. `abort` does, on another thread.
* After either, the context takes part in no collective any more, until it is told the cluster
  anew: `form` may be called again and again, with other members, at other addresses.
* A process keeps its number in the cluster: a group is those members that are named.
* Nobody may begin before all have formed: a request that waits at a server is lost when that
  server is told of another cluster.
* Variables that were made before the first `form` are gone after it; later ones stay.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import tensorflow_server_pb2
from tensorflow.python.eager import context

from ps_dqn.cluster import ports
from ps_dqn.cluster.spec import ClusterSpecError

JOB = "worker"


class Group(Protocol):
    """Adds up vectors of its members."""

    @property
    def port(self) -> int:
        """Where others reach this member."""

    def form(self, key: int, addresses: Mapping[int, str]) -> None:
        """Is of these members from now on; nobody begins before all have returned.

        Args:
            key: names the group, the same at all of its members and of no other group.
            addresses: host:port by the number of each member.
        """

    def reduce(self, vector: np.ndarray) -> np.ndarray:
        """The sum of what all members give, the same bits at each of them, float32 [n].

        Args:
            vector: float32 [n], left as it is.

        Raises:
            OpError: the group is broken.
        """

    def abort(self) -> None:
        """Ends a `reduce` that waits on another thread; then the group has to be formed anew."""


class CollectiveGroup:
    """This process among the workers that add up; there is one in a process."""

    def __init__(self, worker: int, port: int = 0):
        """Alone, before this process's Python has used TensorFlow for anything else.

        Args:
            worker: this one's number.
            port: to listen at; 0: any that is free.

        Raises:
            ClusterSpecError: the port cannot be used.
        """
        self._worker = worker
        self.port = port or ports.reserved_port()
        self._reduce: Any = None
        try:
            self.form(0, {worker: f"localhost:{self.port}"})
        except tf.errors.OpError as error:
            raise ClusterSpecError(
                f"--all_reduce_port={self.port}: cannot be used here ({error.message})"
            ) from None

    def form(self, key: int, addresses: Mapping[int, str]) -> None:
        """See `Group`."""
        definition = tensorflow_server_pb2.ServerDef(
            job_name=JOB, task_index=self._worker, protocol="grpc"
        )
        tasks = definition.cluster.job.add(name=JOB).tasks
        for index, address in addresses.items():
            tasks[index] = address
        options = definition.default_session_config.experimental
        options.collective_group_leader = _device(min(addresses)).rpartition("/")[0]
        own = context.context()
        own.enable_collective_ops(definition)
        own.ensure_initialized()
        device, num_members = _device(self._worker), len(addresses)

        def reduce(vector: tf.Tensor) -> tf.Tensor:
            with tf.device(device):
                return tf.raw_ops.CollectiveReduceV2(
                    input=vector,
                    group_size=num_members,
                    group_key=key,
                    instance_key=key,
                    ordering_token=[],
                    merge_op="Add",
                    final_op="Id",
                    communication_hint="ring",
                )

        signature = [tf.TensorSpec([None], tf.float32)]
        self._reduce = tf.function(reduce, input_signature=signature, autograph=False)
        self._is_alone = num_members == 1

    def reduce(self, vector: np.ndarray) -> np.ndarray:
        """See `Group`."""
        if self._is_alone:
            return vector.copy()
        given = tf.experimental.dlpack.from_dlpack(vector.__dlpack__())
        return np.asarray(memoryview(self._reduce(given)))

    def abort(self) -> None:
        """See `Group`."""
        context.context().abort_collective_ops(tf.errors.ABORTED, "the group is formed anew")


def _device(worker: int) -> str:
    return f"/job:{JOB}/replica:0/task:{worker}/device:CPU:0"
