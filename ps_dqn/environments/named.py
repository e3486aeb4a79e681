"""Environments and wrappers of a user's own, by the names that the command line has for them."""

import functools
import types
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv, VectorWrapper

from ps_dqn import user_code
from ps_dqn.errors import UsageError

# Which module registers the environments of a namespace with Gymnasium.
REGISTERED_BY = {"ALE": "ale_py", "MinAtar": "ps_dqn.minatar_games"}

Wrap = Callable[[gymnasium.Env], gymnasium.Wrapper]
_Env = TypeVar("_Env", gymnasium.Env, VectorEnv)


class Wrappers(NamedTuple):
    """The wrappers of `--env_wrappers`, the innermost first; they are of one kind."""

    single: list[Wrap]  # around each single environment
    vector: list[Callable[[VectorEnv], VectorEnv]]  # around an environment's own vector form

    def around(self, vector: VectorEnv) -> VectorEnv:
        """A vector form with those that are of vectors."""
        return functools.reduce(lambda env, wrap: wrap(env), self.vector, vector)


def environment(env_id: str) -> str | EnvSpec:
    """What `gymnasium.make` takes for an id, or for package.module:EnvClass.

    A module's attribute is a class, or a function that returns an environment; anything else after
    the colon is an id that the module registers. Atari's and MinAtar's games are registered here.

    Raises:
        UsageError: the module cannot be imported, or has nothing of that name.
    """
    registers = REGISTERED_BY.get(env_id.partition("/")[0])
    if registers and env_id not in gymnasium.registry:
        user_code.import_module(f"--env_id={env_id}", registers)
    place, colon, name = env_id.partition(":")
    if ":" in name:
        raise UsageError(f"--env_id={env_id}: must be package.module:EnvClass, with one colon")
    if not colon or not name.isidentifier():
        return env_id
    module = user_code.import_module(f"--env_id={env_id}", place)
    if callable(getattr(module, name, None)):
        return EnvSpec(id=name, entry_point=env_id)
    if name in {each.name for each in gymnasium.registry.values()}:
        return env_id
    raise UsageError(
        f"--env_id={env_id}: module {place} has no environment {name}; it has "
        f"{', '.join(_environments(module)) or 'none'}"
    )


def _environments(module: types.ModuleType) -> list[str]:
    """The classes of environments that a module has, also those that it has from others."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, gymnasium.Env)
        and not issubclass(value, gymnasium.Wrapper)
        and value is not gymnasium.Env
    ]


def wrappers(names: str) -> Wrappers:
    """The wrappers of `--env_wrappers`: those of vectors are subclasses of `VectorWrapper`.

    Raises:
        UsageError: one is not there, or nothing that can be called, or they are of both kinds.
    """
    flag, said = f"--env_wrappers={names}", [each.strip() for each in names.split(",")]
    found = {name: _wrapper(flag, name) for name in said if name}
    vectors = [name for name, each in found.items() if _is_of_vectors(each)]
    others = [name for name in found if name not in vectors]
    if vectors and others:
        raise UsageError(
            f"{flag}: {vectors[0]} goes around vectors, and {others[0]} around single "
            f"environments: say one kind"
        )
    kind = VectorEnv if vectors else gymnasium.Env
    wraps: list[Any] = [
        functools.partial(_put_around, f"{flag}: {name}", found[name], kind)
        for name in said
        if name
    ]
    return Wrappers([], wraps) if vectors else Wrappers(wraps, [])


def _is_of_vectors(wrapper: Any) -> bool:
    return isinstance(wrapper, type) and issubclass(wrapper, VectorWrapper)


def _wrapper(flag: str, name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise UsageError(f"{flag}: {name} must be package.module:Wrapper")
    found: Any = getattr(user_code.import_module(flag, module), attribute, None)
    if not callable(found):
        raise UsageError(
            f"{flag}: {module} has no {attribute} that can be called; name a class or a function "
            f"of an environment that returns one"
        )
    return found


def _put_around(said: str, wrap: Callable[..., Any], kind: type[_Env], env: _Env) -> _Env:
    """Wraps an environment or a vector; what fails is the wrapper's, and not the environment's.

    Args:
        said: how errors begin: the flag, and which of its wrappers it is.
        wrap: that wrapper.
        kind: of what it is put around, and what it must return.
        env: what it is put around.

    Raises:
        UsageError: it fails, or returns no environment.
    """
    try:
        wrapped = wrap(env)
    except user_code.FAILURES as error:  # whatever a wrapper's own code raises
        raise UsageError(
            f"{said} fails around the environment ({user_code.with_place(error)})"
        ) from error
    if not isinstance(wrapped, kind):
        raise UsageError(
            f"{said} returns a {type(wrapped).__name__}, and must return an environment"
        )
    return wrapped
