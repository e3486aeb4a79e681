"""The command line of a worker or a parameter server."""

import os
import sys
from collections.abc import Callable

from absl import flags as absl_flags

from cluster import lifeline
from cluster.spec import ClusterSpec, ClusterSpecError, Task
from flags import command_line, tasks

# Before NumPy is imported: these tasks do their mathematics in TensorFlow.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

NAMES = (
    "chief_host",
    "ps_hosts",
    "worker_hosts",
    "task_index",
    "intra_op_threads",
    "inter_op_threads",
)


def run(job: str, serve: Callable[[ClusterSpec, Task, int, int], object]) -> int:
    """Reads this task's place and serves it; returns only for help."""
    values = command_line.new_flags()
    tasks.define_addresses(values)
    tasks.define_task(values)
    if command_line.asks_for_help(sys.argv):
        names = {"ps": "parameter_server"}
        command_line.print_help(
            values,
            f"python -m ps_dqn.{names.get(job, job)}",
            f"Serves one {job} task. Its place comes from TF_CONFIG or from these flags.",
            {"Where it is": NAMES},
        )
        return 0
    try:
        command_line.parse(values, sys.argv)
        spec, task = tasks.read_task(values, job)
    except (absl_flags.Error, ClusterSpecError) as error:
        command_line.refuse(error)
    lifeline.hold_if_given()
    address = spec.addresses(job)[task.index]
    print(f"{task} serves at {address}", flush=True)
    serve(spec, task, values.intra_op_threads, values.inter_op_threads)
    return 0
