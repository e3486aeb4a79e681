"""What a network must fit: observations as they are kept, and actions."""

import dataclasses
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv


@dataclasses.dataclass(frozen=True)
class EnvironmentSpec:
    """What the network must fit, and what counts as solved."""

    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype  # uint8, bool or float32
    num_actions: int
    reward_threshold: float | None
    has_masks: bool = False  # the environment says which actions it allows
    # Dtype of the observations, where float32 does not hold all of it.
    rounded_from: str = dataclasses.field(default="", compare=False)

    @property
    def mask_size(self) -> int:
        """Truth values of a mask of actions, 0 without masks."""
        return self.num_actions if self.has_masks else 0


def of(env: VectorEnv) -> EnvironmentSpec:
    """What a network for a vector must fit, as far as that shows before a reset."""
    space = env.single_observation_space
    return EnvironmentSpec(
        tuple(space.shape or ()),
        _stored_dtype(space),
        int(actions_of(env).n),
        env.spec.reward_threshold if env.spec else None,
        rounded_from=_rounded_from(space),
    )


def actions_of(env: VectorEnv) -> gymnasium.spaces.Discrete:
    """The actions of each of its environments."""
    actions = env.single_action_space
    assert isinstance(actions, gymnasium.spaces.Discrete)  # _check_spaces has refused others
    return actions


def _rounded_from(space: Any) -> str:
    dtype = np.dtype(space.dtype)
    if dtype == np.float64:
        return dtype.name
    is_whole = np.issubdtype(dtype, np.integer)
    most = max(abs(float(space.low.min())), float(space.high.max())) if is_whole else 0.0
    return dtype.name if most > 2**24 else ""


def _stored_dtype(space: Any) -> np.dtype:
    small = space.dtype in (np.uint8, np.bool_)
    return np.dtype(space.dtype if small else np.float32)
