"""What a task hosts in tests: the real host, and methods that show the bridge at work."""

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ps_dqn.errors import UsageError
from ps_dqn.parameter_server.host import ParameterHost
from ps_dqn.worker.host import WorkerHost

# Two tasks of the in-process cluster meet here, so a test knows that both took part.
_two_tasks = threading.Barrier(2)


class RoutingHost:
    """The real host of a task and the test methods, behind the one token a process has."""

    def __init__(self, task: int):
        self._real = WorkerHost(task, None) if task >= 0 else ParameterHost()
        self._task = task
        self._count = 0
        self._kept: list[Any] = []

    @property
    def methods(self) -> dict[str, Callable[..., Sequence[Any]]]:
        return self._real.methods | {
            "pid": self._pid,
            "count": self._counted,
            "echo": self._echo,
            "nest": self._nest,
            "fail": self._fail,
            "refuse": self._refuse,
            "meet": self._meet,
            "keep": self._keep,
            "kept": self._give_back,
        }

    @property
    def pulse(self) -> Any:
        return self._real.pulse

    @property
    def recording(self) -> Any:
        return self._real.recording

    def leave(self) -> None:
        self._real.leave()

    def close(self) -> None:
        """Lets go of what it holds, whatever became of its last closure."""
        getattr(self._real, "close", self._real.leave)()

    def _pid(self) -> list[Any]:
        return [np.int64(os.getpid())]

    def _counted(self) -> list[Any]:
        self._count += 1
        return [np.int32(self._task), np.int64(self._count)]

    def _echo(self, *arrays: np.ndarray) -> list[Any]:
        return list(arrays)

    def _nest(self, name: bytes, *arrays: np.ndarray) -> list[Any]:
        x, y, *rest = arrays
        return [name, (x, y), rest]

    def _fail(self, text: bytes) -> list[Any]:
        raise ValueError(text.decode())

    def _refuse(self, text: bytes) -> list[Any]:
        raise UsageError(text.decode())

    def _meet(self) -> list[Any]:
        _two_tasks.wait(timeout=60)
        return [np.int32(self._task)]

    def _keep(self, array: np.ndarray) -> list[Any]:
        self._kept.append(array)
        return [np.int32(len(self._kept))]

    def _give_back(self) -> list[Any]:
        kept, self._kept = self._kept, []
        return [np.stack(kept)]
