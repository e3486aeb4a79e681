"""A worker's pushes as bytes, and what those leave out (error feedback).

Shapes: P parameters, on several servers.
"""

from collections.abc import Sequence

import numpy as np

from ps_dqn.config import ParameterServer
from ps_dqn.wire import messages
from ps_dqn.wire.masks import NO_GROWTH, Mask


class Packing:
    """How a worker packs what it pushes, as `push_wire_dtype` and `push_top_k` say.

    Attributes:
        residual: what pushes have left out so far, float32 [P]; [0] where they leave out nothing.
        masks: of the parameters of each server, which are packed without what those leave out.
    """

    def __init__(self, options: ParameterServer, sizes: Sequence[int]):
        """Of a push for servers that hold so many parameters each."""
        self._dtype, self._top_k = options.push_wire_dtype, options.push_top_k
        self._is_exact = options.pushes_are_exact
        self._sizes, self._starts = list(sizes), np.cumsum([0, *sizes])
        self.forget()
        self.forget_masks()

    def forget(self) -> None:
        """Leaves nothing over."""
        size = 0 if self._is_exact else self._starts[-1]
        self.residual = self._left_over = np.zeros(size, np.float32)

    def forget_masks(self) -> None:
        """Knows of no masks."""
        self.masks = [Mask(size) for size in self._sizes]

    def take_masks(self, masks: Sequence[Mask]) -> None:
        """Other parameters are zero from now on; what was left out of them is not wanted."""
        self.masks = list(masks)
        if len(self.residual):
            parts = zip(masks, self._parts(self.residual), strict=True)
            self.residual = np.concatenate([mask.only(part) for mask, part in parts])

    def was_applied(self) -> None:
        """What the last push left out goes with the next one."""
        self.residual = self._left_over

    def nothing(self) -> list[np.ndarray]:
        """The messages of a push without a vector."""
        return [np.empty(0, np.uint8) for _ in self._sizes]

    def pack(self, vector: np.ndarray, growth: np.ndarray = NO_GROWTH) -> list[np.ndarray]:
        """The part of a push for each server, uint8.

        Args:
            vector: gradient or change, float32 [P].
            growth: gradients of which those are said that masks leave out, float32 [P]; [0]: none.
        """
        growths = (
            np.split(growth, self._starts[1:-1]) if len(growth) else [growth] * len(self.masks)
        )
        if not self._is_exact:
            return self._pack_lossy(vector + self.residual, growths)
        parts = zip(self.masks, self._parts(vector), growths, strict=True)
        return [mask.pack(part, "float32", other) for mask, part, other in parts]

    def _parts(self, vector: np.ndarray) -> list[np.ndarray]:
        return np.split(vector, self._starts[1:-1])

    def _pack_lossy(self, vector: np.ndarray, growths: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Packs with fewer bytes, and remembers what they leave out."""
        packed, sent = [], np.zeros_like(vector)
        if self._top_k == 1.0:
            parts = self.masks, self._parts(vector), growths, self._parts(sent)
            for mask, part, growth, decoded in zip(*parts, strict=True):
                packed.append(mask.pack(part, self._dtype, growth))
                decoded[:] = mask.only(mask.unpack(packed[-1], self._dtype))
        else:
            indices = largest(vector, max(1, round(self._top_k * len(vector))))
            for i, start in enumerate(self._starts[:-1]):
                low, high = np.searchsorted(indices, [start, self._starts[i + 1]])
                chosen = indices[low:high]
                message = messages.pack_some(vector[chosen], chosen - start, self._dtype)
                decoded = messages.unpack_some(message, self._sizes[i], self._dtype)
                sent[chosen] = decoded[chosen - start]
                packed.append(message)
        self._left_over = vector - sent
        return packed


def largest(vector: np.ndarray, count: int) -> np.ndarray:
    """Indices of the numbers of largest size, in order; int64 [count].

    Lin et al. 2018, arXiv:1712.01887, of which this is the choice and the error feedback.
    """
    if count >= len(vector):
        return np.arange(len(vector))
    return np.sort(np.argpartition(np.abs(vector), len(vector) - count)[-count:])
