"""What a parameter server answers to a pull; made once for all that ask between two changes."""

from typing import TYPE_CHECKING

import numpy as np

from ps_dqn.parameter_server.clock import Clock
from ps_dqn.wire import encoding, messages
from ps_dqn.wire.messages import PullHeader, Status

if TYPE_CHECKING:
    from ps_dqn.parameter_server.vectors import Vectors


class Pulls:
    """Messages with a shard's parameters, and the target for those who lack it."""

    def __init__(self, parameters: "Vectors", dtype: str):
        """Of these parameters, as `pull_wire_dtype` says."""
        self._parameters, self._dtype = parameters, dtype
        self._made: dict[bool, np.ndarray] = {}

    def refusal(self, status: Status, clock: Clock, target_version: int) -> np.ndarray:
        """Counters alone, uint8."""
        return messages.new(_header(status, clock, target_version, False), 0)

    def message(self, clock: Clock, target_version: int, with_target: bool) -> np.ndarray:
        """Counters and parameters, uint8."""
        if with_target not in self._made:
            header = _header(Status.READY, clock, target_version, with_target)
            self._made[with_target] = self._encode(header)
        return self._made[with_target]

    def clear(self) -> None:
        """Something has changed."""
        self._made.clear()

    def _encode(self, header: PullHeader) -> np.ndarray:
        dtype, parameters = self._dtype, self._parameters
        size = encoding.padded(encoding.size(parameters.size, dtype))
        vectors = [parameters.online(), *([parameters.target()] if header.has_target else [])]
        message = messages.new(header, size * len(vectors))
        for i, vector in enumerate(vectors):
            start = messages.HEADER + i * size
            room = encoding.size(len(vector), dtype)
            encoding.encode(vector, dtype, message[start : start + room])
        return message


def _header(status: Status, clock: Clock, target_version: int, with_target: bool) -> PullHeader:
    return PullHeader(
        status=status,
        target_version=target_version,
        has_target=int(with_target),
        workers=clock.workers,
        **clock.counters._asdict(),
    )
