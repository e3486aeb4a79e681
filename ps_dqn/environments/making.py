"""Makes Gymnasium vectors with discrete actions, and says what a network must fit."""

import contextlib
import functools
import json
from collections.abc import Iterator
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import FrameStackObservation

from ps_dqn import user_code
from ps_dqn.config import Environment
from ps_dqn.environments import (
    first_steps,
    listed,
    masks,
    named,
    overdue,
    own_form,
    parts,
    pool,
    readable,
    specification,
)
from ps_dqn.environments.checked import Checked
from ps_dqn.environments.first_steps import Looks
from ps_dqn.environments.guard import Guard
from ps_dqn.environments.once import OneEpisode
from ps_dqn.environments.specification import EnvironmentSpec
from ps_dqn.environments.stacked import StackedVector
from ps_dqn.errors import UsageError, needs_extra


def describe(config: Environment) -> EnvironmentSpec:
    """Makes one environment, looks at it and closes it.

    Raises:
        UsageError: it cannot be made, or a DQN cannot act in it.
    """
    made = overdue.within(config.env_timeout)
    with made, contextlib.closing(make_vector(config, 1)) as env:
        spec = _looked_at(config, env)
        with _first_steps(config):
            masks.refuse_none(config, spec)
        return spec


def describe_and_look(config: Environment, is_strict: bool) -> tuple[EnvironmentSpec, Looks]:
    """The same, and what its first steps are like, whose actions are random.

    Args:
        config: which.
        is_strict: one whose first steps fail is refused; else what was seen until then counts.

    Raises:
        UsageError: as `describe`; or it raises something in an episode's first steps, or nothing
            can be learned from them.
    """
    with contextlib.closing(make_vector(config, 1)) as env:
        spec, looks = _looked_at(config, env), Looks()
        may_fail = contextlib.nullcontext() if is_strict else contextlib.suppress(Exception)
        with may_fail, _first_steps(config):
            first_steps.look(env, spec, looks, config.action_masks != "off")
        with _first_steps(config):  # which may have said masks
            masks.refuse_none(config, spec)
        return spec, looks


@contextlib.contextmanager
def _first_steps(config: Environment) -> Iterator[None]:
    """Refuses an environment whose first steps raise."""
    try:
        with np.errstate(over="ignore"):  # what is beyond float32 is said below
            yield
    except UsageError as error:
        raise UsageError(f"--env_id={config.env_id}: {error}") from None
    except user_code.FAILURES as error:  # whatever an environment's own code raises
        raise UsageError(
            f"--env_id={config.env_id}: its first steps fail ({user_code.with_place(error)})"
        ) from error


def _looked_at(config: Environment, env: VectorEnv) -> EnvironmentSpec:
    with _first_steps(config):
        observations, infos = env.reset(seed=0)
        spec = specification.of(env, config.branching)
        if not first_steps.are_finite(spec, observations):
            raise UsageError("its first observation is not finite in float32")
        return masks.found(config, spec, infos, env.num_envs)


def make_vector(
    config: Environment, num_envs: int, folder: str | None = None, once: bool = False
) -> VectorEnv:
    """Makes environments that are stepped together.

    Args:
        config: which.
        num_envs: how many.
        folder: where their failures are written down; None: they are raised.
        once: single environments rest after an episode; own vector forms go on all the same.

    Raises:
        UsageError: they cannot be made, or a DQN cannot act in them.
    """
    kwargs = json.loads(config.env_kwargs)
    if config.env_module:
        user_code.import_module(f"--env_module={config.env_module}", config.env_module)
    try:
        env = _make(config, num_envs, kwargs, folder, once)
    except UsageError:
        raise
    except user_code.FAILURES as error:  # whatever an environment's own code raises
        if (
            isinstance(error, gymnasium.error.DependencyNotInstalled)
            and "box2d" in str(error).lower()
        ):
            raise needs_extra(f"--env_id={config.env_id}", "Box2D", "box2d") from None
        if config.vectorization != "auto" and own_form.can_be_made(config, kwargs):
            raise UsageError(
                f"--vectorization={config.vectorization}: single environments of {config.env_id} "
                f"cannot be made with --env_kwargs={config.env_kwargs} "
                f"({user_code.with_place(error)}): say --vectorization=auto for its own vector form"
            ) from error
        said = f"--env_id={config.env_id}: cannot be made ({user_code.with_place(error)})"
        questions = []
        if isinstance(error, gymnasium.error.Error | ImportError):
            questions.append("Is it registered and its package installed?")
        if kwargs:
            questions.append(f"Does it take the arguments {config.env_kwargs}?")
        raise UsageError(". ".join(filter(None, [said, " ".join(questions)]))) from error
    if not isinstance(env.single_action_space, gymnasium.spaces.Discrete):
        env.close()
        raise UsageError(
            f"--env_id={config.env_id}: its actions are {env.single_action_space}, and a DQN needs "
            f"Discrete ones: wrap it so that it offers a list of actions"
        )
    if config.branching and listed.KEY not in env.metadata:
        env.close()
        raise UsageError(
            f"--branching=true: has no effect, as the actions of {config.env_id} are a list "
            f"already: leave it out"
        )
    return env


