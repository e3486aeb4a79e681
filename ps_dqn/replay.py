"""A worker's replay: a preallocated ring of rows for each environment, sampled uniformly.

A row is an observation and what followed it: action, reward, whether the episode ended. The next
observation is the next row's, so it is stored once. An episode's last observation has a row of
its own, which is a bootstrap state but no transition; so no transition joins two episodes.

Shapes: E environments, T rows for each, K transitions sampled, n the length of the return.
"""

from typing import NamedTuple

import numpy as np

GOES_ON, TRUNCATED, TERMINATED = 0, 1, 2


class Transitions(NamedTuple):
    """n-step transitions: from a state to the state n steps later or where its episode ended."""

    observations: np.ndarray  # [K, …]
    actions: np.ndarray  # int32 [K]
    returns: np.ndarray  # float32 [K]: Σ γ^k r_k
    discounts: np.ndarray  # float32 [K]: γ^length, 0 where the episode terminated
    next_observations: np.ndarray  # [K, …]


class Replay:
    """Uniform replay with n-step returns that are formed when sampled."""

    def __init__(
        self,
        num_envs: int,
        capacity: int,
        observation_shape: tuple[int, ...],
        observation_dtype: np.dtype,
        n_step: int,
        gamma: float,
        rng: np.random.Generator,
    ):
        """Allocates all of its memory.

        Args:
            num_envs: E.
            capacity: rows in all (transitions), rounded up to a multiple of E.
            observation_shape: of one observation.
            observation_dtype: as observations are stored.
            n_step: n.
            gamma: discount per environment step.
            rng: its own generator; nothing else may draw from it.
        """
        self._rows = -(-capacity // num_envs)
        self._n_step = n_step
        self._gamma = gamma
        self._rng = rng
        total = num_envs * self._rows
        self._observations = np.zeros((total, *observation_shape), observation_dtype)
        self._actions = np.zeros(total, np.int32)
        self._rewards = np.zeros(total, np.float32)
        self._ends = np.zeros(total, np.uint8)
        self._is_transition = np.zeros(total, np.bool_)
        self._written = np.zeros(num_envs, np.int64)  # rows ever written, of each environment

    def append(
        self,
        envs: np.ndarray,
        observations: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        ends: np.ndarray,
        is_transition: np.ndarray,
    ) -> None:
        """Writes one row for each of some environments.

        Args:
            envs: which environments, int [e], each at most once.
            observations: before the action, [e, …].
            actions: int [e].
            rewards: float [e].
            ends: `GOES_ON`, `TRUNCATED` or `TERMINATED`, [e].
            is_transition: False for an episode's last observation, bool [e].
        """
        rows = envs * self._rows + self._written[envs] % self._rows
        self._observations[rows] = observations
        self._actions[rows] = actions
        self._rewards[rows] = rewards
        self._ends[rows] = ends
        self._is_transition[rows] = is_transition
        self._written[envs] += 1

    @property
    def size(self) -> int:
        """Rows that can be sampled now: those whose n following rows are written."""
        return int(self._sampleable().sum())

    @property
    def nbytes(self) -> int:
        """Memory of the stored rows (bytes)."""
        arrays = (self._observations, self._actions, self._rewards, self._ends, self._is_transition)
        return sum(array.nbytes for array in arrays)

    def sample(self, count: int) -> Transitions:
        """Draws transitions uniformly, with replacement.

        Args:
            count: K; ask for several minibatches at once, it costs much less than one by one.

        Raises:
            ValueError: nothing can be sampled yet.
        """
        starts, envs = self._draw(count)
        base = envs * self._rows
        returns = np.zeros(count, np.float32)
        discount = np.ones(count, np.float32)
        lengths = np.full(count, self._n_step)
        running = np.ones(count, np.bool_)
        ends = np.zeros(count, np.uint8)
        for k in range(self._n_step):
            rows = base + (starts + k) % self._rows
            returns += np.where(running, discount * self._rewards[rows], 0)
            discount = np.where(running, discount * np.float32(self._gamma), discount)
            ended = running & (self._ends[rows] != GOES_ON)
            ends[ended] = self._ends[rows][ended]
            lengths[ended] = k + 1
            running &= ~ended
        first = base + starts % self._rows
        last = base + (starts + lengths) % self._rows
        return Transitions(
            self._observations[first],
            self._actions[first],
            returns,
            np.where(ends == TERMINATED, np.float32(0), discount),
            self._observations[last],
        )

    def _sampleable(self) -> np.ndarray:
        kept = np.minimum(self._written, self._rows)
        return np.maximum(kept - self._n_step, 0)  # [E]

    def _draw(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Positions (counted from the first row ever written) and environments, [K] each."""
        sampleable = self._sampleable()
        upper = np.cumsum(sampleable)
        if not upper[-1]:
            raise ValueError("the replay has no complete transition yet")
        oldest = np.maximum(self._written - self._rows, 0)
        starts = np.empty(count, np.int64)
        envs = np.empty(count, np.int64)
        wanted = np.arange(count)
        while wanted.size:
            drawn = self._rng.integers(upper[-1], size=wanted.size)
            env = np.searchsorted(upper, drawn, side="right")
            position = oldest[env] + drawn - (upper[env] - sampleable[env])
            starts[wanted], envs[wanted] = position, env
            rows = env * self._rows + position % self._rows
            wanted = wanted[~self._is_transition[rows]]
        return starts, envs
