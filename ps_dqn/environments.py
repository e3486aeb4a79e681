"""Gymnasium environments as this project uses them: vectors with discrete actions."""

import contextlib
import dataclasses
import functools
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.wrappers import FlattenObservation, FrameStackObservation

from ps_dqn import user_code
from ps_dqn.config import Environment
from ps_dqn.errors import UsageError

# Steps that are timed at most, and how long that may take (seconds).
STEPS_TIMED, SECONDS_TIMED = 10, 0.5

_Wrap = Callable[[gymnasium.Env], gymnasium.Wrapper]


@dataclasses.dataclass(frozen=True)
class EnvironmentSpec:
    """What the network must fit, and what counts as solved."""

    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype  # uint8, bool or float32
    num_actions: int
    reward_threshold: float | None


class Step(NamedTuple):
    """One step of a vector environment of E environments, whatever its way of resetting."""

    observations: np.ndarray  # acted on, [E, …]
    actions: np.ndarray  # counted from 0, int [E]
    rewards: np.ndarray  # float [E]
    terminated: np.ndarray  # bool [E]
    truncated: np.ndarray  # bool [E]
    is_transition: np.ndarray  # False where the step was a reset that ignored the action, bool [E]
    next_observations: np.ndarray  # to act on next, [E, …]
    # Last observations of episodes that the environment has already left. Other ended episodes
    # have theirs in `next_observations`; their next step is the reset.
    final_envs: np.ndarray  # int [e]
    final_observations: np.ndarray  # [e, …]
    # What the network remembered before it, float32 [E, S]; whoever acts adds it.
    states: np.ndarray | None = None


class Environments:
    """A vector environment that hides how it resets: every step says which rows are real."""

    def __init__(self, config: Environment, num_envs: int):
        """Makes E = `num_envs` environments.

        Raises:
            UsageError: they cannot be made, or a DQN cannot act in them.
        """
        self._env = _make_vector(config, num_envs)
        self._mode = self._env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self.spec = _describe(self._env)
        self._action_start = int(_actions(self._env).start)
        self._action_dtype = self._env.action_space.dtype
        self._resetting = np.zeros(num_envs, np.bool_)
        self.num_envs = num_envs
        self.num_actions = self.spec.num_actions
        self.observations = np.zeros(0)

    def reset(self, seed: int) -> None:
        """Starts every environment anew, reproducibly."""
        observations, _ = self._env.reset(seed=seed)
        self.observations = self._stored(observations)
        self._resetting = np.zeros(self.num_envs, np.bool_)

    def step(self, actions: np.ndarray) -> Step:
        """Acts in every environment; `observations` are what to act on next.

        Args:
            actions: counted from 0, int [E].
        """
        chosen = (actions + self._action_start).astype(self._action_dtype)
        observations, rewards, terminated, truncated, infos = self._env.step(chosen)
        done = terminated | truncated
        is_transition = ~self._resetting
        observations = self._stored(observations)
        final_envs = np.flatnonzero(done)
        final_observations = observations[final_envs]
        if self._mode == AutoresetMode.NEXT_STEP:
            self._resetting = done
            final_envs, final_observations = final_envs[:0], final_observations[:0]
        elif self._mode == AutoresetMode.SAME_STEP and done.any():
            final_observations = self._stored(np.stack(list(infos["final_obs"][final_envs])))
        elif done.any():
            fresh, _ = self._env.reset(options={"reset_mask": done})
            observations[final_envs] = fresh[final_envs]
        before, self.observations = self.observations, observations
        return Step(
            observations=before,
            actions=actions,
            rewards=rewards,
            terminated=terminated,
            truncated=truncated,
            is_transition=is_transition,
            next_observations=observations,
            final_envs=final_envs,
            final_observations=final_observations,
        )

    def close(self) -> None:
        """Ends the environments and any process of theirs."""
        self._env.close()

    def _stored(self, observations: np.ndarray) -> np.ndarray:
        # A copy: some environments reuse their buffer, and TensorFlow may still read ours.
        return np.array(observations, self.spec.observation_dtype)


