"""The mathematics of the programs that are written here, and what they remember.

Equations use operators alone, so that PyTorch, JAX and NumPy take them alike.
"""

from collections.abc import Callable
from typing import Any

import numpy as np


def epsilon(
    step: Any, start: float, end: float, duration: float, larger: Callable[..., Any] = max
) -> Any:
    """The share of random actions, which falls on a line (Mnih et al. 2015)."""
    return larger(end, start + (end - start) * step / duration)


def td_target(rewards: Any, terminated: Any, next_best: Any, gamma: float) -> Any:
    """The one-step target of Q-learning.

    Args:
        rewards: [batch].
        terminated: 1 where no step follows [batch].
        next_best: the target network's largest value of what follows [batch].
        gamma: the discount.
    """
    return rewards + gamma * (1 - terminated) * next_best


def lambda_return(
    rewards: Any, done: Any, next_best: Any, next_return: Any, gamma: float, trace: float
) -> Any:
    """One step, from the last to the first, of λ-returns (Gallici et al. 2024, equation of PQN).

    Args:
        rewards: of this step [environments].
        done: 1 where the episode ended with it [environments].
        next_best: the largest value of the next observation [environments].
        next_return: its λ-return; `next_best` itself after the rollout's last step.
        gamma: the discount.
        trace: λ.
    """
    return rewards + gamma * (1 - done) * (trace * next_return + (1 - trace) * next_best)


class Ring:
    """Uniform replay.

    Args:
        capacity: transitions.
        shape: of an observation.
        dtype: of an observation.
        seed: of what is drawn.
        once: observations are kept once, the next one of a transition where that of the following
            transition is: half the memory, as CleanRL has it for frames.
    """

    def __init__(
        self, capacity: int, shape: tuple[int, ...], dtype: Any, seed: int, once: bool = False
    ) -> None:
        self._observations = np.zeros((capacity, *shape), dtype)
        self._next = None if once else np.zeros((capacity, *shape), dtype)
        self._actions = np.zeros(capacity, np.int64)
        self._rewards = np.zeros(capacity, np.float32)
        self._terminated = np.zeros(capacity, np.float32)
        self._generator = np.random.default_rng(seed)
        self._capacity, self._added = capacity, 0

    def add(
        self,
        observation: np.ndarray,
        action: int,
        reward: float,
        next_observation: np.ndarray,
        terminated: bool,
    ) -> None:
        i = self._added % self._capacity
        self._observations[i] = observation
        if self._next is None:
            self._observations[(i + 1) % self._capacity] = next_observation
        else:
            self._next[i] = next_observation
        self._actions[i], self._rewards[i], self._terminated[i] = action, reward, terminated
        self._added += 1

    def sample(self, size: int) -> tuple[np.ndarray, ...]:
        """Observations, actions, rewards, next observations, terminated."""
        if self._added < self._capacity:
            drawn = self._generator.integers(self._added, size=size)
        elif self._next is None:
            # The oldest one has lost its observation to the newest one.
            drawn = self._added + self._generator.integers(1, self._capacity, size=size)
        else:
            drawn = self._generator.integers(self._capacity, size=size)
        drawn = drawn % self._capacity
        following = self._next if self._next is not None else self._observations
        after = drawn if self._next is not None else (drawn + 1) % self._capacity
        return (
            self._observations[drawn],
            self._actions[drawn],
            self._rewards[drawn],
            following[after],
            self._terminated[drawn],
        )

    @property
    def bytes_per_transition(self) -> float:
        kept = [self._observations, self._actions, self._rewards, self._terminated]
        kept += [] if self._next is None else [self._next]
        return sum(each.nbytes for each in kept) / self._capacity
