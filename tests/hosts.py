"""What a worker hosts in tests: the real experience, and methods that show the bridge at work."""

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ps_dqn.experience import ExperienceHost

# Two workers of the in-process cluster meet here, so a test knows that both took part.
_both_workers = threading.Barrier(2)


class RoutingHost:
    """An `ExperienceHost` and the test methods, behind the one token a process has."""

    def __init__(self, worker: int):
        self._experience = ExperienceHost(worker)
        self._worker = worker
        self._count = 0

    @property
    def methods(self) -> dict[str, Callable[..., Sequence[Any]]]:
        return self._experience.methods | {
            "pid": self._pid,
            "count": self._counted,
            "echo": self._echo,
            "fail": self._fail,
            "meet": self._meet,
        }

    def close(self) -> None:
        self._experience.close()

    def _pid(self) -> list[Any]:
        return [np.int64(os.getpid())]

    def _counted(self) -> list[Any]:
        self._count += 1
        return [np.int32(self._worker), np.int64(self._count)]

    def _echo(self, *arrays: np.ndarray) -> list[Any]:
        return list(arrays)

    def _fail(self, text: bytes) -> list[Any]:
        raise ValueError(text.decode())

    def _meet(self) -> list[Any]:
        _both_workers.wait(timeout=60)
        return [np.int32(self._worker)]
