"""The flags that say where tasks run, and the cluster they describe."""

import os
import sys

from absl import flags as absl_flags

from ps_dqn.cluster import ports
from ps_dqn.cluster.spec import ClusterSpecError, Placement
from ps_dqn.flags import place, servers
from ps_dqn.run import compile_cache

KINDS = ("auto", "local", "in_process", "remote")
# Flags of where a run's tasks are, which its flagfile has.
PLACEMENT = (
    "cluster",
    "num_ps",
    "num_workers",
    "num_replay_servers",
    "start_method",
    "restart",
    "chief_host",
    "ps_hosts",
    "worker_hosts",
    "replay_hosts",
    "actor_hosts",
    "intra_op_threads",
    "inter_op_threads",
)


def define_addresses(values: absl_flags.FlagValues, has_tensorflow: bool = True) -> None:
    """The flags every task has: where all tasks are, and its health; thread pools, compiled code.

    Args:
        values: where they are defined.
        has_tensorflow: without it, a task has no pools and compiles nothing.
    """
    absl_flags.DEFINE_string(
        "chief_host",
        "",
        "The coordinator's address (host:port). TF_CONFIG, where set, goes before host flags.",
        flag_values=values,
    )
    absl_flags.DEFINE_list(
        "ps_hosts",
        [],
        "The parameter servers' addresses (host:port,…), or one with {} in the place of the "
        "number, for num_ps of them.",
        flag_values=values,
    )
    absl_flags.DEFINE_list(
        "worker_hosts",
        [],
        "The workers' addresses (host:port,…), or one with {} in the place of the number, for "
        "num_workers of them.",
        flag_values=values,
    )
    absl_flags.DEFINE_list(
        "replay_hosts",
        [],
        "With topology=apex, the replay servers' addresses (host:port,…), or one with {} in the "
        "place of the number, for num_replay_servers of them.",
        flag_values=values,
    )
    absl_flags.DEFINE_list(
        "actor_hosts",
        [],
        "With topology=seed, the actors' addresses (host:port,…), which learners connect to, or "
        "one with {} in the place of the number, for num_actors of them. With topology=apex, where "
        "actors are workers: theirs, where worker_hosts are the learners' alone; {} goes on where "
        "those end.",
        flag_values=values,
    )
    absl_flags.DEFINE_integer(
        "num_ps",
        1,
        "Parameter servers (tasks). 0 with strategy=all_reduce, which has none.",
        0,
        flag_values=values,
    )
    absl_flags.DEFINE_integer(
        "num_workers",
        2,
        "Workers (tasks). With topology=apex: num_learners and num_actors, or the learners alone "
        "beside actor_hosts; with topology=seed: num_learners.",
        1,
        flag_values=values,
    )
    absl_flags.DEFINE_integer(
        "num_replay_servers",
        1,
        "With topology=apex, replay servers (tasks).",
        1,
        flag_values=values,
    )
    if has_tensorflow:
        _define_tensorflow(values)
    define_health(values)


def _define_tensorflow(values: absl_flags.FlagValues) -> None:
    absl_flags.DEFINE_integer(
        "intra_op_threads", 1, "Threads one operation of a task may use.", 1, flag_values=values
    )
    absl_flags.DEFINE_integer(
        "inter_op_threads",
        2,
        "Operations of a task that may run at the same time; one that waits for the network needs "
        "another beside it.",
        2,
        flag_values=values,
    )
    absl_flags.DEFINE_string(
        "compile_cache",
        compile_cache.AUTO,
        "Folder for compiled code, from where other workers and later runs take it; empty: it is "
        "not kept. auto: ps_dqn in $XDG_CACHE_HOME or ~/.cache, where that can be written. A "
        "folder that TF_XLA_FLAGS names goes before this.",
        flag_values=values,
    )


def define_health(values: absl_flags.FlagValues) -> None:
    """The flag of everything that may be probed."""
    absl_flags.DEFINE_integer(
        "health_port",
        0,
        "Where to serve /livez, /readyz and /metrics over HTTP (port); 0: nowhere. Needs the "
        'extra: pip install "ps-dqn[metrics]".',
        0,
        2**16 - 1,
        flag_values=values,
    )


def define_task(values: absl_flags.FlagValues) -> None:
    """The flag of a worker or parameter server without TF_CONFIG."""
    absl_flags.DEFINE_integer(
        "task_index",
        None,
        "Which task of its job this is, from 0. Default: 0; where an address has {}, the "
        "environment's POD_INDEX or JOB_COMPLETION_INDEX, or the number that ends the host name.",
        0,
        flag_values=values,
    )


