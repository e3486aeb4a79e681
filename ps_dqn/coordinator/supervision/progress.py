"""Which workers go on with what they do, by their pulses: a closure may take long and be well."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from ps_dqn.cluster.pulse import Heard
from ps_dqn.cluster.spec import Task
from ps_dqn.telemetry import pulse


class Progress:
    """Compares what workers say that they have made."""

    def __init__(self, newest: Callable[[], Mapping[Task, Heard]]):
        """Has looked at nothing yet.

        Args:
            newest: the last pulse of each task; nothing of one whose pulses do not come through.
        """
        self._newest = newest
        self._made: dict[Task, tuple[tuple[Any, ...], float]] = {}  # and when that was new

    def seconds(self) -> dict[int, float]:
        """For how long each worker that was heard has made nothing more; to be asked often."""
        now = time.monotonic()
        for task, heard in self._newest().items():
            made = pulse.work(heard.content)
            if task.job == "worker" and self._made.get(task, (None, 0.0))[0] != made:
                self._made[task] = made, heard.at
        return {task.index: now - at for task, (_, at) in self._made.items()}
