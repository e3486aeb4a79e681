"""Environments that are stepped together; every step says which of its rows are real."""

import contextlib
import functools
import math
import multiprocessing
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv

from ps_dqn.config import Environment
from ps_dqn.config.faults import ENV_FAILURES
from ps_dqn.environments import making, masks, overdue, specification
from ps_dqn.environments.guard import INFO

_Returned = TypeVar("_Returned")

_NONE = np.zeros(0, np.int64)
# What is raised where a vector's processes do not answer, or are gone, or its masks do not fit.
_BROKEN: dict[str, tuple[type[BaseException], ...]] = {
    "hung": (multiprocessing.TimeoutError,),
    "vanished": (EOFError, ConnectionError),
    "malformed": (masks.MisfitError,),
}


class Step(NamedTuple):
    """One step of a vector environment of E environments, whatever its way of resetting.

    Where they are stepped one without the other it is of some of them: then the first axis of what
    is of all has those alone.

    A mask says which of the A actions are allowed; without masks there are none, and A is 0.
    """

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
    # Environments that failed in this step: their episodes were cut off before it.
    failed_envs: np.ndarray = _NONE  # int [f]
    masks: np.ndarray | None = None  # of `observations`, bool [E, A]; None: all are allowed
    next_masks: np.ndarray | None = None  # of `next_observations`, likewise
    final_masks: np.ndarray | None = None  # of `final_observations`, bool [e, A]
    # What the network remembered before it, float32 [E, S]; whoever acts adds it.
    states: np.ndarray | None = None
    # Of `actions`, where a policy chose them, float32 [E, 1]; likewise.
    log_probs: np.ndarray | None = None
    # Of all actions in `observations`, where whoever remembers them asks, float32 [E, A]; likewise.
    values: np.ndarray | None = None
    envs: np.ndarray | None = None  # which it is of, int [some of E]; None: all

    @property
    def whose(self) -> np.ndarray | slice:
        """Index of the environments that it is of, in arrays of all of them."""
        return slice(None) if self.envs is None else self.envs

    @property
    def ended_envs(self) -> np.ndarray:
        """Environments whose episodes ended with it, int."""
        places = np.flatnonzero(self.terminated | self.truncated)
        return places if self.envs is None else self.envs[places]

    @property
    def begins(self) -> np.ndarray:
        """Where the next step is an episode's first one, or a reset before it, bool [E]."""
        begins = ~self.is_transition
        if self.envs is None:
            begins[self.final_envs] = True
            return begins
        return begins | np.isin(self.envs, self.final_envs)


