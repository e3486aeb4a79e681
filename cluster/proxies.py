"""Proxies of a process's environment, through which no task of a cluster is reached.

gRPC takes one also to processes of this machine; which hosts it leaves out is in `no_grpc_proxy`,
or in `no_proxy` where there is none.
"""

import os

from ps_dqn.cluster.spec import ClusterSpec

# Where gRPC finds a proxy, and what it leaves out, the first that is there.
PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
LEFT_OUT = ("no_grpc_proxy", "no_proxy")


def go_around(spec: ClusterSpec) -> None:
    """Has gRPC connect to a cluster's tasks directly; to be called before it connects to any.

    Where other code finds proxies stays as it is.
    """
    if not any(os.environ.get(name) for name in PROXIES):
        return
    before = next((os.environ[name] for name in LEFT_OUT if name in os.environ), "")
    tasks = [spec.chief, *(spec.addresses(task.job)[task.index] for task in spec.all_tasks())]
    # gRPC compares with an IPv6 address without its brackets.
    hosts = dict.fromkeys(address.rpartition(":")[0].strip("[]") for address in tasks)
    new = [host for host in hosts if host not in before.split(",")]
    os.environ[LEFT_OUT[0]] = ",".join(filter(None, [before, *new]))
