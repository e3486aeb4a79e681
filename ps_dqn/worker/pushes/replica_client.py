"""A worker's side of pull and push where it holds the parameters itself."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ps_dqn.config import Config
from ps_dqn.wire.messages import Status
from ps_dqn.worker.pushes.parameter_client import ParameterClient, Parameters


class ReplicaClient(ParameterClient):
    """The same; but pulls cross no network, and of a push what a ring sends for it.

    Each of N members sends 2 (N - 1) / N of a vector to its neighbour to add up and spread it
    (Patarasuk and Yuan 2009).
    """

    _workers = 1  # that push
    _holder = "this worker's replica"

    def pulled(self, replies: Sequence[np.ndarray]) -> Parameters | Status:
        """Takes the answer of this worker's replica: see `ParameterClient`."""
        answer = super().pulled(replies)
        self.bytes_pulled = 0
        if isinstance(answer, Parameters):
            self._workers = answer.workers
        return answer

    def pack(self, *args: Any, **options: Any) -> tuple[np.ndarray, list[np.ndarray]]:
        """The next push: see `ParameterClient`."""
        before = self.bytes_pushed
        header, packed = super().pack(*args, **options)
        share = 2 * (self._workers - 1) / self._workers
        self.bytes_pushed = before + round(share * 4 * sum(self._sizes))
        return header, packed


def make(config: Config, session: int, worker: int, sizes: Sequence[int]) -> ParameterClient:
    """The client of whoever holds the parameters; the arguments are `ParameterClient`'s."""
    options = config.parameter_server
    kind = ParameterClient if options.has_servers else ReplicaClient
    prunes = config.pruning.is_on
    return kind(options, session, worker, sizes, config.keeps_pushes, config.resets, prunes)
