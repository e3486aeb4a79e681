"""What a worker learns from: its replay, or the rollout it has just made.

Shapes: E environments, M minibatches of B items each, S numbers of recurrent state.
"""

import dataclasses
import pathlib
from typing import Protocol

import numpy as np

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec, Step
from ps_dqn.replay.batch import Batch
from ps_dqn.replay.plan import make_sampler, plan_replay
from ps_dqn.replay.replay import CONTINUES, TERMINATED, TRUNCATED, Replay
from ps_dqn.replay.rollout import RolloutBuffer


class Memory(Protocol):
    """Takes steps, gives batches."""

    @property
    def is_warm(self) -> bool:
        """Whether there is what learning begins with."""

    @property
    def size(self) -> int:
        """Rows that can be sampled; a sequence counts as the rows to the next one."""

    @property
    def nbytes(self) -> int:
        """Memory or disk of everything it holds once it is full (bytes)."""

    def begin(self) -> None:
        """A push begins; what one that was given up half-way has left may have to go."""

    def append(
        self,
        before: np.ndarray,
        states: np.ndarray,
        actions: np.ndarray,
        step: Step,
        after: np.ndarray,
    ) -> None:
        """Takes one step of every environment.

        Args:
            before: observations acted on, [E, …].
            states: recurrent states before them, float32 [E, S].
            actions: int [E].
            step: what came of it.
            after: observations to act on next, [E, …].
        """

    def sample(self, progress: float) -> Batch:
        """Draws the minibatches of all local updates; `progress` is the share of the run done."""

    def remember_errors(self, errors: np.ndarray) -> None:
        """Takes the errors of what was sampled last, float32 [M, B]."""

    def close(self) -> None:
        """Lets go of files."""


def make(
    config: Config,
    environment: EnvironmentSpec,
    rng: np.random.Generator,
    folder: pathlib.Path | None,
) -> Memory:
    """The memory that the configuration names.

    Args:
        config: the experiment.
        environment: what is acted in.
        rng: its own generator.
        folder: where replay is kept; None keeps it in memory.
    """
    if config.replay.replay == "rollout":
        return RolloutMemory(config, environment, rng)
    return ReplayMemory(config, environment, rng, folder)


class ReplayMemory:
    """Everything for as long as there is room."""

    def __init__(
        self,
        config: Config,
        environment: EnvironmentSpec,
        rng: np.random.Generator,
        folder: pathlib.Path | None,
    ):
        """See `make`."""
        plan = plan_replay(config, environment)
        if folder is None:
            plan.check_memory(1)
        layout = dataclasses.replace(plan.layout, folder=folder)
        self._replay = Replay(layout, make_sampler(config), rng)
        self._everyone = np.arange(layout.num_envs)
        self._shape = (config.parameter_server.local_updates, config.learning.batch_size)
        # A sequence stands for the rows from its start to the next one's.
        self._rows_per_item = layout.period
        self._min_size = config.replay.min_replay_size
        self._is_warm = False

    @property
    def is_warm(self) -> bool:
        """See `Memory`; once is enough, for a compressed replay may shrink a little."""
        if not self._is_warm:
            self._is_warm = self.size >= self._min_size
        return self._is_warm

    @property
    def size(self) -> int:
        """See `Memory`."""
        return self._replay.size * self._rows_per_item

    @property
    def nbytes(self) -> int:
        """See `Memory`."""
        return self._replay.nbytes

    def begin(self) -> None:
        """See `Memory`: rows stay rows."""

    def append(
        self,
        before: np.ndarray,
        states: np.ndarray,
        actions: np.ndarray,
        step: Step,
        after: np.ndarray,
    ) -> None:
        """See `Memory`; an episode's last observation gets a row of its own."""
        ends = np.where(step.terminated, TERMINATED, np.where(step.truncated, TRUNCATED, CONTINUES))
        self._replay.append(
            self._everyone, before, actions, step.rewards, ends, step.is_transition, states
        )
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

    def sample(self, progress: float) -> Batch:
        """See `Memory`."""
        return self._replay.sample(*self._shape, progress)

    def remember_errors(self, errors: np.ndarray) -> None:
        """See `Memory`: they become priorities."""
        self._replay.update_priorities(errors)

    def close(self) -> None:
        """See `Memory`."""
        self._replay.close()


class RolloutMemory:
    """The steps since the last push, each batch of which is all of them."""

    def __init__(self, config: Config, environment: EnvironmentSpec, rng: np.random.Generator):
        """See `make`."""
        self._buffer = RolloutBuffer(
            config.vector_steps_per_push,
            config.environment.num_envs_per_worker,
            environment.observation_shape,
            environment.observation_dtype,
            config.learning.gamma,
            rng,
        )
        self._shape = (config.parameter_server.local_updates, config.learning.batch_size)
        self._size = config.env_steps_per_push

    @property
    def is_warm(self) -> bool:
        """See `Memory`: a push makes the steps it needs."""
        return True

    @property
    def size(self) -> int:
        """See `Memory`."""
        return self._size

    @property
    def nbytes(self) -> int:
        """See `Memory`."""
        return self._buffer.nbytes

    def begin(self) -> None:
        """See `Memory`: a rollout is of one push."""
        self._buffer.clear()

    def append(
        self,
        before: np.ndarray,
        states: np.ndarray,
        actions: np.ndarray,
        step: Step,
        after: np.ndarray,
    ) -> None:
        """See `Memory`."""
        self._buffer.append(before, actions, step, after)

    def sample(self, progress: float) -> Batch:
        """See `Memory`."""
        return self._buffer.take(*self._shape)

    def remember_errors(self, errors: np.ndarray) -> None:
        """See `Memory`: nothing is kept."""

    def close(self) -> None:
        """See `Memory`."""
