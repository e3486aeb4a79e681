"""What a shard holds, as NumPy arrays: the protocol's tests need no TensorFlow variables."""

import numpy as np

from ps_dqn.config import Config
from ps_dqn.parameter_server.normalizing import Normalizing
from ps_dqn.parameter_server.pruning import Pruning
from ps_dqn.parameter_server.resets import Resets
from ps_dqn.parameter_server.rule import Numbers, Rule
from ps_dqn.parameter_server.shard import Shard
from ps_dqn.parameter_server.target import TargetRule
from ps_dqn.state import Counters, State


class NumpyVectors:
    """The reference of `vectors.Vectors`: the same rules, step by step."""

    def __init__(self, config: Config, initial: np.ndarray):
        self._rule, self._target_rule = Rule(config), TargetRule(config)
        initial = initial.astype(np.float32)
        self._online, self._target, self._average = initial, initial.copy(), initial.copy()
        self._frozen = initial.copy()
        self._slots = [np.zeros_like(initial) for _ in range(self._rule.num_slots)]

    @property
    def size(self) -> int:
        return len(self._online)

    def step(self, combined, step, copies_target) -> None:
        worth = combined.sequential_updates
        share = np.float32(self._target_rule.share(worth))
        numbers = Numbers(
            combined.weight,
            combined.step_size,
            combined.momentum,
            self._rule.average_step(worth),
            share,
            float(step),
        )
        self._online, self._average, self._slots = self._rule.apply(
            self._online, self._average, self._slots, combined.vector, numbers
        )
        if copies_target:
            self._target = self._online.copy()
        elif share:
            self._target = self._target + share * (self._online - self._target)

    def put(self, values: np.ndarray) -> None:
        for vector in (self._online, self._target, self._average):
            vector[: len(values)] = values

    def begin_anew(self, renewed) -> None:
        vectors = (self._online, self._target, self._average)
        self._online, self._target, self._average = map(renewed, vectors)
        self._slots = [np.zeros_like(slot) for slot in self._slots]

    def keep(self, kept: np.ndarray) -> None:
        vectors = (self._online, self._target, self._average)
        self._online, self._target, self._average = (each * kept for each in vectors)
        self._slots = [slot * kept for slot in self._slots]

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
    config: Config,
    session: int,
    num_ps: int,
    num_workers: int,
    initial: np.ndarray,
    normalizing: Normalizing | None = None,
    resets: Resets | None = None,
    pruning: Pruning | None = None,
) -> Shard:
    """A shard of NumPy arrays."""
    held = NumpyVectors(config, initial if pruning is None else pruning.mask.only(initial))
    others = {"resets": resets, "pruning": pruning}
    return Shard(config, session, num_ps, num_workers, held, normalizing, **others)
