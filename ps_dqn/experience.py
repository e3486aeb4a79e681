"""What a worker hosts behind the bridge: environments, replay, statistics, optimizer slots.

Every method is called by a closure that runs on this worker, in the order of `closures.py`:
`begin`, then for each push `observe`, `step`…, `sample`, `keep`, `pushed`; `report` ends it.
The first `begin` of a session builds everything from the configuration it brings, so a worker
needs no flags of its own, and one that was restarted becomes whole again by itself.

Shapes: E environments, M minibatches, B transitions each, P parameters, S slots.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ps_dqn.config import Config
from ps_dqn.environments import Environments, Step
from ps_dqn.replay import GOES_ON, TERMINATED, TRUNCATED, Replay
from ps_dqn.reports import PHASES, Report


class ExperienceHost:
    """The bridge's host for one worker."""

    def __init__(self, worker: int):
        self._worker = worker
        self._session = ""
        self._experience: Experience | None = None
        self._evaluation: Evaluation | None = None
        self._config = Config()

    @property
    def methods(self) -> dict[str, Callable[..., Sequence[Any]]]:
        """See `bridge.Host`."""
        methods: dict[str, Callable[..., Sequence[Any]]] = {
            "begin": self._begin,
            "evaluate_begin": self._evaluate_begin,
        }
        if self._experience is not None:
            current = self._experience
            methods |= {
                "observe": current.observe,
                "step": current.step,
                "sample": current.sample,
                "keep": current.keep,
                "pushed": current.pushed,
                "report": current.report,
            }
        if self._evaluation is not None:
            methods |= {
                "evaluate_step": self._evaluation.step,
                "evaluate_end": self._evaluation.end,
            }
        return methods

    def close(self) -> None:
        """Ends the environments."""
        for held in (self._experience, self._evaluation):
            if held is not None:
                held.environments.close()
        self._experience = self._evaluation = None

    def _begin(self, session: bytes, config: bytes, slots: np.ndarray) -> list[Any]:
        self._open(session, config)
        if self._experience is None:
            self._experience = Experience(self._config, self._worker, slots)
        return self._experience.begin()

    def _evaluate_begin(
        self, session: bytes, config: bytes, seed: np.ndarray, episodes: np.ndarray
    ) -> list[Any]:
        self._open(session, config)
        if self._evaluation is None or self._evaluation.environments.num_envs != int(episodes):
            if self._evaluation is not None:
                self._evaluation.environments.close()
            self._evaluation = Evaluation(self._config, int(episodes))
        return self._evaluation.begin(int(seed))

    def _open(self, session: bytes, config: bytes) -> None:
        """Starts afresh when the coordinator is another run than the last one here."""
        if session.decode() != self._session:
            self.close()
            self._config = Config.from_json(config.decode())
            self._session = session.decode()


@dataclasses.dataclass
class Gathered:
    """Statistics since they were last taken."""

    env_steps: int = 0
    episodes: int = 0
    returns: list[float] = dataclasses.field(default_factory=list)
    seconds: dict[str, float] = dataclasses.field(
        default_factory=lambda: dict.fromkeys(PHASES, 0.0)
    )


class Experience:
    """Collects with epsilon-greedy actions into the replay, and samples from it."""

    def __init__(self, config: Config, worker: int, slots: np.ndarray):
        """Makes the environments and the replay.

        Args:
            config: the experiment.
            worker: index; seeds differ by it.
            slots: zeros of the local optimizer's shape, float32 [S, P].
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
        self._slots, self._slot_steps = slots.copy(), 0
        self._running_returns = np.zeros(num_envs)
        self._gathered = Gathered()
        self._worker = worker
        self._taken = (0, 0)
        self._clock = time.perf_counter()

    def begin(self) -> list[Any]:
        """Returns the local optimizer's slots [S, P] and its steps so far, int64 []."""
        self._clock = time.perf_counter()
        return [self._slots, np.int64(self._slot_steps)]

    def observe(self) -> list[Any]:
        """Returns what to act on [E, …] and how many transitions the replay lacks, int64 []."""
        self._lap("pull")
        return [self.environments.observations, self._missing()]

    def step(self, greedy: np.ndarray, epsilon: np.ndarray) -> list[Any]:
        """Acts, each environment at random with probability epsilon; returns as `observe`.

        Args:
            greedy: the Q-network's best actions, int32 [E].
            epsilon: float32 [].
        """
        self._lap("acting")
        random = self._exploration.random(len(greedy)) < epsilon
        anything = self._exploration.integers(self._num_actions, size=len(greedy))
        actions = np.where(random, anything, greedy)
        before = self.environments.observations
        self._remember(before, actions, self.environments.step(actions))
        self._lap("environment")
        return [self.environments.observations, self._missing()]

    def sample(self) -> list[Any]:
        """Draws the minibatches of all local updates.

        Returns:
            int32 1, a mark that nothing failed; the fields of `Transitions`, [M, B, …] each; the
            environment steps and episodes since the last call, int64 [].
        """
        drawn = self._replay.sample(self._minibatches * self._batch_size)
        shape = (self._minibatches, self._batch_size)
        minibatches = [array.reshape(shape + array.shape[1:]) for array in drawn]
        taken = (self._gathered.env_steps, self._gathered.episodes)
        counts = [np.int64(now - last) for now, last in zip(taken, self._taken, strict=True)]
        self._taken = taken
        self._lap("sampling")
        return [np.int32(1), *minibatches, *counts]

    def keep(self, slots: np.ndarray, steps: np.ndarray) -> list[Any]:
        """Keeps the local optimizer's slots [S, P] and steps [] until the next `begin`."""
        self._slots, self._slot_steps = slots.copy(), int(steps)
        self._lap("gradient")
        return [np.int32(1)]

    def pushed(self) -> list[Any]:
        """Marks the end of a push."""
        self._lap("push")
        return [np.int32(1)]

    def report(self, latest: np.ndarray, sums: np.ndarray) -> list[Any]:
        """Completes the closure's report, float64 [fields of Report].

        Args:
            latest: version and epsilon at the closure's last push, float64 [2].
            sums: staleness, pushes, updates, td_loss, q_values and grad_norm, float64 [6].
        """
        version, epsilon = latest
        staleness, pushes, updates, td_loss, q_values, grad_norm = sums
        done, self._gathered, self._taken = self._gathered, Gathered(), (0, 0)
        report = Report(
            worker=self._worker,
            version=version,
            staleness=staleness,
            pushes=pushes,
            updates=updates,
            env_steps=done.env_steps,
            episodes=done.episodes,
            return_sum=sum(done.returns),
            return_min=min(done.returns, default=np.inf),
            return_max=max(done.returns, default=-np.inf),
            td_loss=td_loss,
            q_values=q_values,
            grad_norm=grad_norm,
            epsilon=epsilon,
            replay_size=self._replay.size,
            **{f"time_{phase}": seconds for phase, seconds in done.seconds.items()},
        )
        return [np.array(report, np.float64)]

    def _missing(self) -> np.int64:
        return np.int64(max(0, self._min_size - self._replay.size))

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
        self._gathered.episodes += len(ended)

    def _lap(self, phase: str) -> None:
        now = time.perf_counter()
        self._gathered.seconds[phase] += now - self._clock
        self._clock = now


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
