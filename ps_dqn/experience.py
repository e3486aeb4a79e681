"""A worker's own experience: it acts in environments, remembers, and samples from memory.

Shapes: E environments, M minibatches of B transitions each.
"""

import dataclasses
from typing import Any

import numpy as np

from ps_dqn.config import Config
from ps_dqn.environments import Environments, Step
from ps_dqn.replay import GOES_ON, TERMINATED, TRUNCATED, Replay, Transitions


@dataclasses.dataclass
class Gathered:
    """What was collected since it was last taken."""

    env_steps: int = 0
    returns: list[float] = dataclasses.field(default_factory=list)  # of finished episodes


class Experience:
    """Collects with epsilon-greedy actions into the replay, and samples from it."""

    def __init__(self, config: Config, worker: int):
        """Makes the environments and the replay.

        Args:
            config: the experiment.
            worker: index; seeds differ by it.
        """
        num_envs = config.environment.num_envs_per_worker
        seeds = np.random.SeedSequence([config.run.seed, worker]).spawn(3)
        self.environments = Environments(config.environment, num_envs)
        self.environments.reset(int(seeds[0].generate_state(1)[0]) % 2**31)
        self._exploration = np.random.default_rng(seeds[1])
        observations = self.environments.observations
        self._replay = Replay(
            num_envs,
            config.replay.replay_capacity,
            observations.shape[1:],
            observations.dtype,
            config.learning.n_step,
            config.learning.gamma,
            np.random.default_rng(seeds[2]),
        )
        self._everyone = np.arange(num_envs)
        self._num_actions = self.environments.num_actions
        self._min_size = config.replay.min_replay_size
        self._minibatches = config.parameter_server.local_updates
        self._batch_size = config.learning.batch_size
        self._running_returns = np.zeros(num_envs)
        self._gathered = Gathered()

    @property
    def is_warm(self) -> bool:
        """Whether the replay has what learning begins with."""
        return self._replay.size >= self._min_size

    @property
    def replay_size(self) -> int:
        """Rows that can be sampled."""
        return self._replay.size

    def step(self, greedy: np.ndarray, epsilon: float) -> None:
        """Acts, each environment at random with probability epsilon.

        Args:
            greedy: the Q-network's best actions, int32 [E].
            epsilon: between 0 and 1.
        """
        random = self._exploration.random(len(greedy)) < epsilon
        anything = self._exploration.integers(self._num_actions, size=len(greedy))
        actions = np.where(random, anything, greedy)
        before = self.environments.observations
        self._remember(before, actions, self.environments.step(actions))

    def sample(self) -> Transitions:
        """Draws the minibatches of all local updates; arrays of [M, B, …]."""
        drawn = self._replay.sample(self._minibatches * self._batch_size)
        shape = (self._minibatches, self._batch_size)
        return Transitions(*(array.reshape(shape + array.shape[1:]) for array in drawn))

    def no_minibatches(self) -> Transitions:
        """Zeros in the place of minibatches; nothing is drawn."""
        shape = (self._minibatches, self._batch_size)
        observations = self.environments.observations
        states = np.zeros(shape + observations.shape[1:], observations.dtype)
        numbers = np.zeros(shape, np.float32)
        return Transitions(states, numbers.astype(np.int32), numbers, numbers, states)

    def take_gathered(self) -> Gathered:
        """What was collected since the last call."""
        gathered, self._gathered = self._gathered, Gathered()
        return gathered

    def _remember(self, before: np.ndarray, actions: np.ndarray, step: Step) -> None:
        ends = np.where(step.terminated, TERMINATED, np.where(step.truncated, TRUNCATED, GOES_ON))
        self._replay.append(self._everyone, before, actions, step.rewards, ends, step.is_transition)
        if step.final_envs.size:
            nothing = np.zeros(step.final_envs.size, np.int32)
            self._replay.append(
                step.final_envs,
                step.final_observations,
                nothing,
                nothing,
                nothing,
                nothing.astype(np.bool_),
            )
        self._running_returns += np.where(step.is_transition, step.rewards, 0)
        ended = np.flatnonzero(ends)
        self._gathered.returns.extend(self._running_returns[ended])
        self._running_returns[ended] = 0
        self._gathered.env_steps += int(step.is_transition.sum())


class Evaluation:
    """Plays one episode in each of its environments."""

    def __init__(self, config: Config, episodes: int):
        self.environments = Environments(config.environment, episodes)
        self._epsilon = config.run.eval_epsilon
        self._max_steps = config.run.max_eval_steps
        self._num_actions = self.environments.num_actions

    def begin(self, seed: int) -> list[Any]:
        """Starts episodes that depend on the seed alone; returns observations [E, …]."""
        self.environments.reset(seed)
        self._exploration = np.random.default_rng(seed)
        self._returns = np.zeros(self.environments.num_envs)
        self._playing = np.ones(self.environments.num_envs, np.bool_)
        self._steps = 0
        return [self.environments.observations]

    def step(self, greedy: np.ndarray) -> list[Any]:
        """Acts; returns observations [E, …] and how many episodes still run, int32 []."""
        random = self._exploration.random(len(greedy)) < self._epsilon
        anything = self._exploration.integers(self._num_actions, size=len(greedy))
        step = self.environments.step(np.where(random, anything, greedy))
        self._returns += np.where(self._playing, step.rewards, 0)
        self._playing &= ~(step.terminated | step.truncated)
        self._steps += 1
        if self._steps >= self._max_steps:
            self._playing[:] = False
        return [self.environments.observations, np.int32(self._playing.sum())]

    def end(self) -> list[Any]:
        """Returns int32 1, a mark that nothing failed, and the episodes' returns, float64 [E]."""
        return [np.int32(1), self._returns]
