"""Which host answers the bridge's calls to a task."""

from ps_dqn import bridge
from ps_dqn.parameter_host import ParameterHost
from ps_dqn.worker_host import WorkerHost


def make(task: int) -> bridge.Host:
    """The host of a task, from the bridge's number for it."""
    return WorkerHost(task) if task >= 0 else ParameterHost()
