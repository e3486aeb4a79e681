"""What a shard holds, as NumPy arrays: the protocol's tests need no TensorFlow variables."""

import numpy as np

from ps_dqn.config import Config
from ps_dqn.parameter_server.rule import Rule
from ps_dqn.parameter_server.shard import Shard
from ps_dqn.parameter_server.target import TargetRule
from ps_dqn.state import Counters, State


class NumpyVectors:
    """The reference of `vectors.Vectors`: the same rules, step by step."""

    def __init__(self, config: Config, num_workers: int, initial: np.ndarray):
        self._rule = Rule(config, num_workers)
        self._share = np.float32(TargetRule(config).share)
        initial = initial.astype(np.float32)
        self._online, self._target, self._average = initial, initial.copy(), initial.copy()
        self._frozen = initial.copy()
        self._slots = [np.zeros_like(initial) for _ in range(self._rule.num_slots)]

    @property
    def size(self) -> int:
        return len(self._online)

    def step(self, vector, rate, weight, step, copies_target) -> None:
        self._online, self._average, self._slots = self._rule.apply(
            self._online, self._average, self._slots, vector, rate, weight, float(step)
        )
        if copies_target:
            self._target = self._online
        elif self._share:
            self._target = self._target + self._share * (self._online - self._target)

    def online(self) -> np.ndarray:
        return self._online

    def target(self) -> np.ndarray:
        return self._target

    def freeze(self) -> None:
        self._frozen = self._average

    def frozen(self) -> np.ndarray:
        return self._frozen

    def state(self, counters: Counters) -> State:
        vectors = (self._online, self._target, self._average)
        return State(*(each.copy() for each in vectors), tuple(self._slots), counters)

    def restore(self, state: State) -> None:
        self._online, self._target, self._average = state.online, state.target, state.average
        self._frozen, self._slots = state.average, list(state.slots)


def make_shard(
    config: Config, session: int, num_ps: int, num_workers: int, initial: np.ndarray
) -> Shard:
    """A shard of NumPy arrays."""
    vectors = NumpyVectors(config, num_workers, initial)
    return Shard(config, session, num_ps, num_workers, vectors)
