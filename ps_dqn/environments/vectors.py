"""Environments that are stepped together; every step says which of its rows are real."""

from typing import NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode

from ps_dqn.config import Environment
from ps_dqn.environments import making


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
        self._env = making.make_vector(config, num_envs)
        self._mode = self._env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self.spec = making.spec_of(self._env)
        self._action_start = int(making.actions_of(self._env).start)
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
