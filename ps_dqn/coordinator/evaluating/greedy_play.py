"""Greedy evaluations during a run: scheduled on the workers, in parts where they are large."""

import dataclasses
import math
import time

import numpy as np

from ps_dqn.config import Run
from ps_dqn.coordinator.scheduling.dispatch import Schedule
from ps_dqn.profiling import timeline
from ps_dqn.state import Counters
from ps_dqn.store import Frozen
from ps_dqn.wire import encoding
from ps_dqn.worker.graph.closures import Closures

# What a seed is for.
_EVALUATION, _CONFIRMATION = 0xE7A1, 0xC04F
_SPANS = {_EVALUATION: "evaluating", _CONFIRMATION: "evaluating anew to confirm"}


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """One finished greedy evaluation, or its confirmation by further episodes."""

    counters: Counters
    returns: np.ndarray  # float [episodes]
    confirms: bool = False
    network: np.ndarray | None = None  # that was played, float32 [P]; None: the store keeps it


class Evaluations:
    """At most one on its way, or its confirmation: the network is frozen until both have ended."""

    def __init__(self, config: Run, closures: Closures, schedule: Schedule):
        self._config, self._closures, self._schedule = config, closures, schedule
        self._env_steps, self._purpose = 0, _EVALUATION
        self._counters = Counters(0, 0, 0, 0, 0)
        self._shares: list[int] = []  # episodes of each part
        self._returns: list[np.ndarray] = []
        self._missing = 0
        self._is_prepared = False
        self._network: np.ndarray | None = None  # frozen; None where the store keeps it

    def prepare(self) -> None:
        """Traces what will be played, once; that registers it with every worker."""
        if self._is_prepared:
            return
        self._is_prepared = True
        with timeline.span("tracing evaluations"):
            shares = self._split(self._config.eval_episodes)
            for episodes in sorted(set(shares)):
                self._closures.evaluate(episodes, len(shares) == 1 and self._closures.keeps_frozen)
            for episodes in sorted(set(self._split(self._config.confirming_episodes))):
                self._closures.evaluate(episodes, False)

    @property
    def is_running(self) -> bool:
        """Whether one is on its way."""
        return bool(self._missing)

    @property
    def confirms(self) -> bool:
        """Whether that is a confirmation."""
        return self._purpose == _CONFIRMATION

    def start(self, env_steps: int) -> None:
        """Freezes the average and plays with it, on seeds that depend on `env_steps`."""
        self._begin(_EVALUATION, env_steps, self._config.eval_episodes)
        if self._freezes_itself:
            self._submit(0, freeze=True)
        else:
            self.freeze()

    def freeze(self) -> None:
        """Schedules that the average is frozen, once more where a worker had not the newest."""
        self._schedule.submit("freeze", self._closures.freeze, repeatable=True)

    def confirm(self) -> None:
        """Plays other episodes with what was frozen for the evaluation that has just ended."""
        self._begin(_CONFIRMATION, self._env_steps, self._config.confirming_episodes)
        self._submit_all()

    def on_frozen(self, frozen: Frozen) -> None:
        """The average is frozen: every part may be played."""
        self._counters = Counters(*(int(each) for each in frozen.counters))
        self._network = None
        if frozen.average.size:  # all parts share this memory, however many are on their way
            self._network = encoding.aligned(frozen.average.nbytes).view(np.float32)
            self._network[:] = frozen.average
        self._submit_all()

    def on_part(self, counters: np.ndarray, returns: np.ndarray) -> Evaluation | None:
        """Takes one part; the evaluation if it was the last."""
        if self._freezes_itself:
            self._counters = Counters(*(int(each) for each in counters))
        self._returns.append(returns)
        self._missing -= 1
        if self._missing:
            return None
        timeline.add(_SPANS[self._purpose], self._began, lane=timeline.BESIDE)
        return Evaluation(
            self._counters, np.concatenate(self._returns), self.confirms, self._network
        )

    @property
    def _freezes_itself(self) -> bool:
        """Whether the only part freezes the average that it plays."""
        is_alone = len(self._shares) == 1 and self._purpose == _EVALUATION
        return is_alone and bool(self._closures.keeps_frozen)

    def _begin(self, purpose: int, env_steps: int, episodes: int) -> None:
        self._purpose, self._env_steps = purpose, env_steps
        self._shares, self._returns = self._split(episodes), []
        self._missing, self._began = len(self._shares), time.perf_counter()

    def _split(self, episodes: int) -> list[int]:
        """Episodes of each part."""
        parts = math.ceil(episodes / self._config.eval_episodes_per_closure)
        return [len(range(part, episodes, parts)) for part in range(parts)]

    def _submit_all(self) -> None:
        for part in range(self._missing):
            self._submit(part, freeze=False)

    def _submit(self, part: int, freeze: bool) -> None:
        closure = self._closures.evaluate(self._shares[part], freeze)
        seed = seed_of(self._config.seed, self._env_steps, part, self._purpose)
        brought = np.zeros(0, np.float32) if self._network is None else self._network
        self._schedule.submit("evaluation", closure, [seed, brought], repeatable=True)


def seed_of(seed: int, env_steps: int, part: int, purpose: int = _EVALUATION) -> np.int64:
    """A seed no training environment has, another for each evaluation and part of it."""
    sequence = np.random.SeedSequence([seed, env_steps, part, purpose])
    return np.int64(int(sequence.generate_state(1)[0]) % 2**31)