def describe(config: Environment) -> EnvironmentSpec:
    """Makes one environment, looks at it and closes it.

    Raises:
        UsageError: it cannot be made, or a DQN cannot act in it.
    """
    with contextlib.closing(_make_vector(config, 1)) as env:
        return _describe(env)


def describe_and_time(config: Environment) -> tuple[EnvironmentSpec, float]:
    """The same, and how long one environment takes for a step: its quickest of a few (seconds).

    Raises:
        UsageError: as `describe`; or it raises something in an episode's first steps.
    """
    with contextlib.closing(_make_vector(config, 1)) as env:
        spec = _describe(env)
        try:
            return spec, _seconds_per_step(env)
        except Exception as error:  # whatever an environment's own code raises
            raise UsageError(
                f"--env_id={config.env_id}: its first steps fail ({user_code.one_line(error)})"
            ) from error


def _seconds_per_step(env: VectorEnv) -> float:
    env.reset(seed=0)
    env.action_space.seed(0)
    taken: list[float] = []
    started = time.perf_counter()
    while len(taken) < STEPS_TIMED and time.perf_counter() - started < SECONDS_TIMED:
        before = time.perf_counter()
        env.step(env.action_space.sample())
        taken.append(time.perf_counter() - before)
    return min(taken)


def _describe(env: VectorEnv) -> EnvironmentSpec:
    space = env.single_observation_space
    return EnvironmentSpec(
        tuple(space.shape or ()),
        _stored_dtype(space),
        int(_actions(env).n),
        env.spec.reward_threshold if env.spec else None,
    )


def _make_vector(config: Environment, num_envs: int) -> VectorEnv:
    kwargs = json.loads(config.env_kwargs)
    if config.env_module:
        user_code.import_module(f"--env_module={config.env_module}", config.env_module)
    try:
        mode = None if config.vectorization == "auto" else config.vectorization
        env = gymnasium.make_vec(config.env_id, num_envs, vectorization_mode=mode, **kwargs)
        wrappers = _wrappers(config, env.single_observation_space)
        if wrappers:
            env.close()
            mode = "async" if config.vectorization == "async" else "sync"
            env = gymnasium.make_vec(
                config.env_id, num_envs, vectorization_mode=mode, wrappers=wrappers, **kwargs
            )
    except Exception as error:  # whatever an environment's own code raises
        raise UsageError(
            f"--env_id={config.env_id}: cannot be made ({user_code.one_line(error)}). Is it "
            f"registered and its package installed? Does it take --env_kwargs={config.env_kwargs}?"
        ) from error
    _check_spaces(config, env)
    return env


def _wrappers(config: Environment, space: gymnasium.Space) -> list[_Wrap]:
    """What an environment lacks: flat observations, or frames that are stacked.

    One that stacks by itself has stacks of images, [frames, height, width, …].
    """
    wrappers: list[_Wrap] = []
    if not isinstance(space, gymnasium.spaces.Box):
        wrappers.append(FlattenObservation)
    shape, frames = space.shape or (), config.frame_stack
    is_stacked = len(shape) >= 3 and shape[0] == frames
    if frames > 1 and not is_stacked:
        wrappers.append(functools.partial(FrameStackObservation, stack_size=frames))
    return wrappers


def _check_spaces(config: Environment, env: VectorEnv) -> None:
    actions, observations = env.single_action_space, env.single_observation_space
    if not isinstance(actions, gymnasium.spaces.Discrete):
        env.close()
        raise UsageError(
            f"--env_id={config.env_id}: its actions are {actions}, and a DQN needs Discrete ones: "
            f"wrap it so that it offers a list of actions"
        )
    if not isinstance(observations, gymnasium.spaces.Box):
        env.close()
        raise UsageError(
            f"--env_id={config.env_id}: its observations {observations} cannot be flattened into "
            f"numbers: wrap it so that they are a Box"
        )


def _actions(env: VectorEnv) -> gymnasium.spaces.Discrete:
    actions = env.single_action_space
    assert isinstance(actions, gymnasium.spaces.Discrete)  # _check_spaces has refused others
    return actions


def _stored_dtype(space: Any) -> np.dtype:
    small = space.dtype in (np.uint8, np.bool_)
    return np.dtype(space.dtype if small else np.float32)
