"""What a test sees of pods that run: what they tell, who called whom, what programs have loaded."""

import pathlib
import re

from support.pods.cluster import Cluster
from support.pods.pod import Pod

HEALTH = 8080  # port


def metric(cluster: Cluster, name: str, metric: str) -> float:
    """Of a pod; 0 where it does not say."""
    pod = cluster.pod(name)
    page = cluster.get(pod, HEALTH, "/metrics")[1] if pod else ""
    found = re.search(rf"^{metric} (\S+)$", page, re.MULTILINE)
    return float(found[1]) if found else 0.0


def role(pod: Pod) -> str:
    """What its manifest calls it."""
    return pod.labels["app.kubernetes.io/component"]


def calls(cluster: Cluster) -> tuple[set[tuple[str, str]], dict[str, int]]:
    """Connections so far: roles whose pods have some, and pods that were kept from theirs."""
    roles = {pod.name: role(pod) for pod in cluster.pods()}
    used, refused = set(), {}
    for (source, target, verdict), count in cluster.connections().items():
        if count and verdict == "refused":
            refused[f"{source} > {target}"] = count
        elif count and source in roles and target in roles:
            used.add((roles[source], roles[target]))
    return used, refused


def has_loaded(pod: Pod, library: str) -> bool:
    """Whether a file with this in its path is in the memory of a pod's program."""
    return library in pathlib.Path("/proc", str(pod.pid), "maps").read_text()
