"""Parameters that begin anew in part, on the servers where they are.

Shrink and perturb of the layers before the head, and a fresh head, as in SR-SPR (D'Oro et al. 2023)
and BBF (Schwarzer et al. 2023, arXiv:2305.19452). It follows from a version's place in the log, so
all servers do it after the same push, and again when that push is pushed again.

A server knows no initializers. Each variable's initial values are independent of each other and of
one distribution (see `networks.segments`), so the same values in another order are a draw from that
distribution. The order depends on the run's seed, the number of the reset and the variable alone:
not on how variables are cut into shards, for a server is given all of each that reaches into its
part.

Shapes: P parameters of the shard.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ps_dqn.config import Config
from ps_dqn.state import Segment

_SALT = 0xA4E3
_NOTHING = np.zeros(0, np.float32)


def cut(
    segments: Sequence[Segment], initial: np.ndarray, bounds: Sequence[int]
) -> list[np.ndarray]:
    """What the server of a part of the vector is given of segments.

    Args:
        segments: of the whole vector.
        initial: the whole vector as it begins.
        bounds: where the part begins and ends.

    Returns:
        Those that reach into the part, int64 [n, fields], and all that they begin with, float32.
    """
    start, stop = bounds
    found = [each for each in segments if each.start < stop and start < each.stop]
    values = [initial[each.start : each.stop].astype(np.float32) for each in found]
    table = np.array(found, np.int64).reshape(-1, len(Segment._fields))
    return [table, np.concatenate([_NOTHING, *values])]


class Resets:
    """What resets make of one server's part of the parameters."""

    def __init__(
        self,
        config: Config,
        start: int = 0,
        size: int = 0,
        segments: Sequence[Sequence[int]] | np.ndarray = (),
        drawn: np.ndarray = _NOTHING,
    ):
        """Of the part of the vector that begins at `start`.

        Args:
            config: the experiment.
            start: of the part.
            size: P.
            segments: as `cut` returns them.
            drawn: likewise.
        """
        self._options, self._seed = config.resets, config.run.seed
        self._start, self._stop = start, start + size
        self._segments = [Segment(int(a), int(b), bool(c), int(d)) for a, b, c, d in segments]
        self._drawn = np.array(drawn)  # what came with a message may go away

    def are_due(self, updates_before: int, updates_after: int) -> bool:
        """Whether a version that makes so many sequential updates is followed by a reset."""
        return self._options.number(updates_after) > self._options.number(updates_before)

    def renewing(self, sequential_updates: int) -> Callable[[np.ndarray], np.ndarray]:
        """What the reset after so many updates makes of this part of a vector.

        Returns:
            A function of float32 [P], of which it makes another one. Online, target and average
            are given the same fresh values, as they are at the start of a run.
        """
        fresh = self._fresh(self._options.number(sequential_updates))
        kept = self._options.reset_shrink

        def renewed(vector: np.ndarray) -> np.ndarray:
            vector = vector.copy()
            for place, is_head, values in fresh:
                mixed = np.float32(kept) * vector[place] + np.float32(1 - kept) * values
                vector[place] = values if is_head else mixed
            return vector

        return renewed

    def _fresh(self, number: int) -> list[tuple[slice, bool, np.ndarray]]:
        """Where segments are in this part, whether they are the head's, and what they begin with.

        Args:
            number: of the reset, from 1.
        """
        found, read = [], 0
        for start, stop, is_head, _ in self._segments:
            rng = np.random.default_rng([self._seed, _SALT, number, start])
            values = rng.permutation(self._drawn[read : read + stop - start])
            read += stop - start
            low, high = max(start, self._start), min(stop, self._stop)
            place = slice(low - self._start, high - self._start)
            found.append((place, is_head, values[low - start : high - start]))
        return found
