"""How many tasks a run has of each job: by number, or by the addresses that are given."""

from absl import flags as absl_flags

from ps_dqn.cluster import spec as cluster_spec
from ps_dqn.cluster.spec import ClusterSpecError
from ps_dqn.flags import servers

# Of each job: the flag of its addresses, and that of how many there are.
FLAGS = {
    "ps": ("ps_hosts", "num_ps"),
    "worker": ("worker_hosts", "num_workers"),
    "replay": ("replay_hosts", "num_replay_servers"),
    "actor": ("actor_hosts", "num_actors"),
}


def addresses(values: absl_flags.FlagValues, job: str) -> tuple[str, ...]:
    """The addresses of a job's tasks.

    Raises:
        ClusterSpecError: there are more or fewer than is said beside them.
    """
    hosts, count = (values[name] for name in FLAGS[job])
    found = cluster_spec.numbered(hosts.value, count.value)
    if found and count.present and len(found) != count.value:
        raise ClusterSpecError(
            f"--{count.name}={count.value}: the cluster has {len(found)} of them; say as many "
            f"addresses (--{hosts.name}={','.join(hosts.value)}), or leave it out"
        )
    return found


def implied(values: absl_flags.FlagValues) -> set[str]:
    """The counts that other flags say.

    A flagfile leaves them out, as they would contradict what is said beside it.
    """
    listed = {
        count
        for hosts, count in FLAGS.values()
        if values[hosts].value and not cluster_spec.is_numbered(values[hosts].value)
    }
    return listed | ({"num_workers"} if servers.topology(values).says_workers else set())
