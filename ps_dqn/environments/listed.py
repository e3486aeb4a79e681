"""Actions of several parts, or continuous ones, as a list that a DQN chooses from.

Combinations of discrete parts are taken as they are. Of continuous numbers a grid is made
(`--action_bins`): what lies between its points cannot be done.
"""

import functools
import itertools
import math
import operator
from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from ps_dqn.environments.named import Wrap
from ps_dqn.errors import UsageError

# Actions of a list: a network has outputs for each, and all have to be tried.
MOST = 1024


class ListedActions(gymnasium.ActionWrapper, RecordConstructorArgs):
    """Action i of A is the i-th combination, the last part varying fastest."""

    def __init__(self, env: gymnasium.Env, bins: int):
        """Lists an environment's actions.

        Args:
            env: of Box, MultiDiscrete or MultiBinary actions.
            bins: values along each number of a Box.
        """
        RecordConstructorArgs.__init__(self, bins=bins)
        gymnasium.ActionWrapper.__init__(self, env)
        space: Any = env.action_space
        combinations = itertools.product(*_values(space, bins))
        self._actions = np.array(list(combinations), space.dtype).reshape(-1, *space.shape)
        self.action_space = spaces.Discrete(len(self._actions))

    def action(self, action: Any) -> Any:
        """What the environment is given."""
        return self._actions[int(action)].copy()


def wrappers(env_id: str, space: Any, bins: int) -> list[Wrap]:
    """What makes a list of an environment's actions, where they are none.

    Args:
        env_id: for people.
        space: of the actions.
        bins: `--action_bins`.

    Raises:
        UsageError: they are too many, or continuous without `--action_bins`.
    """
    flag, is_box = f"--action_bins={bins}", isinstance(space, spaces.Box)
    if bins and not is_box:
        raise UsageError(
            f"{flag}: has no effect, as the actions of {env_id} are {space}: leave it out"
        )
    if not is_box and not isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        return []
    if is_box and bins < 2:
        raise UsageError(
            f"--env_id={env_id}: its actions are {space}, and a DQN chooses from a list: say "
            f"--action_bins=5 (or another) for all combinations of 5 evenly spaced values of each "
            f"number, {MOST:,} in all at most"
        )
    if is_box and not space.is_bounded():
        raise UsageError(
            f"{flag}: the actions of {env_id} are {space}, without bounds: wrap it so that they "
            f"have some"
        )
    if not _are_few(space, bins):
        what, advice = (flag, "say fewer, or ") if is_box else (f"--env_id={env_id}", "")
        raise UsageError(
            f"{what}: its actions {space} make more than {MOST:,} combinations: {advice}wrap it so "
            f"that it offers a shorter list"
        )
    return [functools.partial(ListedActions, bins=bins)]


def _are_few(space: Any, bins: int) -> bool:
    """Whether the list is short enough; found without making it, as it may not fit anywhere."""
    counts: Iterable[int] = itertools.repeat(bins or 2, math.prod(space.shape))
    if isinstance(space, spaces.MultiDiscrete):
        counts = map(int, space.nvec.flat)
    return all(count <= MOST for count in itertools.accumulate(counts, operator.mul))


def _values(space: Any, bins: int) -> list[np.ndarray]:
    """Of each part of an action."""
    if isinstance(space, spaces.Box):
        bounds = zip(map(float, space.low.flat), map(float, space.high.flat), strict=True)
        grid = [np.linspace(low, high, bins) for low, high in bounds]
        # Whole numbers may be fewer than bins.
        is_whole = np.issubdtype(space.dtype, np.integer)
        return [np.unique(np.round(each)) if is_whole else each for each in grid]
    if isinstance(space, spaces.MultiDiscrete):
        starts = np.broadcast_to(getattr(space, "start", 0), space.nvec.shape)
        pairs = zip(starts.flat, space.nvec.flat, strict=True)
        return [np.arange(start, start + count) for start, count in pairs]
    return [np.arange(2)] * math.prod(space.shape)
