"""Which actions an environment allows, where it says so: one truth value for each action.

Gymnasium's own environments have them in their infos (`info["action_mask"]`), others offer a method
`action_masks()`. What says nothing allows everything, and so does what allows nothing: there is
nothing to be done in a terminal state.

Shapes: E environments, A actions.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv

from ps_dqn.errors import UsageError

KEY, METHOD = "action_mask", "action_masks"


class MasksInInfos(gymnasium.Wrapper, RecordConstructorArgs):
    """Puts what an environment's `action_masks()` says into its infos."""

    def __init__(self, env: gymnasium.Env):
        """Asks an environment that has the method."""
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Begins an episode."""
        observation, info = self.env.reset(**kwargs)
        return observation, self._with_masks(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Acts."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, self._with_masks(info)

    def _with_masks(self, info: dict[str, Any]) -> dict[str, Any]:
        return {**info, KEY: np.asarray(self.env.get_wrapper_attr(METHOD)(), np.bool_)}


def wrap(env: gymnasium.Env) -> gymnasium.Env:
    """The environment with masks in its infos, if it has any."""
    return MasksInInfos(env) if env.has_wrapper_attr(METHOD) else env


def are_there(infos: dict[str, Any], num_envs: int, num_actions: int) -> bool:
    """Whether the infos of a vector of E environments have masks.

    Raises:
        UsageError: they are not of A numbers.
    """
    if KEY not in infos:
        return False
    try:
        read(infos, num_envs, num_actions)
    except ValueError:
        raise UsageError(
            f"its action masks are {infos[KEY][0]!r:.100}, and must have one truth value for each "
            f"of its {num_actions} actions: mend them, or say --action_masks=off"
        ) from None
    return True


def read(infos: dict[str, Any], num_envs: int, num_actions: int) -> np.ndarray:
    """The masks in a vector's infos, bool [E, A].

    Raises:
        ValueError: one is not of A numbers.
    """
    masks = np.ones((num_envs, num_actions), np.bool_)
    if KEY not in infos:
        return masks
    said = infos.get(f"_{KEY}", np.ones(num_envs, np.bool_))
    found = np.array(list(np.asarray(infos[KEY])[said]), np.bool_)  # of those that say so
    if found.shape[1:] != (num_actions,):
        raise ValueError(f"masks of the shape {found.shape[1:]}")
    masks[said] = found | ~found.any(axis=1, keepdims=True)
    return masks


def sample(env: VectorEnv, infos: dict[str, Any], num_actions: int) -> Any:
    """A random action for each environment that its masks allow."""
    actions = env.action_space.sample()
    if KEY not in infos:
        return actions
    allowed = read(infos, env.num_envs, num_actions)
    start = int(getattr(env.single_action_space, "start", 0))
    is_allowed = allowed[np.arange(env.num_envs), actions - start]
    return np.where(is_allowed, actions, allowed.argmax(axis=1) + start).astype(actions.dtype)
