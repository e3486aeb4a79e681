"""Actions of several parts, or continuous ones, as a list that a DQN chooses from.

Combinations of discrete parts are taken as they are. Of continuous numbers a grid is made
(`--action_bins`): what lies between its points cannot be done. With `--branching` the list may be
long, as a network has values for the choices of each part only.
"""

import dataclasses
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
from gymnasium.vector import VectorActionWrapper, VectorEnv
from gymnasium.vector.utils import batch_space

from ps_dqn.environments.named import Wrap
from ps_dqn.errors import UsageError

# Actions of a list, or choices of all branches: a network has outputs for each, and all have to be
# tried.
MOST = 1024
# Actions of a list where there are branches: numbers of actions are of 32 bits.
MOST_OF_BRANCHES = 2**31 - 1
# Where an environment's metadata have how many choices each part of its actions has.
KEY = "action_parts"


@dataclasses.dataclass(frozen=True)
class OwnActions:
    """Numbers of actions, counted from 0, as an environment's own actions.

    Attributes:
        values: of each part of an action, which are all combined, the last part varying fastest.
        dtype: of an action.
        shape: of an action.
    """

    values: tuple[np.ndarray, ...]
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Values of each part."""
        return tuple(map(len, self.values))

    def of(self, numbers: np.ndarray) -> np.ndarray:
        """From numbers int [...] to actions [..., *shape]."""
        places = np.unravel_index(numbers, self.counts)
        chosen = [values[place] for values, place in zip(self.values, places, strict=True)]
        return np.stack(chosen, axis=-1).astype(self.dtype).reshape((*numbers.shape, *self.shape))

    def nearest(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of those that are the nearest.

        Args:
            actions: finite, [N, *shape].

        Returns:
            Numbers, int64 [N]; and how far each action is from that, its farthest part, as a share
            of what the part ranges over, float64 [N].
        """
        places, moved = [], np.zeros(len(actions))
        columns = actions.reshape(len(actions), len(self.values)).astype(np.float64).T
        for values, column in zip(self.values, columns, strict=True):
            place = np.searchsorted((values[1:] + values[:-1]) / 2, column)
            extent = float(values[-1] - values[0]) or 1.0  # of one value: as far as it is
            moved = np.maximum(moved, np.abs(values[place] - column) / extent)
            places.append(place)
        return np.ravel_multi_index(tuple(places), self.counts), moved


def own_actions(space: Any, bins: int) -> OwnActions:
    """The actions of a space that `wrappers` did not refuse."""
    return OwnActions(tuple(_values(space, bins)), np.dtype(space.dtype), tuple(space.shape))


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
        self._actions = own_actions(env.action_space, bins)
        self.metadata = {**env.metadata, KEY: self._actions.counts}
        self.action_space = spaces.Discrete(math.prod(self._actions.counts))

    def action(self, action: Any) -> Any:
        """What the environment is given."""
        return self._actions.of(np.array(action))


class ListedVectorActions(VectorActionWrapper):
    """The same around an environment's own vector form."""

    def __init__(self, env: VectorEnv, bins: int):
        """Lists the actions of each of its environments; see `ListedActions`."""
        super().__init__(env)
        self._actions = own_actions(env.single_action_space, bins)
        self.metadata = {**env.metadata, KEY: self._actions.counts}
        self.single_action_space = spaces.Discrete(math.prod(self._actions.counts))
        self.action_space = batch_space(self.single_action_space, env.num_envs)

    def actions(self, actions: np.ndarray) -> np.ndarray:
        """What the environments are given."""
        return self._actions.of(actions)


def wrappers(env_id: str, space: Any, bins: int, branching: bool) -> list[Wrap]:
    """What makes a list of an environment's actions, where they are none.

    Args:
        env_id: for people.
        space: of the actions.
        bins: `--action_bins`.
        branching: `--branching`.

    Raises:
        UsageError: they are too many or none, or continuous without `--action_bins`, or have bounds
            between which there are no values.
    """
    flag, is_box = f"--action_bins={bins}", isinstance(space, spaces.Box)
    if bins and not is_box:
        raise UsageError(
            f"{flag}: has no effect, as the actions of {env_id} are {space}: leave it out"
        )
    if not is_box and not isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        if branching:
            raise UsageError(
                f"--branching=true: has no effect, as the actions of {env_id} are {space}: leave "
                f"it out"
            )
        return []
    if not math.prod(space.shape):
        raise UsageError(
            f"--env_id={env_id}: its actions {space} have no numbers, so there is nothing to "
            f"choose: wrap it so that it offers a list of actions"
        )
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
    if is_box and not _has_width(space):
        raise UsageError(
            f"{flag}: the actions of {env_id} are {space}, whose bounds are farther apart than a "
            f"number can say: wrap it so that they are closer"
        )
    if not _are_few(space, bins, branching):
        what, advice = (flag, "say fewer, or ") if is_box else (f"--env_id={env_id}", "")
        few = f"{MOST:,} combinations"
        if branching:
            few = f"{MOST:,} choices or {MOST_OF_BRANCHES:,} combinations"
        else:
            advice += "say --branching, or "
        raise UsageError(
            f"{what}: its actions {space} make more than {few}: {advice}wrap it so that it offers "
            f"a shorter list"
        )
    return [functools.partial(ListedActions, bins=bins)]


def _has_width(space: spaces.Box) -> bool:
    """Whether bounds are as far apart as a number can say."""
    bounds = zip(map(float, space.low.flat), map(float, space.high.flat), strict=True)
    return all(math.isfinite(high - low) for low, high in bounds)


def _are_few(space: Any, bins: int, branching: bool) -> bool:
    """Whether the list is short enough; found without making it, as it may not fit anywhere."""

    def counts() -> Iterable[int]:
        if isinstance(space, spaces.MultiDiscrete):
            return map(int, space.nvec.flat)
        return itertools.repeat(bins or 2, math.prod(space.shape))

    most = MOST_OF_BRANCHES if branching else MOST
    if not all(count <= most for count in itertools.accumulate(counts(), operator.mul)):
        return False
    return not branching or sum(counts()) <= MOST


def _values(space: Any, bins: int) -> list[np.ndarray]:
    """Of each part of an action."""
    if isinstance(space, spaces.Discrete):
        return [np.arange(space.start, space.start + space.n)]
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
