"""What a network can read of an environment's observations."""

from collections.abc import Iterable

import gymnasium

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
