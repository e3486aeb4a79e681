"""An environment's own vector form, and single environments that it may give way to, or not."""

import contextlib
import json
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from ps_dqn import user_code
from ps_dqn.config import Environment
from ps_dqn.environments import named
from ps_dqn.errors import UsageError

# Of ALE: unless told otherwise, it limits rewards to 1, and with them scores, and stacks 4 frames.
ALE = "ale_py.vector_env:AtariVectorEnv"
_OWN, _SINGLE = "vector_entry_point", "sync"


def can_be_made(config: Environment, kwargs: dict[str, Any]) -> bool:
    """Whether there is one that takes these keyword arguments."""
    made_of = named.environment(config.env_id)
    return not isinstance(_spaces(made_of, kwargs, _OWN), BaseException)


def check_wrappers(config: Environment, wrappers: named.Wrappers, form: Any) -> None:
    """Refuses wrappers of vectors where there is no vector form.

    Args:
        config: which environment.
        wrappers: those of `--env_wrappers`.
        form: that is stepped; None: single environments are.

    Raises:
        UsageError: as said.
    """
    if form is not None or not wrappers.vector:
        return
    if config.vectorization == "auto":
        why = f"{config.env_id} has no vector form of its own: say"
    else:
        flag = f"--vectorization={config.vectorization}"
        why = f"{flag} makes single environments: leave that out, or say"
    raise UsageError(
        f"--env_wrappers={config.env_wrappers}: goes around vectors, and {why} a gymnasium.Wrapper"
    )


def refuse_other_stacks(config: Environment, frames: int, shape: Any) -> None:
    """Refuses other stacks than `--frame_stack` of a form that stacks by itself.

    Args:
        config: which environment.
        frames: how many it stacks.
        shape: of its observations.

    Raises:
        UsageError: always.
    """
    where = f"--frame_stack={config.frame_stack}: {config.env_id} stacks {frames} frames by itself"
    if frames != config.frame_stack:
        raise UsageError(
            f"{where} (--env_kwargs, stack_num): say the same number, or leave one out"
        )
    raise UsageError(
        f"{where}, and its observations have the shape {shape} with --env_wrappers="
        f"{config.env_wrappers}: leave out --frame_stack"
    )


def refuse_to_leave(config: Environment, made_of: str | EnvSpec, kwargs: dict[str, Any]) -> None:
    """Refuses to make arrays of observations where single environments are something else.

    Args:
        config: which environment; its observations are no arrays.
        made_of: what Gymnasium makes it of.
        kwargs: its keyword arguments.

    Raises:
        UsageError: they are something else, or what wraps vectors is around it.
    """
    flag, what = f"--env_id={config.env_id}", "an array of its observations"
    if config.env_wrappers:
        raise UsageError(
            f"--env_wrappers={config.env_wrappers}: goes around vectors, and {what} ({flag}) is "
            f"made in single environments: let it make that too, or leave it out"
        )
    advice = f"say --env_wrappers with a gymnasium.vector.VectorWrapper that makes {what}"
    refuse_unlike(config.env_id, made_of, kwargs, f"{flag}: {what} is made in", advice)


def refuse_unlike(
    env_id: str, made_of: str | EnvSpec, kwargs: dict[str, Any], needs: str, advice: str
) -> None:
    """Refuses to leave it for single environments that are something else.

    ALE's has settings that single environments lack, and images where these have raw frames; of
    others, like CartPole, both are the same. One that is not there gives way to anything.

    Args:
        env_id: as the user has it.
        made_of: what Gymnasium makes it of.
        kwargs: its keyword arguments.
        needs: how the error begins: the flag, and what is made in single environments.
        advice: what to say instead.

    Raises:
        UsageError: their observations or actions are others, or they do not take these arguments.
    """
    own = _spaces(made_of, kwargs, _OWN)
    if isinstance(own, BaseException):
        return
    single = _spaces(made_of, kwargs, _SINGLE)
    if single == own:
        return
    if isinstance(single, BaseException):
        why = f"with --env_kwargs={json.dumps(kwargs)} {user_code.one_line(single)}"
    else:
        why = "; ".join(
            f"{name} {theirs} instead of {its}"
            for name, theirs, its in zip(("observations", "actions"), single, own, strict=True)
            if theirs != its
        )
        advice += ", or say --vectorization=sync if those are meant"
    raise UsageError(
        f"{needs} single environments, and those are not what {env_id}'s own vector form is "
        f"({why}): {advice}"
    )


def _spaces(
    made_of: str | EnvSpec, kwargs: dict[str, Any], mode: str
) -> tuple[gymnasium.Space, gymnasium.Space] | BaseException:
    """What one environment observes and does, or why it cannot be made."""
    try:
        with contextlib.closing(
            gymnasium.make_vec(made_of, 1, vectorization_mode=mode, **kwargs)
        ) as env:
            return env.single_observation_space, env.single_action_space
    except user_code.FAILURES as error:  # whatever an environment's own code raises
        return error
