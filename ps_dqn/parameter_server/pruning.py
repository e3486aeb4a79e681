"""The mask of one server's part of the parameters: what is not in it is zero, and stays so.

Gradual magnitude pruning (Zhu and Gupta 2017, arXiv:1710.01878) and RigL (Evci et al. 2020,
arXiv:1911.11134; for reinforcement learning both in Graesser et al. 2022, arXiv:2206.10369). When
the mask changes follows from the log, and to what from the parameters, so a server that goes
through the log again comes to the same. Each server ranks the weights of its own part of a layer.

Shapes: P parameters of the shard.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ps_dqn.config import Config
from ps_dqn.parameter_server import sparsities
from ps_dqn.state import Counters, Segment, State
from ps_dqn.wire.masks import Mask
from ps_dqn.wire.messages import Entry

_SALT = 0x5A17
_NO_LAYERS = np.zeros((0, 3))
Unpack = Callable[[np.ndarray, int, str], np.ndarray]


class Layer(NamedTuple):
    """The weights of one layer."""

    start: int  # in the whole vector
    stop: int
    sparsity: float  # that it is to have


def layers(config: Config, segments: Sequence[Segment], bounds: Sequence[int]) -> np.ndarray:
    """What the server of a part of the vector is told of layers.

    Args:
        config: the experiment.
        segments: of the whole vector.
        bounds: where the part begins and ends.

    Returns:
        `Layer`s that reach into the part, float64 [n, 3]; none where nothing is pruned.
    """
    kernels = [each for each in segments if each.axes]
    if not (config.pruning.is_on and kernels):
        return _NO_LAYERS
    sizes, options = [each.stop - each.start for each in kernels], config.pruning
    if options.sparsity_distribution == "erk":
        found = sparsities.erk(sizes, [each.axes for each in kernels], options.sparsity)
    else:
        found = sparsities.uniform(sizes, options.sparsity)
    start, stop = bounds
    table = [(a.start, a.stop, b) for a, b in zip(kernels, found, strict=True)]
    return np.array([each for each in table if each[0] < stop and start < each[1]]).reshape(-1, 3)


class Pruning:
    """What is kept of one server's part of the parameters.

    Attributes:
        mask: at present.
    """

    def __init__(
        self,
        config: Config,
        start: int = 0,
        size: int = 0,
        table: np.ndarray = _NO_LAYERS,
    ):
        """Of the part of the vector that begins at `start`.

        Args:
            config: the experiment.
            start: of the part.
            size: P.
            table: as `layers` returns it.
        """
        self._options, self._total = config.pruning, config.run.total_env_steps
        self._seed, self._takes_some = config.run.seed, config.parameter_server.push_top_k < 1
        self._dtype = config.parameter_server.push_wire_dtype
        self._start, self._size = start, size
        self._layers = [Layer(int(a), int(b), float(share)) for a, b, share in table]
        self._first = int(self._options.grows)  # number of the mask that the run begins with
        self.mask = Mask(size, self._first, self._drawn()) if self._first else Mask(size)

    def is_due(self, counters: Counters) -> bool:
        """Whether the mask has changed less often than it is to have by now."""
        return self._number(counters) > self.mask.number

    def wants_growth(self, counters: Counters) -> bool:
        """Whether the next change needs gradients of weights that are not there."""
        return self._options.grows and self.is_due(counters)

    def changes_with(self, entries: Sequence[Entry], counters: Counters) -> bool:
        """Whether the mask changes with a version; the same on every server.

        Args:
            entries: of the pushes that make it.
            counters: with it.
        """
        has_growth = any(entry.grows for entry in entries)
        return self.is_due(counters) and (has_growth or not self._options.grows)

    def unpacked(self, message: np.ndarray, unpack: Unpack) -> np.ndarray:
        """A push's part of the vector, float32 [P]; what it says of growth where none is kept."""
        if not self._options.is_on:
            return unpack(message, self._size, self._dtype)
        if self._takes_some:
            return self.mask.only(unpack(message, self._size, self._dtype))
        return self.mask.unpack(message, self._dtype)

    def divided(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What pushes say of the weights that are kept, and of the others, float32 [P] each."""
        if not self._options.grows:
            return vector, np.zeros(0, np.float32)
        kept = self.mask.only(vector)
        return kept, vector - kept

    def change(self, online: np.ndarray, growth: np.ndarray, counters: Counters) -> None:
        """Makes the mask that is due.

        Args:
            online: the parameters, float32 [P].
            growth: gradients where nothing is kept, float32 [P]; [0] where nothing grows.
            counters: with the version that `online` is of.
        """
        number, kept = self._number(counters), self.mask.kept.copy()
        change = self._exchanged if self._options.grows else self._smaller
        for layer in self._layers:
            part = self._part(layer)
            kept[part] = change(layer, number - self._first, kept[part], online[part], growth[part])
        self.mask = Mask(self._size, number, kept)

    def complete(self, state: State) -> State:
        """A state with the mask, if there is one."""
        if not self.mask.number:
            return state
        kept = self.mask.kept.astype(np.float32)
        return dataclasses.replace(state, mask_number=self.mask.number, mask=kept)

    def restore(self, state: State) -> None:
        """Goes on with the mask of a state, where it has one."""
        if self._options.is_on and state.mask_number:
            self.mask = Mask(self._size, state.mask_number, state.mask > 0)

    def _number(self, counters: Counters) -> int:
        """Of the mask that there is to be."""
        return self._first + self._options.number(int(counters.env_steps), self._total)

    def _part(self, layer: Layer) -> slice:
        low, high = max(layer.start, self._start), min(layer.stop, self._start + self._size)
        return slice(low - self._start, high - self._start)

    def _smaller(
        self, layer: Layer, change: int, kept: np.ndarray, online: np.ndarray, _: np.ndarray
    ) -> np.ndarray:
        """The largest of a layer's weights, among those that are kept; bool [weights]."""
        share = layer.sparsity * self._options.share(change)
        count = min(num_kept(len(online), share), int(kept.sum()))
        return _among_largest(np.where(kept, np.abs(online), -1.0), count)

    def _exchanged(
        self, layer: Layer, change: int, kept: np.ndarray, online: np.ndarray, growth: np.ndarray
    ) -> np.ndarray:
        """Those without the smallest, and as many with the largest gradients; bool [weights]."""
        count, there = int(kept.sum()), self._options.fraction(change)
        exchanged = min(round(there * count), len(kept) - count)
        stay = _among_largest(np.where(kept, np.abs(online), -1.0), count - exchanged)
        return stay | _among_largest(np.where(kept, -1.0, np.abs(growth)), exchanged)

    def _drawn(self) -> np.ndarray:
        """A random mask of the final sparsity, bool [P], whatever parts the vector is cut into."""
        kept = np.ones(self._size, bool)
        for layer in self._layers:
            size = layer.stop - layer.start
            rng = np.random.default_rng([self._seed, _SALT, layer.start])
            whole = rng.permutation(size) < num_kept(size, layer.sparsity)
            part = self._part(layer)
            first = part.start + self._start - layer.start
            kept[part] = whole[first : first + part.stop - part.start]
        return kept


def num_kept(size: int, sparsity: float) -> int:
    """How many of so many weights are kept: one at the least."""
    return max(round((1.0 - sparsity) * size), 1)


def _among_largest(scores: np.ndarray, count: int) -> np.ndarray:
    """Which are among the largest, the first ones of equals; bool [n]."""
    found = np.zeros(len(scores), bool)
    found[np.argsort(-scores, kind="stable")[:count]] = True
    return found
