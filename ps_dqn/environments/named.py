"""Environments and wrappers of a user's own, by the names that the command line has for them."""

from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from ps_dqn import user_code
from ps_dqn.errors import UsageError

# Which module registers the environments of a namespace with Gymnasium.
REGISTERED_BY = {"ALE": "ale_py", "MinAtar": "ps_dqn.minatar_games"}

Wrap = Callable[[gymnasium.Env], gymnasium.Wrapper]


def environment(env_id: str) -> str | EnvSpec:
    """What `gymnasium.make` takes for an id, or for package.module:EnvClass.

    A module's attribute is a class, or a function that returns an environment; anything else after
    the colon is an id that the module registers. Atari's and MinAtar's games are registered here.

    Raises:
        UsageError: the module cannot be imported.
    """
    registers = REGISTERED_BY.get(env_id.partition("/")[0])
    if registers and env_id not in gymnasium.registry:
        user_code.import_module(f"--env_id={env_id}", registers)
    module, colon, name = env_id.partition(":")
    if not colon or not name.isidentifier():
        return env_id
    if not hasattr(user_code.import_module(f"--env_id={env_id}", module), name):
        return env_id
    return EnvSpec(id=name, entry_point=env_id)


def wrappers(names: str) -> list[Wrap]:
    """The wrappers of `--env_wrappers`, the innermost first.

    Raises:
        UsageError: one is not there, or nothing that can be called.
    """
    return [_wrapper(names, each.strip()) for each in names.split(",") if each.strip()]


def _wrapper(names: str, name: str) -> Wrap:
    flag, (module, _, attribute) = f"--env_wrappers={names}", name.partition(":")
    if not module or not attribute:
        raise UsageError(f"{flag}: {name} must be package.module:Wrapper")
    found: Any = getattr(user_code.import_module(flag, module), attribute, None)
    if not callable(found):
        raise UsageError(
            f"{flag}: {module} has no {attribute} that can be called; name a class or a function "
            f"of an environment that returns one"
        )
    return found
