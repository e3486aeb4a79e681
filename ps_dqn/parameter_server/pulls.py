"""What a parameter server answers to a pull; made once for all that ask between two changes."""

from typing import TYPE_CHECKING

import numpy as np

from ps_dqn.parameter_server.clock import Clock
from ps_dqn.parameter_server.pruning import Pruning
from ps_dqn.wire import encoding, messages
from ps_dqn.wire.messages import PullHeader, Status

if TYPE_CHECKING:
    from ps_dqn.parameter_server.vectors import Vectors


class Pulls:
    """Messages with a shard's parameters, and the target for those who lack it."""

    def __init__(self, parameters: "Vectors", dtype: str, pruning: Pruning):
        """Of these parameters, as `pull_wire_dtype` says, and what is kept of them."""
        self._parameters, self._dtype, self._pruning = parameters, dtype, pruning
        self._made: dict[tuple[bool, bool], np.ndarray] = {}

    def refusal(self, status: Status, clock: Clock, target_version: int) -> np.ndarray:
        """Counters alone, uint8."""
        return messages.new(self._header(status, clock, target_version), 0)

    def message(
        self, clock: Clock, target_version: int, with_target: bool, known_mask: int
    ) -> np.ndarray:
        """Counters and parameters, uint8.

        Args:
            clock: where the run is.
            target_version: of the target.
            with_target: whether that comes too.
            known_mask: the number of the mask that the worker has.
        """
        kind = with_target, known_mask != self._pruning.mask.number
        if kind not in self._made:
            header = self._header(Status.READY, clock, target_version, *kind)
            self._made[kind] = self._encode(header)
        return self._made[kind]

    def clear(self) -> None:
        """Something has changed."""
        self._made.clear()

    def _encode(self, header: PullHeader) -> np.ndarray:
        dtype, parameters, mask = self._dtype, self._parameters, self._pruning.mask
        size = encoding.padded(encoding.size(mask.count, dtype))
        vectors = [parameters.online(), *([parameters.target()] if header.has_target else [])]
        bits = mask.bits if header.has_mask else np.zeros(0, np.uint8)
        start = messages.HEADER + encoding.padded(len(bits))
        message = messages.new(header, start - messages.HEADER + size * len(vectors))
        message[messages.HEADER : messages.HEADER + len(bits)] = bits
        for vector in vectors:
            kept = mask.of(vector)
            room = encoding.size(len(kept), dtype)
            encoding.encode(kept, dtype, message[start : start + room])
            start += size
        return message

    def _header(
        self,
        status: Status,
        clock: Clock,
        target_version: int,
        with_target: bool = False,
        with_mask: bool = False,
    ) -> PullHeader:
        return PullHeader(
            status=status,
            target_version=target_version,
            has_target=int(with_target),
            workers=clock.workers,
            mask=self._pruning.mask.number,
            has_mask=int(with_mask),
            wants_growth=int(self._pruning.wants_growth(clock.counters)),
            **clock.counters._asdict(),
        )
