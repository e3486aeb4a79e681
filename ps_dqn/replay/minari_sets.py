"""Minari's data sets as the arrays of a file of transitions.

They have what environments return and take themselves. Here it becomes what is kept of it, as this
project's wrappers have it: rows of bytes, stacks of frames, and numbers of actions.

Shapes: T steps of an episode, N of all.
"""

import dataclasses
from typing import Any

import numpy as np
from gymnasium import spaces

from ps_dqn.environments import EnvironmentSpec, listed, parts, raw
from ps_dqn.environments.interface import Interface
from ps_dqn.environments.specification import OwnSpaces
from ps_dqn.errors import UsageError, needs_extra


def read(
    name: str, environment: EnvironmentSpec, bins: int, where: str
) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """Reads all episodes of a data set of this machine.

    Args:
        name: of it.
        environment: what its observations and actions must be of.
        bins: `--action_bins`.
        where: how errors begin.

    Returns:
        The arrays that a file of transitions has, [N, …]; and how far each action was moved to the
        one that it is taken for, float [N], None where a list of actions is the environment's own.

    Raises:
        UsageError: it cannot be read, or is of another environment; in one line.
    """
    try:
        import minari
    except ImportError:
        raise needs_extra(where, "minari", "minari") from None
    try:
        found = minari.load_dataset(name)
        played = list(found.iterate_episodes())
    except FileNotFoundError:
        raise UsageError(
            f"{where}: is not on this machine: `minari download {name}` brings it here"
        ) from None
    except (OSError, ValueError, ImportError) as error:
        raise UsageError(f"{where}: cannot be read ({error})") from None
    if not played:
        raise UsageError(f"{where}: has no steps")
    assert environment.own is not None  # whoever makes environments says so
    theirs = OwnSpaces(found.observation_space, found.action_space)
    reader = _Reader(theirs, environment, environment.own, bins, where)
    observed = [reader.observations(each.observations) for each in played]
    actions, moved = reader.actions([each.actions for each in played])
    truncated = np.concatenate([each.truncations for each in played])
    # An episode that nobody ended was cut off: another follows.
    truncated[np.cumsum([len(each.rewards) for each in played]) - 1] = True
    arrays = {
        "observations": np.concatenate([each[:-1] for each in observed]),
        "next_observations": np.concatenate([each[1:] for each in observed]),
        "actions": actions,
        "rewards": np.concatenate([each.rewards for each in played]),
        "terminated": np.concatenate([each.terminations for each in played]),
        "truncated": truncated,
    }
    return arrays, moved


class _Reader:
    """Makes of a data set's observations and actions what is kept of the environment's."""

    def __init__(
        self, theirs: OwnSpaces, spec: EnvironmentSpec, own: OwnSpaces, bins: int, where: str
    ):
        """Refuses spaces that are others than the environment's."""
        # What is stored by names lost the order of the environment's.
        seen, does = _ordered(theirs.observation, own.observation), theirs.action
        self._theirs, self._own, self._where = OwnSpaces(seen, does), own, where
        self._listed = listed.own_actions(own.action, bins)
        self._has_parts = bool(spec.parts)
        if self._has_parts:
            is_alike = parts.can_pack(seen) and parts.parts_of(seen) == spec.parts
        else:
            is_alike = isinstance(seen, spaces.Box)  # whose shape is looked at with the numbers
        if not is_alike:
            raise UsageError(self._unlike("observations", seen, own.observation))
        if type(does) is not type(own.action) or does.shape != own.action.shape:
            raise UsageError(self._unlike("actions", does, own.action))
        # Things are counted from where the data set counts them.
        one_frame = dataclasses.replace(spec, observation_shape=spec.observation_shape[-1:])
        self._interface = Interface(where, one_frame, self._theirs, self._listed, False, 0, 0.0)
        rank = 1 if self._has_parts else len(own.observation.shape or ())
        self._frames = spec.observation_shape[: len(spec.observation_shape) - rank]
        self._one = spec.observation_shape[len(self._frames) :]

    def observations(self, seen: Any) -> np.ndarray:
        """Those of an episode and the one after its last step, [T + 1, …]."""
        if self._has_parts:
            try:
                arrays, is_one = raw.arrays(self._interface, seen)
                if is_one:
                    raise ValueError("one observation alone is in the place of an episode's")
                seen = raw.rows_of(self._interface, arrays)
            except ValueError as error:
                raise UsageError(f"{self._where}: {' '.join(str(error).split())}") from None
        if not self._frames or seen.shape[1:] != self._one:
            return seen
        # As of environments, whose first observation stands for the frames before it.
        steps, back = np.arange(len(seen)), np.arange(self._frames[0])[::-1]
        return seen[np.maximum(steps[:, None] - back, 0)]

    def actions(self, done: list[Any]) -> tuple[np.ndarray, np.ndarray | None]:
        """From each episode's to numbers counted from 0, int [N], and how far each was moved."""
        actions = np.concatenate(done)
        if isinstance(self._theirs.action, spaces.Discrete):
            return actions - self._theirs.action.start, None
        if not np.isfinite(actions).all():
            raise UsageError(f"{self._where}: actions are not all finite: mend or leave out those")
        numbers, moved = self._listed.nearest(actions)
        if isinstance(self._own.action, spaces.Box):
            return numbers, moved
        if moved.any():
            step = int(np.argmax(moved > 0))
            raise UsageError(
                f"{self._where}: step {step} has the action {actions[step].tolist()}, which is "
                f"none of {self._own.action}"
            )
        return numbers, None

    def _unlike(self, what: str, theirs: Any, own: Any) -> str:
        return (
            f"{self._where}: its {what} are {' '.join(str(theirs).split())}, and those of the "
            f"environment are {' '.join(str(own).split())}: they must be alike"
        )


def _ordered(theirs: spaces.Space, own: spaces.Space) -> spaces.Space:
    """A space whose names are in the order of another's, where both have the same ones."""
    if isinstance(theirs, spaces.Dict) and isinstance(own, spaces.Dict):
        if theirs.spaces.keys() != own.spaces.keys():
            return theirs
        pairs = own.spaces.items()
        return spaces.Dict([(name, _ordered(theirs[name], each)) for name, each in pairs])
    if isinstance(theirs, spaces.Tuple) and isinstance(own, spaces.Tuple):
        if len(theirs.spaces) != len(own.spaces):
            return theirs
        return spaces.Tuple(list(map(_ordered, theirs.spaces, own.spaces)))
    return theirs
