"""Which host answers the bridge's calls to a task."""

import pathlib

from ps_dqn import bridge
from ps_dqn.parameter_host import ParameterHost
from ps_dqn.worker_host import WorkerHost


def make(task: int, worker_dir: pathlib.Path | None = None) -> bridge.Host:
    """The host of a task, from the bridge's number for it and where a worker may keep files."""
    return WorkerHost(task, worker_dir) if task >= 0 else ParameterHost()
