"""Environments that are stepped together; every step says which of its rows are real."""

import contextlib
import functools
import math
import multiprocessing
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv

from ps_dqn.config import Environment
from ps_dqn.config.faults import ENV_FAILURES, FAILURE_WINDOW
from ps_dqn.environments import making, masks, overdue, specification
from ps_dqn.environments.guard import INFO
from ps_dqn.environments.step import NONE, Step
from ps_dqn.errors import UsageError

_Returned = TypeVar("_Returned")

# What is raised where a vector's processes do not answer, or are gone, or its masks do not fit.
_BROKEN: dict[str, tuple[type[BaseException], ...]] = {
    "hung": (multiprocessing.TimeoutError,),
    "vanished": (EOFError, ConnectionError),
    "malformed": (masks.MisfitError,),
}


class Environments:
    """A vector environment that hides how it resets: every step says which rows are real.

    What an environment does wrong is in no row that is real: its episode ends before it, as if time
    were up, and another one begins. The guard of each environment sees to that; of vectors that
    have no single environments, rows are not real from the failure to the episode's end.
    """

    def __init__(
        self,
        config: Environment,
        num_envs: int,
        folder: str = "",
        once: bool = False,
        most_failures: int | None = None,
    ):
        """Makes E = `num_envs` environments.

        Args:
            config: which.
            num_envs: how many.
            folder: where failures are written down.
            once: one episode of each is wanted for a reset; what comes after it is nothing.
            most_failures: of so many in `FAILURE_WINDOW` steps nothing can come, so that a step
                raises UsageError; None: whoever acts looks at `failures`.

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
        self._most_failures, self._num_steps = most_failures, 0

    def reset(self, seed: int) -> None:
        """Starts every environment anew, reproducibly."""
        self._reset_seeds = np.random.default_rng(seed)
        observations, infos = self._within_time(self._env.reset, seed=seed)
        self.spec = masks.with_masks(self._config, self.spec, infos, self.num_envs)
        observations = self._stored(observations)
        self.observations = np.zeros_like(observations)  # in the place of what is not finite
        self._resetting = np.zeros(self.num_envs, np.bool_)
        self._failed = np.zeros(self.num_envs, np.bool_)
        self._take_failures({}, observations, np.zeros(self.num_envs))
        self.observations, self.masks = observations, self._masks(infos)

    def step(self, actions: np.ndarray) -> Step:
        """Acts in every environment; `observations` are what to act on next.

        Args:
            actions: counted from 0, int [E].

        Raises:
            UsageError: they fail more often than they may.
        """
        chosen = (actions + self._action_start).astype(self._action_dtype)
        self._num_steps += self.num_envs
        try:
            observations, rewards, terminated, truncated, infos = self._step(chosen)
            done = terminated | truncated
            reached, reached_masks = self._stored(observations), self._masks(infos)
            anew, anew_masks = self._begun(reached, reached_masks, done, infos)
        except UsageError:
            raise
        except Exception as error:  # of all environments together: no guard was there
            return self._make_anew(actions, error)
        failed_envs = self._take_failures(infos, reached, rewards)
        is_transition = ~(self._resetting | self._failed)
        final_envs = NONE
        if self._mode == AutoresetMode.NEXT_STEP:
            self._resetting = done
        else:
            final_envs = np.flatnonzero(done & ~self._failed)
        final_observations, final_masks = reached[final_envs], reached_masks[final_envs]
        if anew is not None:
            reached[done], reached_masks[done] = anew[done], anew_masks[done]
        step = Step(
            observations=self.observations,
            actions=actions,
            rewards=np.where(self._failed, 0.0, rewards),
            terminated=terminated & ~self._failed,
            truncated=truncated & ~self._failed,
            is_transition=is_transition,
            next_observations=reached,
            final_envs=final_envs,
            final_observations=final_observations,
            failed_envs=failed_envs,
            masks=self.masks,
            next_masks=reached_masks,
            final_masks=final_masks,
        )
        self._failed &= ~done
        if anew is not None:  # an episode may begin with what is not finite
            self._take_failures({}, reached, np.zeros(self.num_envs))
        self.observations, self.masks = reached, reached_masks
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
        with overdue.within(self._timeout):
            return call(*args, **kwargs)

    def _begun(
        self, reached: np.ndarray, masks: np.ndarray, done: np.ndarray, infos: dict[str, Any]
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """The first observations of episodes that have begun in the place of those just ended.

        Where they begin in the same step, what the vector shows is of them: what the step led to is
        in its infos, and comes into the place of `reached` and its `masks`.

        Returns:
            Of all environments [E, …], to be looked at where others ended; None where none has
            begun. And their masks.

        Raises:
            UsageError: it does not say what the step led to.
        """
        if self._mode == AutoresetMode.NEXT_STEP or not done.any():
            return None, masks
        if self._mode == AutoresetMode.DISABLED:
            anew, infos = self._within_time(self._env.reset, options={"reset_mask": done})
            return self._stored(anew), self._masks(infos)
        if "final_obs" not in infos:
            raise UsageError(
                f"--env_id={self._config.env_id}: its vector form begins episodes anew in the same "
                f"step, so the last observations are to be in its infos, and there is no "
                f"'final_obs': let it say them, or have another autoreset_mode"
            )
        anew, anew_masks = reached.copy(), masks.copy()
        reached[done] = self._stored(np.stack(list(infos["final_obs"][done])))
        masks[done] = self._masks(infos.get("final_info", {}))[done]
        return anew, anew_masks

    def _take_failures(
        self, infos: dict[str, Any], observations: np.ndarray, rewards: np.ndarray
    ) -> np.ndarray:
        """Notes what failed; observations that are not finite become those before.

        Returns:
            The environments that failed and had not before in this episode, int [f].
        """
        with np.errstate(all="ignore"):  # a sum is quick, and may overflow
            kept = rewards.astype(np.float32)
            total = kept.sum() + (observations.sum() if self._is_real else 0)
        said = [each[INFO] for each in (infos, infos.get("final_info", {})) if INFO in each]
        if not said and math.isfinite(total):
            return NONE
        kinds = np.zeros(self.num_envs, np.int64)
        for each in said:
            kinds = np.maximum(kinds, each)
        if not math.isfinite(total):
            axes = tuple(range(1, observations.ndim))
            is_finite = np.isfinite(observations).all(axis=axes) & np.isfinite(kept)
            observations[~is_finite] = self.observations[~is_finite]
            kinds[(kinds == 0) & ~is_finite] = 1 + ENV_FAILURES.index("not_finite")
        if not kinds.any():
            return NONE
        new = np.flatnonzero((kinds > 0) & ~self._failed)
        for env in new:
            self._count(ENV_FAILURES[kinds[env] - 1])
        self._failed |= kinds > 0
        return new

    def _count(self, kind: str) -> None:
        """Counts a failure.

        Raises:
            UsageError: it is one too many.
        """
        self.failures[kind] += 1
        if self._most_failures is None:
            return
        failures, windows = sum(self.failures.values()), self._num_steps / FAILURE_WINDOW
        if failures > self._most_failures * max(windows, 1.0):
            kinds = ", ".join(f"{name} {count:,}" for name, count in self.failures.items() if count)
            raise UsageError(
                f"--env_id={self._config.env_id}: its environments failed {failures:,} times "
                f"({kinds}) in {self._num_steps:,} steps, more often than "
                f"--max_env_failures={self._most_failures} in {FAILURE_WINDOW:,} allows; the log "
                f"has the first errors"
            )

    def _make_anew(self, actions: np.ndarray, error: Exception) -> Step:
        """Other environments in the place of these, none of which has made a step."""
        traceback.print_exc()  # into the worker's log
        kind = next((kind for kind, types in _BROKEN.items() if isinstance(error, types)), "raised")
        before, masks_before = self.observations, self.masks
        failed_envs = np.flatnonzero(~self._failed)
        _abandon(self._env)  # first: whoever closes them would wait for one that hangs
        self._count(kind)
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
            final_envs=NONE,
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