def define_worker_dir(values: absl_flags.FlagValues) -> tuple[str, ...]:
    """The flag of tasks that may keep files, and its name."""
    absl_flags.DEFINE_string(
        "worker_dir",
        "",
        "Folder of this task's own, for replay that outlives it (replay_files).",
        flag_values=values,
    )
    return ("worker_dir",)


def define_worker(values: absl_flags.FlagValues) -> tuple[str, ...]:
    """The flags of workers alone: where one may keep files, and is reached by others; names."""
    absl_flags.DEFINE_integer(
        "all_reduce_port",
        0,
        "Where the other workers reach this one with strategy=all_reduce (port); 0: any that is "
        "free.",
        0,
        2**16 - 1,
        flag_values=values,
    )
    return (*define_worker_dir(values), "all_reduce_port")


def define_placement(values: absl_flags.FlagValues) -> None:
    """The coordinator's flags."""
    absl_flags.DEFINE_enum(
        "cluster",
        "auto",
        KINDS,
        "Processes of this machine (local), one process for everything (in_process), or tasks "
        "that were started elsewhere (remote, from TF_CONFIG or the host flags). auto is remote "
        "where TF_CONFIG or host flags are given, else local.",
        flag_values=values,
    )
    absl_flags.DEFINE_enum(
        "start_method",
        "fork" if sys.platform == "linux" else "spawn",
        ["fork", "spawn"],
        "How local tasks start: forked after one import of TensorFlow, or as fresh interpreters.",
        flag_values=values,
    )
    absl_flags.DEFINE_bool(
        "restart",
        False,
        "Start the coordinator of local tasks again where a signal kills it; it goes on with the "
        "tasks, which another process owns. Tasks that are replaced are forked then, too.",
        flag_values=values,
    )
    absl_flags.DEFINE_list(
        "free_stateful_sets",
        [],
        "StatefulSets of workers and parameter servers in this pod's namespace (comma separated), "
        "which are scaled to zero when the run is over or cannot be run. Needs a service account "
        "that may patch their scale.",
        flag_values=values,
    )


def kind_of(values: absl_flags.FlagValues) -> str:
    """Of the coordinator's cluster: one of `KINDS`, but auto."""
    if values.cluster != "auto":
        return str(values.cluster)
    has_hosts = os.environ.get("TF_CONFIG", "") or servers.hosts_given(values)
    return "remote" if has_hosts else "local"


def read_placement(values: absl_flags.FlagValues, has_servers: bool = True) -> Placement:
    """The coordinator's cluster.

    Args:
        values: the flags.
        has_servers: the run has parameter servers.

    Raises:
        ClusterSpecError: TF_CONFIG or the host flags cannot be used.
    """
    if not has_servers:
        servers.leave_out(values)
    topology = servers.topology(values)
    num_replay = servers.num_replay(values, topology)
    num_actors = servers.num_actors(values, topology)
    num_workers = topology.num_workers if topology.says_workers else values.num_workers
    servers.check_num_workers(values, topology)
    hosts_given, kind = servers.hosts_given(values), kind_of(values)
    if kind == "remote":
        spec = place.of_coordinator(values)
    elif hosts_given:
        raise ClusterSpecError(
            f"--cluster={kind}: its tasks are on this machine, at addresses of its own; leave "
            f"{', '.join(hosts_given)} out, or say --cluster=remote"
        )
    else:
        spec = ports.on_this_machine(values.num_ps, num_workers, num_replay, num_actors)
    servers.check(spec, kind, has_servers, topology, values)
    if values.restart and (kind != "local" or values.start_method != "fork"):
        raise ClusterSpecError(
            f"--restart: goes with --cluster=local and --start_method=fork alone, not with {kind} "
            f"and {values.start_method}; elsewhere, let whatever looks after processes start the "
            f"same command again, with --run_dir"
        )
    if values.free_stateful_sets and kind != "remote":
        raise ClusterSpecError(
            f"--free_stateful_sets={','.join(values.free_stateful_sets)}: has no effect with "
            f"--cluster={kind}, whose tasks are on this machine; leave it out"
        )
    return Placement(
        kind,
        spec,
        values.start_method,
        values.intra_op_threads,
        values.inter_op_threads,
        values.health_port,
        values.restart,
        tuple(values.free_stateful_sets),
    )
