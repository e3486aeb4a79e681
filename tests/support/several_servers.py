"""Parameter servers that share the parameters, and workers that push to them step by step."""

import numpy as np

from ps_dqn.parameter_server import pruning, resets
from ps_dqn.parameter_server.normalizing import Normalizing
from ps_dqn.parameter_server.pruning import Pruning
from ps_dqn.parameter_server.resets import Resets
from ps_dqn.wire import messages
from ps_dqn.wire.masks import NO_GROWTH
from ps_dqn.wire.messages import Kind, Verdict
from ps_dqn.worker.pushes.parameter_client import NOTHING_SEEN, ParameterClient
from support.numpy_vectors import make_shard
from support.single_server import SESSION, make_config

SIZE = 7  # not a multiple of the numbers of servers


class Servers:
    """Shards, of zeros if not said otherwise, and the calls that a `ParameterStore` makes."""

    def __init__(
        self,
        num_ps: int,
        num_workers: int = 1,
        initial=None,
        session=SESSION,
        num_moments: int = 0,
        segments=(),
        **options,
    ):
        self.config = make_config(**options)
        initial = np.zeros(SIZE, np.float32) if initial is None else initial
        self.sizes = messages.shard_sizes(len(initial), num_ps)
        has_returns = int(self.config.value.normalize_returns == "on")
        starts = np.cumsum([0, *self.sizes])
        self.shards = [
            make_shard(
                self.config,
                session,
                num_ps,
                num_workers,
                part,
                Normalizing(num_moments, has_returns, int(start)),
                self._resets(segments, initial, int(start), len(part)),
                self._pruning(segments, int(start), len(part)),
            )
            for part, start in zip(np.split(initial, starts[1:-1]), starts, strict=False)
        ]

    def _resets(self, segments, initial, start: int, size: int) -> Resets:
        found = resets.cut(segments, initial, (start, start + size))
        return Resets(self.config, start, size, *found)

    def _pruning(self, segments, start: int, size: int) -> Pruning:
        layers = pruning.layers(self.config, segments, (start, start + size))
        return Pruning(self.config, start, size, layers)

    def connect(self, worker: int) -> ParameterClient:
        whose = self.config.parameter_server, SESSION, worker, self.sizes
        begins = {"resets": self.config.resets, "prunes": self.config.pruning.is_on}
        return ParameterClient(*whose, **begins)

    def pull(self, exchange: ParameterClient):
        requests = exchange.requests()
        return exchange.pulled(
            [shard.pull(each) for shard, each in zip(self.shards, requests, strict=True)]
        )

    def stage(self, header, packed) -> list[int]:
        return [shard.stage(header, each) for shard, each in zip(self.shards, packed, strict=True)]

    def decide(self, header, lacking) -> np.ndarray:
        return self.shards[0].decide(np.append(header, min(lacking)))

    def follow(self, verdict) -> None:
        for shard in self.shards[1:]:
            shard.follow(verdict)

    def push(
        self,
        exchange: ParameterClient,
        pushed,
        kind: Kind = Kind.APPLIED,
        seen=NOTHING_SEEN,
        growth=NO_GROWTH,
    ) -> Verdict:
        header, packed = exchange.pack(pushed, kind, 2, 16, 1, 0.1, seen, growth)
        verdict = self.decide(header, self.stage(header, packed))
        self.follow(verdict)
        return messages.unpack(Verdict, verdict)

    def catch_up(self) -> None:
        """As `ParameterStore.catch_up` does it."""
        if len(self.shards) > 1:
            known = min(shard.next_index() for shard in self.shards)
            self.follow(self.shards[0].entries(known))

    def states(self) -> dict[str, np.ndarray]:
        """Online, target and average when they were marked last."""
        found = [shard.checkpoint() for shard in self.shards]
        return {
            name: np.concatenate([getattr(each, name) for each in found])
            for name in ("online", "target", "average")
        }

    def mark(self) -> dict[str, np.ndarray]:
        known = min(shard.next_index() for shard in self.shards)
        self.follow(self.shards[0].mark(Kind.CHECKPOINT, known))
        return self.states()

    def tallies(self) -> list[dict[str, int]]:
        return [shard.tally() for shard in self.shards]


def begun(servers: Servers, ticket: int = 1, oldest: int = 0, worker: int = 0) -> ParameterClient:
    exchange = servers.connect(worker)
    exchange.begin(ticket, oldest)
    return exchange


def whole(number: float) -> np.ndarray:
    return np.full(SIZE, number, np.float32)
