"""An environment that counts, as a single one and as a vector that resets in any of three ways.

In lane i of episode e at time t it observes [i, e, t], so an observation tells where it belongs,
and what the right one would have been can be written down.
"""

import json
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ps_dqn.config import Environment

MODES = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)
SPACE = gymnasium.spaces.Box(0, 1000, (3,), np.float32)


def length(lane: int, episode: int) -> int:
    """Steps of an episode, different in each lane so that they end at different times."""
    return 2 + (lane + 2 * episode) % 3


def terminates(lane: int, episode: int) -> bool:
    return (lane + episode) % 2 == 0


def reward(lane: int, episode: int, time: int, action: int) -> float:
    return 100 * lane + 10 * episode + time + action / 10


class CountingVector(VectorEnv):
    """The toy as a vector environment that resets in any of the three ways.

    It hands out the very same buffer at every step, as fast native environments do.
    """

    def __init__(self, num_envs: int, mode: str = "NextStep"):
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode(mode)}
        self.single_observation_space = SPACE
        self.observation_space = batch_space(SPACE, num_envs)
        self.single_action_space = gymnasium.spaces.Discrete(2)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.buffer = np.zeros((num_envs, 3), np.float32)
        self.over = np.zeros(num_envs, np.bool_)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        mask = (options or {}).get("reset_mask")
        if mask is None:
            self.buffer[:] = 0
            self.buffer[:, 0] = np.arange(self.num_envs)
            mask = np.ones(self.num_envs, np.bool_)
        else:
            assert self.mode == AutoresetMode.DISABLED
            assert (mask == self.over).all(), "exactly the ended episodes are to be reset"
            self._next_episode(mask)
        self.over[mask] = False
        return self.buffer, {}

    @property
    def mode(self) -> AutoresetMode:
        return self.metadata["autoreset_mode"]

    def _next_episode(self, mask: np.ndarray) -> None:
        self.buffer[mask, 1] += 1
        self.buffer[mask, 2] = 0

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, ...]:
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), np.bool_)
        for lane, (episode, time) in enumerate(self.buffer[:, 1:].astype(int).tolist()):
            if self.over[lane]:
                assert self.mode == AutoresetMode.NEXT_STEP
                self.over[lane] = False
                self._next_episode(np.arange(self.num_envs) == lane)
                continue
            rewards[lane] = reward(lane, episode, time, actions[lane])
            self.buffer[lane, 2] += 1
            if time + 1 == length(lane, episode):
                (terminated if terminates(lane, episode) else truncated)[lane] = True
        done = terminated | truncated
        infos: dict[str, Any] = {}
        if self.mode == AutoresetMode.SAME_STEP and done.any():
            infos["final_obs"] = np.full(self.num_envs, None, object)
            for lane in np.flatnonzero(done):
                infos["final_obs"][lane] = self.buffer[lane].copy()
            self._next_episode(done)
        else:
            self.over |= done
        return self.buffer, rewards, terminated, truncated, infos


class Counting(gymnasium.Env):
    """The toy as a single environment. Its lane is what its first seed ends with."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = SPACE, gymnasium.spaces.Discrete(2)
        self.lane, self.episode, self.time = 0, -1, 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        if seed is not None:
            self.lane, self.episode = seed % 10, -1
        self.episode, self.time = self.episode + 1, 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        value = reward(self.lane, self.episode, self.time, int(action))
        self.time += 1
        over = self.time == length(self.lane, self.episode)
        end = terminates(self.lane, self.episode)
        return self._observation(), value, over and end, over and not end, {}

    def _observation(self) -> np.ndarray:
        return np.array([self.lane, self.episode, self.time], np.float32)


gymnasium.register(
    "TestEnvironments/Counting-v0",
    Counting,
    vector_entry_point=CountingVector,
    disable_env_checker=True,
)
COUNTING = "TestEnvironments/Counting-v0"


def native(mode: AutoresetMode) -> Environment:
    return Environment(env_id=COUNTING, env_kwargs=json.dumps({"mode": mode.value}))


def synchronous() -> Environment:
    return Environment(env_id=COUNTING, vectorization="sync")


# Every way in which a worker may step it.
CONFIGS = [*map(native, MODES), synchronous()]
NAMES = ["native NEXT_STEP", "native SAME_STEP", "native DISABLED", "sync"]