class Environments:
    """A vector environment that hides how it resets: every step says which rows are real.

    What an environment does wrong is in no row that is real: its episode ends before it, as if time
    were up, and another one begins. The guard of each environment sees to that; of vectors that
    have no single environments, rows are not real from the failure to the episode's end.
    """

    def __init__(self, config: Environment, num_envs: int, folder: str = "", once: bool = False):
        """Makes E = `num_envs` environments.

        Args:
            config: which.
            num_envs: how many.
            folder: where failures are written down.
            once: one episode of each is wanted for a reset; what comes after it is nothing.

        Raises:
            UsageError: they cannot be made, or a DQN cannot act in them.
        """
        self._make = functools.partial(making.make_vector, config, num_envs, folder, once)
        self._timeout = config.env_timeout
        self._env = self._within_time(self._make)
        self._mode = self._env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self.spec = specification.of(self._env, config.branching)  # without masks until a reset
        self._config = config
        self._action_start = int(specification.actions_of(self._env).start)
        self._action_dtype = self._env.action_space.dtype
        self._is_real = np.issubdtype(self.spec.observation_dtype, np.floating)
        self._resetting = np.zeros(num_envs, np.bool_)
        self._failed = np.zeros(num_envs, np.bool_)  # since their episodes began
        self._reset_seeds = np.random.default_rng()
        self.num_envs = num_envs
        self.num_actions = self.spec.num_actions
        self.observations = np.zeros(0)
        self.masks = np.ones((num_envs, self.spec.mask_size), np.bool_)
        self.failures = dict.fromkeys(ENV_FAILURES, 0)  # so far, by kind

    def reset(self, seed: int) -> None:
        """Starts every environment anew, reproducibly."""
        self._reset_seeds = np.random.default_rng(seed)
        observations, infos = self._within_time(self._env.reset, seed=seed)
        self.spec = masks.with_masks(self._config, self.spec, infos, self.num_envs)
        observations = self._stored(observations)
        self.observations = np.zeros_like(observations)  # in the place of what is not finite
        self._resetting = np.zeros(self.num_envs, np.bool_)
        self._failed = np.zeros(self.num_envs, np.bool_)
        none = _NONE, observations[:0]
        self._take_failures({}, observations, np.zeros(self.num_envs), *none)
        self.observations, self.masks = observations, self._masks(infos)

    def step(self, actions: np.ndarray) -> Step:
        """Acts in every environment; `observations` are what to act on next.

        Args:
            actions: counted from 0, int [E].
        """
        chosen = (actions + self._action_start).astype(self._action_dtype)
        try:
            observations, rewards, terminated, truncated, infos = self._step(chosen)
            next_masks = self._masks(infos)
        except Exception as error:  # of all environments together: no guard was there
            return self._make_anew(actions, error)
        done = terminated | truncated
        observations = self._stored(observations)
        left, last = self._left(infos, observations, done)
        failed_envs = self._take_failures(infos, observations, rewards, left, last)
        is_transition = ~(self._resetting | self._failed)
        final_envs = np.flatnonzero(done & ~self._failed)
        final_observations = observations[final_envs]
        final_masks = next_masks[final_envs]
        if self._mode == AutoresetMode.NEXT_STEP:
            self._resetting = done
            final_envs, final_observations = final_envs[:0], final_observations[:0]
            final_masks = final_masks[:0]
        elif self._mode == AutoresetMode.SAME_STEP and final_envs.size:
            final_observations = last[~self._failed[left]]
            final_masks = self._masks(infos.get("final_info", {}))[final_envs]
        elif self._mode == AutoresetMode.DISABLED and done.any():
            fresh, infos = self._within_time(self._env.reset, options={"reset_mask": done})
            observations[done] = fresh[done]
            next_masks[done] = self._masks(infos)[done]
        step = Step(
            observations=self.observations,
            actions=actions,
            rewards=np.where(self._failed, 0.0, rewards),
            terminated=terminated & ~self._failed,
            truncated=truncated & ~self._failed,
            is_transition=is_transition,
            next_observations=observations,
            final_envs=final_envs,
            final_observations=final_observations,
            failed_envs=failed_envs,
            masks=self.masks,
            next_masks=next_masks,
            final_masks=final_masks,
        )
        self.observations, self.masks = observations, next_masks
        self._failed &= ~done
        return step

    def render(self) -> np.ndarray:
        """A picture of the first environment, made to draw some: uint8 [height, width, 3]."""
        pictures: Any = self._within_time(self._env.render)
        return np.asarray(pictures[0])

    def close(self) -> None:
        """Ends the environments and any process of theirs."""
        self._env.close()

    def _step(self, actions: np.ndarray) -> Any:
        if isinstance(self._env, AsyncVectorEnv) and math.isfinite(self._timeout):
            self._env.step_async(actions)
            return self._env.step_wait(timeout=self._timeout)
        return self._within_time(self._env.step, actions)

    def _within_time(self, call: Callable[..., _Returned], *args: Any, **kwargs: Any) -> _Returned:
        overdue.begins(self._timeout)
        try:
            return call(*args, **kwargs)
        finally:
            overdue.ends()

    def _left(
        self, infos: dict[str, Any], observations: np.ndarray, done: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Environments that have left an episode in this step, int [e], and how it ended [e, …]."""
        left = np.flatnonzero(done) if self._mode == AutoresetMode.SAME_STEP else _NONE
        if not left.size:
            return left, observations[:0]
        return left, self._stored(np.stack(list(infos["final_obs"][left])))

    def _take_failures(
        self,
        infos: dict[str, Any],
        observations: np.ndarray,
        rewards: np.ndarray,
        left: np.ndarray,
        last: np.ndarray,
    ) -> np.ndarray:
        """Notes what failed; observations that are not finite become those before.

        `left` and `last` are what `_left` returns.

        Returns:
            The environments that failed and had not before in this episode, int [f].
        """
        with np.errstate(all="ignore"):  # a sum is quick, and may overflow
            total = rewards.sum() + (observations.sum() + last.sum() if self._is_real else 0)
        if INFO not in infos and math.isfinite(total):
            return _NONE
        kinds = np.broadcast_to(np.asarray(infos.get(INFO, 0), np.int64), self.num_envs).copy()
        if not math.isfinite(total):
            axes = tuple(range(1, observations.ndim))
            is_finite = np.isfinite(observations).all(axis=axes) & np.isfinite(rewards)
            observations[~is_finite] = self.observations[~is_finite]
            is_finite[left] &= np.isfinite(last).all(axis=axes)
            kinds[(kinds == 0) & ~is_finite] = 1 + ENV_FAILURES.index("not_finite")
        if not kinds.any():
            return _NONE
        new = np.flatnonzero((kinds > 0) & ~self._failed)
        for env in new:
            self.failures[ENV_FAILURES[kinds[env] - 1]] += 1
        self._failed |= kinds > 0
        return new

    def _make_anew(self, actions: np.ndarray, error: Exception) -> Step:
        """Other environments in the place of these, none of which has made a step."""
        traceback.print_exc()  # into the worker's log
        kind = next((kind for kind, types in _BROKEN.items() if isinstance(error, types)), "raised")
        self.failures[kind] += 1
        before, masks_before = self.observations, self.masks
        failed_envs = np.flatnonzero(~self._failed)
        _abandon(self._env)
        self._env = self._within_time(self._make)
        self.reset(int(self._reset_seeds.integers(2**31)))
        nothing = np.zeros(self.num_envs, np.bool_)
        return Step(
            observations=before,
            actions=actions,
            rewards=np.zeros(self.num_envs),
            terminated=nothing,
            truncated=nothing,
            is_transition=nothing,
            next_observations=self.observations,
            final_envs=_NONE,
            final_observations=self.observations[:0],
            failed_envs=failed_envs,
            masks=masks_before,
            next_masks=self.masks,
            final_masks=self.masks[:0],
        )

    def _masks(self, infos: dict[str, Any]) -> np.ndarray:
        """Of the actions, bool [E, A]; A is 0 without masks."""
        if not self.spec.has_masks:
            return np.ones((self.num_envs, 0), np.bool_)
        return masks.read(infos, self.num_envs, self.num_actions)

    def _stored(self, observations: np.ndarray) -> np.ndarray:
        # A copy: some environments reuse their buffer, and TensorFlow may still read ours.
        return np.array(observations, self.spec.observation_dtype)


def _abandon(env: VectorEnv) -> None:
    """Ends environments that may not answer any more."""
    if isinstance(env, AsyncVectorEnv):
        for process, pipe in zip(env.processes, env.parent_pipes, strict=True):
            process.kill()
            process.join()
            if pipe is not None:
                pipe.close()
        env.closed = True  # it would ask them all to end, and wait
        return
    with contextlib.suppress(Exception):
        env.close()
