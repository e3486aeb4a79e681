"""What a network can read of an environment's observations."""

import itertools
from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np

from ps_dqn.environments import parts
from ps_dqn.errors import UsageError


def check(env_id: str, space: gymnasium.Space) -> None:
    """Refuses observations that cannot be made numbers of a network, before any are made.

    Raises:
        UsageError: with the environment, and what to do.
    """
    if _has_text(space):
        raise UsageError(
            f"--env_id={env_id}: its observations have text, which a network cannot read: wrap it "
            f"so that they are numbers"
        )
    if not parts.can_pack(space):
        raise UsageError(
            f"--env_id={env_id}: its observations {space} are not always of the same size: wrap it "
            f"so that they are"
        )
    leaves = [(name, leaf) for name, leaf, _ in parts.leaves(space, None)]
    for name, leaf in leaves:
        _check_part(f"--env_id={env_id}: ", name, leaf)
    if not leaves:
        raise _without_numbers(f"--env_id={env_id}: ")
    names = sorted(name for name, _ in leaves)
    for name, other in itertools.pairwise(names):
        if name == other:
            raise UsageError(
                f"--env_id={env_id}: two parts of its observations are called {name}, as nested "
                f"names are joined by dots: rename one"
            )


def _check_part(said: str, name: str, space: gymnasium.Space) -> None:
    """Refuses what is wrong with one part, or with observations that have none, without a name."""
    whose = f"part {name} of its observations" if name else "its observations"
    if "/" in name:
        raise UsageError(f"{said}{whose} has a / in its name, which Keras does not take: rename it")
    if not gymnasium.spaces.flatdim(space):
        if not name:
            raise _without_numbers(said)
        raise UsageError(f"{said}{whose} has no numbers: leave it out")
    if not _fits(space):
        raise UsageError(
            f"{said}numbers of things in {whose} are beyond 32 bits ({space}): wrap it so that "
            f"they are smaller"
        )


def _without_numbers(said: str) -> UsageError:
    return UsageError(f"{said}its observations have no numbers: wrap it so that they have some")


def _fits(space: Any) -> bool:
    """Whether numbers of things can be kept, which is in 32 bits."""
    if isinstance(space, gymnasium.spaces.Discrete):
        first, last = space.start, space.start + space.n
    elif isinstance(space, gymnasium.spaces.MultiDiscrete):
        first, last = np.min(space.start), np.max(space.start + space.nvec)
    else:
        return True
    limits = np.iinfo(np.int32)
    return bool(limits.min <= first and last <= limits.max)


def _has_text(space: gymnasium.Space) -> bool:
    """Whether text is a part of it, which Gymnasium would flatten into codes of characters."""
    spaces = gymnasium.spaces
    branches: Iterable[gymnasium.Space] = ()
    if isinstance(space, spaces.Dict):
        branches = space.spaces.values()
    elif isinstance(space, spaces.Tuple | spaces.OneOf):
        branches = space.spaces
    elif isinstance(space, spaces.Sequence):
        branches = (space.feature_space,)
    return isinstance(space, spaces.Text) or any(map(_has_text, branches))
