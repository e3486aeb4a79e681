"""Which actions an environment allows, where it says so: one truth value for each action.

Gymnasium's own environments have them in their infos (`info["action_mask"]`), others offer a method
`action_masks()`. What says nothing allows everything, and so does what allows nothing: there is
nothing to be done in a terminal state.

Shapes: E environments, A actions.
"""

import dataclasses
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv

from ps_dqn.config import Environment
from ps_dqn.environments.specification import EnvironmentSpec
from ps_dqn.errors import UsageError

KEY, METHOD = "action_mask", "action_masks"
NOT_IN_RESET = (
    f"it says which actions it allows (info['{KEY}']), and says so in step, but not in reset: let "
    f"reset say so too, or say --action_masks=off"
)


class MisfitError(ValueError):
    """Masks that are not of one truth value for each action."""

    def __init__(self, said: Any, num_actions: int):
        """Says which they are instead."""
        super().__init__(
            f"its action masks are {said!r:.100}, and must have one truth value for each of its "
            f"{num_actions} actions: mend them, or say --action_masks=off"
        )


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


def check(mask: Any, num_actions: int) -> None:
    """Refuses what is no mask of A actions.

    Raises:
        MisfitError: it is none.
    """
    try:
        is_mask = np.shape(mask) == (num_actions,)
    except ValueError:  # lists of several lengths
        is_mask = False
    if not is_mask:
        raise MisfitError(mask, num_actions)


def are_there(infos: dict[str, Any], num_envs: int, num_actions: int) -> bool:
    """Whether the infos of a vector of E environments have masks.

    Raises:
        UsageError: they are not of A numbers.
    """
    try:
        read(infos, num_envs, num_actions)
    except MisfitError as error:
        raise UsageError(str(error)) from None
    return KEY in infos


def read(infos: dict[str, Any], num_envs: int, num_actions: int) -> np.ndarray:
    """The masks in a vector's infos, bool [E, A].

    Raises:
        MisfitError: one is not of A numbers.
    """
    masks = np.ones((num_envs, num_actions), np.bool_)
    if KEY not in infos:
        return masks
    said = infos.get(f"_{KEY}", np.ones(num_envs, np.bool_))
    try:
        found = np.array(list(np.asarray(infos[KEY])[said]), np.bool_)  # of those that say so
    except (ValueError, TypeError, IndexError):
        raise MisfitError(infos[KEY], num_actions) from None
    if found.shape[1:] != (num_actions,):
        raise MisfitError(infos[KEY], num_actions)
    masks[said] = found | ~found.any(axis=1, keepdims=True)
    return masks


def with_masks(
    config: Environment, spec: EnvironmentSpec, infos: dict[str, Any], num_envs: int
) -> EnvironmentSpec:
    """The same, and whether there are masks, which shows in a reset's infos.

    Raises:
        UsageError: there are none where they are wanted, or none that can be used.
    """
    spec = found(config, spec, infos, num_envs)
    refuse_none(config, spec)
    return spec


def found(
    config: Environment, spec: EnvironmentSpec, infos: dict[str, Any], num_envs: int
) -> EnvironmentSpec:
    """The same, where there may be none even if they are wanted.

    Raises:
        UsageError: there are none that can be used.
    """
    if config.action_masks == "off":
        return spec
    if config.branching and KEY in infos:
        raise UsageError(
            "it says which combinations of its actions it allows, and --branching chooses their "
            "parts one by one: leave it out, or say --action_masks=off"
        )
    return dataclasses.replace(spec, has_masks=are_there(infos, num_envs, spec.num_actions))


def refuse_none(config: Environment, spec: EnvironmentSpec) -> None:
    """Refuses an environment without masks where they are wanted.

    Raises:
        UsageError: as said.
    """
    if config.action_masks == "on" and not spec.has_masks:
        raise UsageError(
            f"it does not say which actions it allows (--action_masks=on), neither in "
            f"info['{KEY}'] nor by a method {METHOD}()"
        )


def sample(env: VectorEnv, infos: dict[str, Any], num_actions: int) -> Any:
    """A random action for each environment that its masks allow."""
    actions = env.action_space.sample()
    if KEY not in infos:
        return actions
    allowed = read(infos, env.num_envs, num_actions)
    start = int(getattr(env.single_action_space, "start", 0))
    is_allowed = allowed[np.arange(env.num_envs), actions - start]
    return np.where(is_allowed, actions, allowed.argmax(axis=1) + start).astype(actions.dtype)
