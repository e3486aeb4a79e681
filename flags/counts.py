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


def addresses(values: absl_flags.FlagValues, job: str, first: int = 0) -> tuple[str, ...]:
    """The addresses of a job's tasks.

    Args:
        values: the flags.
        job: of `FLAGS`.
        first: the number of the first of them, where an address has `{}`.

    Raises:
        ClusterSpecError: there are more or fewer than is said beside them.
    """
    hosts, count = (values[name] for name in FLAGS[job])
    found = cluster_spec.numbered(hosts.value, _wanted(values, job), first)
    if found and count.present and len(found) != count.value:
        raise ClusterSpecError(
            f"--{count.name}={count.value}: the cluster has {len(found)} of them; say as many "
            f"addresses (--{hosts.name}={','.join(hosts.value)}), or leave it out"
        )
    return found


def _wanted(values: absl_flags.FlagValues, job: str) -> int:
    """How many tasks an address with `{}` stands for."""
    count, of = values[FLAGS[job][1]], servers.topology(values)
    if job != "worker" or count.present or not of.says_workers:
        return int(count.value)
    return of.num_learners if values.actor_hosts else of.num_workers


def of_all(
    values: absl_flags.FlagValues,
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The addresses of parameter servers, workers, replay servers and actors that are no workers.

    Where there are replay servers, actors are workers: the last ones, behind the learners.

    Raises:
        ClusterSpecError: of a job there are more or fewer than is said beside them.
    """
    ps, workers, replay = (addresses(values, each) for each in ("ps", "worker", "replay"))
    if not replay:
        return ps, workers, replay, addresses(values, "actor")
    return ps, workers + addresses(values, "actor", len(workers)), replay, ()


def are_numbered(values: absl_flags.FlagValues, job: str) -> bool:
    """Whether a task of a job has its place by its number, as an address has `{}`."""
    jobs = ("worker", "actor") if job == "worker" else (job,)
    return any(cluster_spec.is_numbered(values[FLAGS[each][0]].value) for each in jobs)


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
