"""Which of a job's tasks this process is, where the system that started it knows."""

import os
import re
import socket
from collections.abc import Mapping

from ps_dqn.cluster.spec import ClusterSpecError

# A StatefulSet's pod by the downward API, a pod of an indexed Job.
VARIABLES = ("POD_INDEX", "JOB_COMPLETION_INDEX")


def is_of_a_job(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is a pod of an indexed Job, which a pod that leaves with 0 completes."""
    return bool(environment.get(VARIABLES[1], ""))


def find(environment: Mapping[str, str] = os.environ, host_name: str | None = None) -> int:
    """The number from the environment, or the one that ends the host name.

    Args:
        environment: variables by name; an empty one counts as none.
        host_name: None asks the system.

    Raises:
        ClusterSpecError: there is no number anywhere, or a variable is none.
    """
    for name in VARIABLES:
        text = environment.get(name, "")
        if text:
            if not (text.isascii() and text.isdigit()):
                raise ClusterSpecError(f"{name}={text}: must be a whole number, the task's index")
            return int(text)
    host_name = socket.gethostname() if host_name is None else host_name
    match = re.search(r"-(\d+)$", host_name.split(".")[0], re.ASCII)
    if match is None:
        raise ClusterSpecError(
            f"which task this is cannot be told: set --task_index or {' or '.join(VARIABLES)} (the "
            f"host name {host_name!r} does not end in -NUMBER)"
        )
    return int(match[1])
