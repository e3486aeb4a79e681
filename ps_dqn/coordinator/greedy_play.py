"""Greedy evaluations during a run: scheduled on the workers, in parts where they are large."""

import dataclasses
import math

import numpy as np

from ps_dqn.config import Run
from ps_dqn.coordinator.dispatch import Schedule
from ps_dqn.state import Counters
from ps_dqn.worker.closures import Closures


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """One finished greedy evaluation."""

    counters: Counters
    returns: np.ndarray  # float [episodes]


class Evaluations:
    """At most one on its way."""

    def __init__(self, config: Run, closures: Closures, schedule: Schedule):
        self._config, self._closures, self._schedule = config, closures, schedule
        self._env_steps = 0
        self._counters = Counters(0, 0, 0, 0, 0)
        self._shares: list[int] = []  # episodes of each part
        self._returns: list[np.ndarray] = []
        self._missing = 0

    def prepare(self) -> None:
        """Traces what will be played, which registers it with every worker."""
        for episodes in sorted(set(self._split())):
            self._closures.evaluate(episodes, self._num_parts == 1)

    @property
    def is_running(self) -> bool:
        """Whether one is on its way."""
        return bool(self._missing)

    def start(self, env_steps: int) -> None:
        """Freezes the average and plays with it, on seeds that depend on `env_steps`."""
        self._missing, self._shares = self._num_parts, self._split()
        self._env_steps, self._returns = env_steps, []
        if self._missing == 1:
            self._submit(0, freeze=True)
        else:
            self._schedule.submit("freeze", self._closures.freeze, repeatable=True)

    def on_frozen(self, counters: np.ndarray) -> None:
        """The average is frozen: every part may be played."""
        self._counters = Counters(*(int(each) for each in counters))
        for part in range(self._missing):
            self._submit(part, freeze=False)

    def on_part(self, counters: np.ndarray, returns: np.ndarray) -> Evaluation | None:
        """Takes one part; the evaluation if it was the last."""
        if len(self._shares) == 1:
            self._counters = Counters(*(int(each) for each in counters))
        self._returns.append(returns)
        self._missing -= 1
        return None if self._missing else Evaluation(self._counters, np.concatenate(self._returns))

    @property
    def _num_parts(self) -> int:
        return math.ceil(self._config.eval_episodes / self._config.eval_episodes_per_closure)

    def _split(self) -> list[int]:
        """Episodes of each part."""
        parts = self._num_parts
        return [len(range(part, self._config.eval_episodes, parts)) for part in range(parts)]

    def _submit(self, part: int, freeze: bool) -> None:
        closure = self._closures.evaluate(self._shares[part], freeze)
        seed = seed_of(self._config.seed, self._env_steps, part)
        self._schedule.submit("evaluation", closure, [seed], repeatable=True)


def seed_of(seed: int, env_steps: int, part: int) -> np.int64:
    """A seed no training environment has, another for each evaluation and part of it."""
    sequence = np.random.SeedSequence([seed, env_steps, part, 0xE7A1])
    return np.int64(int(sequence.generate_state(1)[0]) % 2**31)
