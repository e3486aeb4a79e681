"""The steps a worker has just made, to learn from at once and forget (PQN, arXiv:2407.04811).

Shapes: T vector steps, E environments, M minibatches of B steps each.
"""

import math
from typing import NamedTuple

import numpy as np

from ps_dqn.environments import Step


class Rollout(NamedTuple):
    """T steps of E environments, and the order in which they are learned from."""

    observations: np.ndarray  # [T, E, …]
    actions: np.ndarray  # int32 [T, E]
    rewards: np.ndarray  # float32 [T, E]
    discounts: np.ndarray  # float32 [T, E]: γ, 0 where the episode terminated
    next_observations: np.ndarray  # [T, E, …]: of ended episodes, their last
    continues: np.ndarray  # float32 [T, E]: 1 where the next step continues the episode
    weights: np.ndarray  # float32 [T, E]: 0 where the step was a reset
    order: np.ndarray  # int32 [M, B]: steps as t·E + e; every T·E of them are all steps once


class RolloutBuffer:
    """Collects one rollout after the other."""

    def __init__(
        self,
        steps: int,
        num_envs: int,
        observation_shape: tuple[int, ...],
        observation_dtype: np.dtype,
        gamma: float,
        rng: np.random.Generator,
    ):
        """Allocates nothing that is handed out: every rollout has arrays of its own.

        Args:
            steps: T.
            num_envs: E.
            observation_shape: of one observation.
            observation_dtype: as observations are stored.
            gamma: discount per environment step.
            rng: its own generator.
        """
        self._shape = (steps, num_envs)
        self._observation_shape, self._observation_dtype = observation_shape, observation_dtype
        self._gamma = gamma
        self._rng = rng
        self.clear()

    @property
    def nbytes(self) -> int:
        """Memory of one rollout (bytes)."""
        observation = (
            math.prod(self._observation_shape) * np.dtype(self._observation_dtype).itemsize
        )
        return math.prod(self._shape) * (2 * observation + 5 * 4)

    @property
    def is_complete(self) -> bool:
        """Whether all T steps are made."""
        return self._made == self._shape[0]

    def append(
        self, before: np.ndarray, actions: np.ndarray, step: Step, after: np.ndarray
    ) -> None:
        """Takes one step of every environment.

        Args:
            before: observations acted on, [E, …].
            actions: int [E].
            step: what came of it.
            after: observations to act on next, [E, …].
        """
        if not self._made:
            self._rollout = self._allocate()
        t, rollout = self._made, self._rollout
        rollout.observations[t] = before
        rollout.actions[t] = actions
        rollout.rewards[t] = step.rewards
        rollout.discounts[t] = np.where(step.terminated, 0, self._gamma)
        rollout.next_observations[t] = after
        rollout.next_observations[t, step.final_envs] = step.final_observations
        rollout.continues[t] = ~(step.terminated | step.truncated)
        rollout.weights[t] = step.is_transition
        self._made += 1

    def take(self, minibatches: int, batch_size: int) -> Rollout:
        """The rollout, with an order for M minibatches of B steps; the next one begins.

        Raises:
            ValueError: steps are missing, or M·B is not a multiple of T·E.
        """
        total = self._shape[0] * self._shape[1]
        if not self.is_complete or (minibatches * batch_size) % total:
            raise ValueError(f"{self._made} of {self._shape} steps, {minibatches}×{batch_size}")
        rollout = self._rollout
        rollout.continues[-1] = 0
        epochs = minibatches * batch_size // total
        order = np.concatenate([self._rng.permutation(total) for _ in range(epochs)])
        self.clear()
        return rollout._replace(order=order.astype(np.int32).reshape(minibatches, batch_size))

    def clear(self) -> None:
        """Forgets what is there; the next rollout begins."""
        self._made = 0

    def _allocate(self) -> Rollout:
        observations = np.empty(self._shape + self._observation_shape, self._observation_dtype)
        numbers = [np.empty(self._shape, np.float32) for _ in range(4)]
        return Rollout(
            observations,
            np.empty(self._shape, np.int32),
            numbers[0],
            numbers[1],
            np.empty_like(observations),
            numbers[2],
            numbers[3],
            np.empty(0, np.int32),
        )
