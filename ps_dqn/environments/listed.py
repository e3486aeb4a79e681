"""Actions of several parts, or continuous ones, as a list that a DQN chooses from.

Combinations of discrete parts are taken as they are. Of continuous numbers a grid is made
(`--action_bins`): what lies between its points cannot be done.
"""

import functools
import itertools
import math
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
    numbers = math.prod(space.shape)
    if is_box and bins < 2:
        raise UsageError(
            f"--env_id={env_id}: its actions are {space}, and a DQN chooses from a list: say "
            f"--action_bins=5 (or another) for 5 evenly spaced values of each number, which are "
            f"{5**numbers:,} actions"
        )
    if is_box and not space.is_bounded():
        raise UsageError(
            f"{flag}: the actions of {env_id} are {space}, without bounds: wrap it so that they "
            f"have some"
        )
    count = math.prod(map(len, _values(space, bins)))
    if count > MOST:
        what = flag if is_box else f"--env_id={env_id}"
        advice = "say fewer, or " if is_box else ""
        raise UsageError(
            f"{what}: its actions {space} are {count:,} in all, more than {MOST:,}: {advice}wrap "
            f"it so that it offers a shorter list"
        )
    return [functools.partial(ListedActions, bins=bins)]


def _values(space: Any, bins: int) -> list[np.ndarray]:
    """Of each part of an action."""
    if isinstance(space, spaces.Box):
        bounds = zip(space.low.ravel(), space.high.ravel(), strict=True)
        return [np.linspace(low, high, bins) for low, high in bounds]
    if isinstance(space, spaces.MultiDiscrete):
        starts = np.broadcast_to(getattr(space, "start", 0), space.nvec.shape)
        pairs = zip(starts.ravel(), space.nvec.ravel(), strict=True)
        return [np.arange(start, start + count) for start, count in pairs]
    return [np.arange(2)] * math.prod(space.shape)
