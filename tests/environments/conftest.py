"""Environments for one test."""

from collections.abc import Callable, Iterator

import pytest

from ps_dqn.config import Environment
from ps_dqn.environments import Environments


@pytest.fixture
def opened() -> Iterator[Callable[..., Environments]]:
    """Makes environments and closes them after the test."""
    made: list[Environments] = []

    def make(config: Environment, num_envs: int = 3, seed: int = 0) -> Environments:
        made.append(Environments(config, num_envs))
        made[-1].reset(seed)
        return made[-1]

    yield make
    for each in made:
        each.close()
