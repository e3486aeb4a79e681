"""Whether tasks answer: TensorFlow waits for one that is stopped or cut off, for good."""

import time
from collections.abc import Mapping
from typing import Any

from ps_dqn.cluster.health import GET_STATUS, channel_to
from ps_dqn.cluster.spec import Task

# How long an answer may take (seconds).
DEADLINE = 1.5
# Questions in a row without an answer, at the least: this process may have been stopped itself.
LEAST_MISSES = 3


class Watch:
    """Asks the servers of tasks whether they are there."""

    def __init__(self, addresses: Mapping[Task, str]):
        """Has asked nobody yet.

        Args:
            addresses: of the tasks, host:port.
        """
        self._tasks = {task: _Asked(address) for task, address in addresses.items()}

    def look(self) -> dict[Task, float]:
        """Asks every task once, all at the same time; takes `DEADLINE` where one is silent.

        Returns:
            For how long each task that does not answer has not (seconds).
        """
        answers = [asked.ask() for asked in self._tasks.values()]
        for asked, answer in zip(self._tasks.values(), answers, strict=True):
            asked.take(answer)
        now = time.monotonic()
        return {
            task: now - asked.last_answer
            for task, asked in self._tasks.items()
            if asked.misses >= LEAST_MISSES
        }

    def has_answered(self, task: Task) -> bool:
        """Whether a task has ever answered."""
        return self._tasks[task].has_answered

    def heard(self, task: Task) -> None:
        """A task has answered somebody else of this process; on any thread."""
        self._tasks[task].hear()


class _Asked:
    """A task that is asked, and what it has answered."""

    def __init__(self, address: str):
        self._address = address
        self.last_answer, self.misses, self.has_answered = time.monotonic(), 0, False
        self._connect()

    def ask(self) -> Any:
        """Asks, and does not wait."""
        return self._question.future(b"", timeout=DEADLINE)

    def take(self, answer: Any) -> None:
        """Waits for what becomes of a question."""
        if answer.exception() is None:
            self.hear()
            return
        self.misses += 1
        # A task that was started again may have another address, which gRPC would not ask the DNS
        # for within half a minute.
        self._channel.close()
        self._connect()

    def hear(self) -> None:
        """It has answered."""
        self.last_answer, self.misses, self.has_answered = time.monotonic(), 0, True

    def _connect(self) -> None:
        self._channel = channel_to(self._address)
        self._question = self._channel.unary_unary(GET_STATUS)
