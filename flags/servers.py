"""Which servers a run has, by its flags: of parameters and of replay."""

import dataclasses

from absl import flags as absl_flags

from ps_dqn.cluster import spec as cluster_spec
from ps_dqn.cluster.spec import ClusterSpec, ClusterSpecError
from ps_dqn.config.topology import Topology


def topology(values: absl_flags.FlagValues) -> Topology:
    """What the tasks are for, where that can be said."""
    names = [field.name for field in dataclasses.fields(Topology)]
    return Topology(**{name: values[name].value for name in names if name in values})


def num_actors(values: absl_flags.FlagValues, of: Topology) -> int:
    """Actor tasks of a run; none where workers have the environments.

    Raises:
        ClusterSpecError: flags about them have no effect, or do not agree.
    """
    hosts = values.actor_hosts
    if hosts and not of.says_workers:
        raise ClusterSpecError(
            f"--actor_hosts={','.join(hosts)}: has no effect without --topology=seed or apex; "
            f"leave it out"
        )
    if hosts and len(cluster_spec.numbered(hosts, of.num_actors)) != of.num_actors:
        raise ClusterSpecError(
            f"--actor_hosts={','.join(hosts)}: are {len(hosts)}, and --num_actors={of.num_actors}: "
            f"say as many"
        )
    return of.num_actor_tasks


def check_num_workers(values: absl_flags.FlagValues, of: Topology) -> None:
    """Refuses another number of workers than the topology says, where one is said.

    Raises:
        UsageError: with the flags and what to do.
    """
    if values["num_workers"].present:
        check = of.check_learners if values.actor_hosts and of.is_shared else of.check_workers
        check(values.num_workers)


def num_replay(values: absl_flags.FlagValues, of: Topology) -> int:
    """Replay servers of a run; none where each worker has its own replay.

    Raises:
        ClusterSpecError: flags about them have no effect.
    """
    if of.is_shared:
        return int(values.num_replay_servers)
    for name in ("num_replay_servers", "replay_hosts"):
        if values[name].value != values[name].default:
            shown = values[name].value
            text = ",".join(shown) if isinstance(shown, list) else shown
            raise ClusterSpecError(
                f"--{name}={text}: has no effect without --topology=apex; leave it out"
            )
    return 0


def leave_out(values: absl_flags.FlagValues) -> None:
    """Makes them none; refuses the flags of parameter servers.

    Raises:
        ClusterSpecError: with the flag.
    """
    if values["num_ps"].present and values.num_ps:
        raise ClusterSpecError(
            f"--num_ps={values.num_ps}: --strategy=all_reduce has no parameter servers; leave it "
            f"out"
        )
    if cluster_spec.numbered(values.ps_hosts, values.num_ps if values["num_ps"].present else 1):
        raise ClusterSpecError(
            f"--ps_hosts={','.join(values.ps_hosts)}: --strategy=all_reduce has no parameter "
            f"servers; leave it out"
        )
    values["num_ps"].value = 0


def hosts_given(values: absl_flags.FlagValues) -> list[str]:
    """The flags that say where tasks are, of those that are given."""
    names = ("chief_host", "ps_hosts", "replay_hosts", "worker_hosts", "actor_hosts")
    return [f"--{name}" for name in names if values[name].value]


def check(
    spec: ClusterSpec, kind: str, has_servers: bool, of: Topology, values: absl_flags.FlagValues
) -> None:
    """Refuses a cluster without the tasks that a run needs, or with needless ones.

    Args:
        spec: the cluster.
        kind: of it: local, in_process or remote.
        has_servers: the run has parameter servers.
        of: what the tasks are for.
        values: the flags.

    Raises:
        ClusterSpecError: with what is there and what to do.
    """
    if has_servers and not spec.ps:
        raise ClusterSpecError(
            "no ps in the cluster: at least one parameter server is needed (--num_ps, --ps_hosts), "
            "but for --strategy=all_reduce"
        )
    if not has_servers and spec.ps:
        raise ClusterSpecError(
            "TF_CONFIG has parameter servers: --strategy=all_reduce has none; leave them out"
        )
    if not has_servers and kind == "in_process":
        raise ClusterSpecError(
            "--cluster=in_process: does not go with --strategy=all_reduce, for which each worker "
            "is a process of its own; leave it out"
        )
    _check_replay(spec, of, values)
    wanted = of.num_actor_tasks
    if spec.actors and not wanted:
        raise ClusterSpecError(
            "TF_CONFIG has actor tasks: only --topology=seed has them; say it, or leave them out"
        )
    if len(spec.actors) != wanted:
        raise ClusterSpecError(
            f"--num_actors={wanted}: the cluster has {len(spec.actors)} actor tasks; say as many "
            f"--actor_hosts, or the job actor in TF_CONFIG"
        )


def _check_replay(spec: ClusterSpec, of: Topology, values: absl_flags.FlagValues) -> None:
    """Refuses a cluster with other replay servers than the run is for.

    Raises:
        ClusterSpecError: with what is there and what to do.
    """
    if spec.replay and not of.is_shared:
        raise ClusterSpecError(
            "TF_CONFIG has replay servers: only --topology=apex has them; say it, or leave them out"
        )
    if of.is_shared and not spec.replay:
        raise ClusterSpecError(
            "no replay server in the cluster: --topology=apex needs at least one; say "
            "--replay_hosts, or the job replay in TF_CONFIG"
        )
    wanted = values.num_replay_servers
    is_said = of.is_shared and values["num_replay_servers"].present  # a run's flags say all of them
    if is_said and wanted != len(spec.replay):
        raise ClusterSpecError(
            f"--num_replay_servers={wanted}: the cluster has {len(spec.replay)} of them; say as "
            f"many addresses, or leave it out"
        )
