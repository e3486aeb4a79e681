"""Whether tasks answer: TensorFlow waits for one that is stopped or cut off, for good."""

import time
from collections.abc import Mapping
from typing import Any

from cluster.health import GET_STATUS, channel_to
from cluster.spec import Task

# How long an answer may take, and from one try to connect to the next (seconds).
DEADLINE, RETRY = 1.5, 0.25
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


class _Asked:
    """A task that is asked, and what it has answered."""

    def __init__(self, address: str):
        channel = channel_to(address, retry_seconds=RETRY, connect_seconds=DEADLINE)
        self._question = channel.unary_unary(GET_STATUS)
        self.last_answer, self.misses = time.monotonic(), 0

    def ask(self) -> Any:
        """Asks, and does not wait."""
        return self._question.future(b"", timeout=DEADLINE)

    def take(self, answer: Any) -> None:
        """Waits for what becomes of a question."""
        if answer.exception() is None:
            self.last_answer, self.misses = time.monotonic(), 0
        else:
            self.misses += 1
