"""A process's place in a cluster that others start: by TF_CONFIG or the host flags."""

import os

from absl import flags as absl_flags

from ps_dqn.cluster import ordinal
from ps_dqn.cluster import spec as cluster_spec
from ps_dqn.cluster.spec import ClusterSpec, ClusterSpecError, Task
from ps_dqn.flags import counts, servers


def of_coordinator(values: absl_flags.FlagValues) -> ClusterSpec:
    """The cluster whose chief this process is.

    Raises:
        ClusterSpecError: TF_CONFIG or the host flags cannot be used, or are another job's.
    """
    try:
        spec, task = _read(values, "chief", 0)
        if task.job != "chief":
            raise ClusterSpecError(
                f"TF_CONFIG says this task is {task.job} {task.index}: the coordinator is the chief"
            )
    except ClusterSpecError as error:
        if not os.environ.get("TF_CONFIG") or values.cluster != "auto":
            raise
        # It may be left of another project.
        raise ClusterSpecError(f"{error}; unset TF_CONFIG to train on this machine") from None
    return spec


def of_task(values: absl_flags.FlagValues, job: str) -> tuple[ClusterSpec, Task]:
    """A worker's or parameter server's cluster and its place there.

    Raises:
        ClusterSpecError: TF_CONFIG or the host flags cannot be used, or are another job's.
    """
    spec, task = _read(values, job, values.task_index)
    if task.job != job:
        raise ClusterSpecError(
            f"TF_CONFIG says this task is {task.job} {task.index}, but this program is a {job} task"
        )
    return spec, task


def _read(values: absl_flags.FlagValues, job: str, index: int | None) -> tuple[ClusterSpec, Task]:
    tf_config = os.environ.get("TF_CONFIG", "")
    if tf_config:
        return cluster_spec.from_tf_config(tf_config)
    if not servers.hosts_given(values):
        raise ClusterSpecError(
            "no cluster is described: set TF_CONFIG, or --chief_host, --ps_hosts and --worker_hosts"
        )
    ps, workers, replay, actors = counts.of_all(values)
    if index is None:
        index = ordinal.find() if job != "chief" and counts.are_numbered(values, job) else 0
    whose = Task(job, index), replay, actors
    return cluster_spec.from_hosts(values.chief_host, ps, workers, *whose)