def _make(
    config: Environment, num_envs: int, kwargs: dict[str, Any], folder: str | None, once: bool
) -> VectorEnv:
    """An environment's own vector form, or single environments, with what they lack around them.

    Wrappers that the user names come first, then those that make a list of its actions and put its
    masks into infos, then the guard or its checks, then what its observations lack.
    """
    if config.vectorization == "envpool":
        _refuse_clipping(kwargs, "reward_clip")
        return _around(config, pool.make(config, num_envs, kwargs))
    made_of, own = named.environment(config.env_id), named.wrappers(config.env_wrappers)
    mode = None if config.vectorization == "auto" else config.vectorization
    if own.single and mode is None:
        own_form.refuse_unlike(
            config.env_id,
            made_of,
            kwargs,
            f"--env_wrappers={config.env_wrappers}: goes around",
            "say a gymnasium.vector.VectorWrapper",
        )
        mode = "sync"
    with contextlib.closing(
        gymnasium.make_vec(made_of, 1, vectorization_mode=mode, wrappers=own.single, **kwargs)
    ) as vector:
        form = vector.spec.vector_entry_point if vector.spec and mode is None else None
        own_form.check_wrappers(config, own, form)
        looked_at = own.around(vector)
        observations, actions = looked_at.single_observation_space, looked_at.single_action_space
        readable.check(config.env_id, observations)
        lists = listed.wrappers(config.env_id, actions, config.action_bins, config.branching)
    is_array = isinstance(observations, gymnasium.spaces.Box)
    needs_stacks = _needs_stacks(config, observations)
    if form == own_form.ALE and needs_stacks:
        if "stack_num" not in kwargs:
            kwargs = {**kwargs, "stack_num": config.frame_stack}
            return _make(config, num_envs, kwargs, folder, once)
        own_form.refuse_other_stacks(config, kwargs["stack_num"], observations.shape)
    if form is not None and not is_array:
        own_form.refuse_to_leave(config, made_of, kwargs)
        form = None
    if form is not None:
        if form == own_form.ALE:
            _refuse_clipping(kwargs, "reward_clipping")
            kwargs["reward_clipping"] = False
        return _around(config, own.around(gymnasium.make_vec(made_of, num_envs, **kwargs)))
    wrappers: list[named.Wrap] = []
    if not is_array:
        wrappers.append(cast(named.Wrap, parts.PackedObservation))
    if needs_stacks:
        stack = functools.partial(FrameStackObservation, stack_size=config.frame_stack)
        wrappers.append(stack)
    has_masks = config.action_masks != "off" and not config.branching
    if folder is None:
        wrappers.insert(0, functools.partial(Checked, has_masks=has_masks))
    else:
        recipe = {
            "env_id": config.env_id, "env_module": config.env_module, "env_kwargs": kwargs,
            "env_wrappers": config.env_wrappers, "action_bins": config.action_bins,
            "branching": config.branching, "has_masks": has_masks,
        }  # fmt: skip
        wrappers.insert(0, functools.partial(Guard, recipe=recipe, folder=folder))
    if once:
        wrappers.append(OneEpisode)
    # No copies of observations: `Environments` makes its own.
    kwargs = {**kwargs, "vector_kwargs": {"copy": False, **kwargs.get("vector_kwargs", {})}}
    env: VectorEnv = gymnasium.make_vec(
        made_of,
        num_envs,
        vectorization_mode=mode or "sync",
        wrappers=[*own.single, *lists, cast(named.Wrap, masks.wrap), *wrappers],
        **kwargs,
    )
    return _saying(env, observations, actions)


def _around(config: Environment, env: VectorEnv) -> VectorEnv:
    """A vector form whose observations are arrays, with what it lacks around it."""
    observations, actions = env.single_observation_space, env.single_action_space
    if listed.wrappers(config.env_id, actions, config.action_bins, config.branching):
        env = listed.ListedVectorActions(env, config.action_bins)
    if _needs_stacks(config, observations):
        env = StackedVector(env, config.frame_stack)
    return _saying(env, observations, actions)


def _saying(env: VectorEnv, observation: gymnasium.Space, action: gymnasium.Space) -> VectorEnv:
    """The vector, whose metadata say what its environments are themselves."""
    own = specification.OwnSpaces(observation, action)
    env.metadata = {**env.metadata, specification.KEY: own}
    return env


def _refuse_clipping(kwargs: dict[str, Any], name: str) -> None:
    """Scores are the game's own; what is learned from is limited later."""
    if kwargs.get(name):
        raise UsageError(
            f"--env_kwargs, {name}=true: it would limit the scores too; say --reward_clip=1"
        )


def _needs_stacks(config: Environment, space: gymnasium.Space) -> bool:
    """Whether frames are to be stacked; one that does so itself has [frames, height, width, …]."""
    shape = space.shape or ()
    is_array = isinstance(space, gymnasium.spaces.Box)
    stacks_itself = is_array and len(shape) >= 3 and shape[0] == config.frame_stack
    return config.frame_stack > 1 and not stacks_itself
