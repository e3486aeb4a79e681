"""What a replay server is told to begin with, as the coordinator sends it."""

import json
from typing import Any, NamedTuple

import numpy as np

from ps_dqn.environments import EnvironmentSpec


class Creation(NamedTuple):
    """The inputs of a server's `create`."""

    session: Any  # of the run, int64 []
    run_id: Any  # the same for every session of a run, string []
    config: Any  # the `Config` as JSON, string []
    environment: Any  # what it keeps observations of, as JSON, string []
    place: Any  # index of the server, and how many there are, int64 [2]
    updates: Any  # that the run has made, int64 []


def described(environment: EnvironmentSpec) -> str:
    """What a replay needs to know of an environment, as JSON."""
    return json.dumps(
        {
            "observation_shape": environment.observation_shape,
            "observation_dtype": np.dtype(environment.observation_dtype).name,
            "num_actions": environment.num_actions,
            "has_masks": environment.has_masks,
        }
    )


def read(text: str) -> EnvironmentSpec:
    """What was described; what a replay has no need of is left out."""
    content = json.loads(text)
    return EnvironmentSpec(
        tuple(content["observation_shape"]),
        np.dtype(content["observation_dtype"]),
        content["num_actions"],
        None,
        has_masks=content["has_masks"],
    )


def run_of(creation: Creation) -> tuple[Any, ...]:
    """What two sessions of a run have in common."""
    texts = (creation.run_id, creation.config, creation.environment)
    return (*texts, *map(int, creation.place))
