"""What a network must fit: observations as they are kept, and actions."""

import dataclasses
import math
from typing import NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from ps_dqn.environments import listed, parts
from ps_dqn.environments.parts import Part

# Where a vector's metadata have what its environments are without the wrappers of this project.
KEY = "own_spaces"


class OwnSpaces(NamedTuple):
    """What an environment returns and takes itself, with its user's wrappers."""

    observation: gymnasium.Space
    action: gymnasium.Space


@dataclasses.dataclass(frozen=True)
class EnvironmentSpec:
    """What the network must fit, and what counts as solved.

    Observations of parts are rows of bytes, uint8 [bytes] or [frames, bytes].
    """

    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype  # uint8, bool or float32
    num_actions: int
    reward_threshold: float | None
    has_masks: bool = False  # the environment says which actions it allows
    parts: tuple[Part, ...] = ()
    # Dtype of the observations, where float32 does not hold all of it.
    rounded_from: str = dataclasses.field(default="", compare=False)
    # Choices of each part of an action, of which the last varies fastest; none: actions are whole.
    branches: tuple[int, ...] = ()
    # None where nothing of the environment itself is known.
    own: OwnSpaces | None = dataclasses.field(default=None, compare=False)

    @property
    def num_outputs(self) -> int:
        """Values that a network has of a state."""
        return sum(self.branches) or self.num_actions

    @property
    def mask_size(self) -> int:
        """Truth values of a mask of actions, 0 without masks."""
        return self.num_actions if self.has_masks else 0

    @property
    def frames(self) -> tuple[int, ...]:
        """Axes before those of a part: how many frames are stacked, if any are."""
        return self.observation_shape[:-1]

    @property
    def image_axes(self) -> tuple[int, int] | None:
        """Axes of an observation's height and width; None where it is no image."""
        return None if self.parts else image_axes(self.observation_shape)

    @property
    def num_inputs(self) -> int:
        """Numbers of an observation as a network reads them."""
        if not self.parts:
            return math.prod(self.observation_shape)
        return math.prod(self.frames) * sum(math.prod(part.read_shape) for part in self.parts)

    @property
    def quantities_of(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what has a scale of its own, no bytes and no things: of each part, by name."""
        if self.parts:
            quantities = (part for part in self.parts if part.is_quantity)
            return {part.name: (*self.frames, *part.shape) for part in quantities}
        is_quantity = self.observation_dtype == np.float32
        return {"": self.observation_shape} if is_quantity else {}

    @property
    def num_quantities(self) -> int:
        """Numbers of an observation that have a scale of their own."""
        return sum(map(math.prod, self.quantities_of.values()))

    def quantities(self, observations: np.ndarray) -> np.ndarray:
        """Those numbers, part after part.

        Args:
            observations: [n, …].

        Returns:
            float32 [n, num_quantities].
        """
        if not self.parts:
            return observations.reshape(len(observations), self.num_quantities)
        count, shapes = len(observations), self.quantities_of  # NumPy finds no width of no rows
        found = [
            parts.unpacked(part, piece).reshape(count, math.prod(shapes[part.name]))
            for part, piece in parts.split(self.parts, observations)
            if part.is_quantity
        ]
        return np.concatenate(found, axis=1)

    def describe_actions(self) -> str:
        """For people."""
        if not self.branches:
            return f"{self.num_actions} actions"
        counts = "×".join(map(str, self.branches))
        return f"{self.num_actions:,} actions ({counts}), whose parts are chosen one by one"

    def describe_observation(self) -> str:
        """For people."""
        if self.parts:
            return ", ".join(map(str, self.parts)) + "".join(f", × {k}" for k in self.frames)
        shape = "×".join(map(str, self.observation_shape)) or "1"
        return shape + (f" ({self.rounded_from}, kept as float32)" if self.rounded_from else "")


def of(env: VectorEnv, branching: bool) -> EnvironmentSpec:
    """What a network for a vector must fit, as far as that shows before a reset.

    Args:
        env: the vector.
        branching: values are of each part's choices.
    """
    space = env.single_observation_space
    return EnvironmentSpec(
        tuple(space.shape or ()),
        parts.kept_dtype(space),
        int(actions_of(env).n),
        env.spec.reward_threshold if env.spec else None,
        parts=env.metadata.get(parts.KEY, ()),
        rounded_from=parts.rounded_from(space),
        branches=env.metadata.get(listed.KEY, ()) if branching else (),
        own=env.metadata.get(KEY),
    )


def actions_of(env: VectorEnv) -> gymnasium.spaces.Discrete:
    """The actions of each of its environments."""
    actions = env.single_action_space
    assert isinstance(actions, gymnasium.spaces.Discrete)  # others were refused
    return actions


def image_axes(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Axes of height and width of an image or a stack of them; None where it is neither.

    Images are [H, W, C], stacks of frames [k, H, W] or [k, H, W, C]. Of three axes the first counts
    as k if it is smaller than both others. Two axes may as well be a stack of vectors.
    """
    if len(shape) not in (3, 4):
        return None
    is_stack = len(shape) == 4 or shape[0] < min(shape[1:])
    return (1, 2) if is_stack else (0, 1)
