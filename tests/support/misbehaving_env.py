"""Environments that do one thing wrong after so many steps, as single ones and as a vector.

An observation is [number of the episode, step in it], so it tells what belongs together.
"""

import itertools
import os
import sys
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

SPACE = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
LENGTH = 10
_episodes = itertools.count(1)


class Misbehaving(gymnasium.Env):
    """Episodes of so many steps, each of which pays 1, until it fails as `how` says."""

    observation_space = SPACE
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(
        self,
        how: str = "",
        at: int = 7,
        resets: int = 0,
        offset: float = 0.0,
        goes_on: bool = False,
        length: int = LENGTH,
    ):
        """Fails in step `at` of an object's life, or from it on; and in every `resets`-th reset."""
        if how == "leaves at once":
            sys.exit(3)
        self._offset, self._goes_on, self._length = offset, goes_on, length
        self._how, self._at, self._resets = how, at, resets
        self._steps = self._begun = self._episode = self._time = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._begun += 1
        if self._resets and self._begun % self._resets == 0:
            raise RuntimeError("it will not begin")
        self._episode, self._time = next(_episodes), 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._steps += 1
        self._time += 1
        observation: Any = self._observe()
        reward: Any = 1.0
        if self._steps == self._at or (self._goes_on and self._steps > self._at):
            match self._how:
                case "raises":
                    raise ValueError(f"action {action} is one too many")
                case "nan observation":
                    observation[1] = np.nan
                case "infinite reward":
                    reward = np.inf
                case "huge reward":
                    reward = -1e39
                case "no reward":
                    reward = None
                case "wrong shape":
                    observation = observation[:1]
                case "no observation":
                    observation = None
                case "leaves":
                    sys.exit(3)
                case "exits":
                    os._exit(3)
                case "hangs":
                    time.sleep(10_000)
        return observation, reward, self._time == self._length, False, {}

    def _observe(self) -> np.ndarray:
        return np.array([self._episode + self._offset, self._time], np.float32)


class MisbehavingVector(VectorEnv):
    """The same, all in one, so that nothing can watch over each: lane 1 says NaN, or all raise.

    With mode "Disabled" lanes begin anew where a reset's `reset_mask` says so.
    """

    def __init__(
        self, num_envs: int, how: str = "nan observation", at: int = 7, mode: str = "NextStep"
    ):
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = SPACE, Misbehaving.action_space
        self.observation_space = batch_space(SPACE, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.metadata = {"autoreset_mode": AutoresetMode(mode)}
        self._how, self._at, self._steps = how, at, 0
        self._lanes = [Misbehaving() for _ in range(num_envs)]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        self._done = np.zeros(self.num_envs, np.bool_)
        if self._how == "reset raises" and self._steps:
            raise ValueError("none of them begins again")
        which = (options or {}).get("reset_mask", ~self._done)
        observations = np.full((self.num_envs, 2), np.nan, np.float32)  # of others it is nothing
        for lane in np.flatnonzero(which):
            observations[lane] = self._lanes[lane].reset()[0]
        if not self._at or (self._how == "nan anew" and self._begins_badly()):
            observations[1, 1] = np.nan
        return observations, {}

    def _begins_badly(self) -> bool:
        """The second episode does."""
        return self._steps == LENGTH

    def step(self, actions: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self._steps += 1
        if self._steps == self._at and self._how == "raises":
            raise ValueError("all of them are one too many")
        rows = [
            (lane.reset()[0], 0.0, False) if done else lane.step(0)[:3]
            for lane, done in zip(self._lanes, self._done, strict=True)
        ]
        observations = np.stack([row[0] for row in rows])
        bad = {"nan observation": (self._at, self._at + 1), "nan once": (self._at,)}
        if self._steps in bad.get(self._how, ()):
            observations[1, 1] = np.nan
        done = np.array([row[2] for row in rows])
        infos: dict[str, Any] = {}
        if self.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP:
            infos["final_obs"] = np.full(self.num_envs, None, object)
            for lane in np.flatnonzero(done):
                infos["final_obs"][lane] = observations[lane].copy()
                observations[lane] = self._lanes[lane].reset()[0]
            if self._how == "nan anew" and self._begins_badly():
                observations[1, 1] = np.nan
            if self._how == "no last observations":
                del infos["final_obs"]
        elif self.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP:
            self._done = done
        rewards = np.array([row[1] for row in rows])
        if self._steps == self._at and self._how == "huge reward":
            rewards[1] = 1e39
        return observations, rewards, done, np.zeros(self.num_envs, np.bool_), infos


gymnasium.register("Misbehaving-v0", Misbehaving)
gymnasium.register("MisbehavingVector-v0", vector_entry_point=MisbehavingVector)
