"""What the worker's tests share."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.worker_calls import Open, Worker


@pytest.fixture
def opened() -> Iterator[Open]:
    """Makes workers that have begun a closure; their environments are ended after the test."""
    made: list[Worker] = []

    def make(index: int = 0, **values: Any) -> Worker:
        made.append(Worker(index, **values))
        made[-1].begin()
        return made[-1]

    yield make
    for each in made:
        each.host.close()
