"""A worker's side of pull and push, linked to shards that are really there."""

import numpy as np
import pytest

from ps_dqn.config import Config
from ps_dqn.config.run import WIRE_DTYPES
from ps_dqn.wire import messages
from ps_dqn.wire.messages import Kind, Verdict
from ps_dqn.worker.pushes.parameter_client import ParameterClient
from support.numpy_vectors import make_shard

SIZE = 1000  # over three servers 334, 333 and 333; none is a multiple of 256
SESSION = 77

each_dtype = pytest.mark.parametrize("dtype", WIRE_DTYPES)
each_num_ps = pytest.mark.parametrize("num_ps", [1, 3])


def make_config(**options) -> Config:
    defaults = {
        "num_envs_per_worker": 1,
        # Pushes are changes that are added as they are.
        "local_updates": 2,
        "outer_learning_rate": 1.0,
        "outer_momentum": 0.0,
        "average_decay": 0.0,
        "target_update_period": 10**6,
    }
    return Config.from_values({**defaults, **options})


class Link:
    """Some servers that begin at zero, and one worker's exchange with them."""

    def __init__(self, num_ps: int = 1, size: int = SIZE, initial=None, num_workers=1, **options):
        self.config = make_config(**options)
        initial = np.zeros(size, np.float32) if initial is None else initial
        self.sizes = messages.shard_sizes(len(initial), num_ps)
        parts = np.split(initial, np.cumsum(self.sizes)[:-1])
        self.shards = [
            make_shard(self.config, SESSION, num_ps, num_workers, each) for each in parts
        ]
        self.exchange = self.connect(0)
        self.exchange.begin(1, 0)

    def connect(self, worker: int) -> ParameterClient:
        return ParameterClient(self.config.parameter_server, SESSION, worker, self.sizes)

    def replies(self) -> list[np.ndarray]:
        requests = self.exchange.requests()
        return [shard.pull(each) for shard, each in zip(self.shards, requests, strict=True)]

    def pull(self):
        return self.exchange.pulled(self.replies())

    def push(self, vector, kind: Kind = Kind.APPLIED) -> list[np.ndarray]:
        """Pushes, and hears what became of it; the messages."""
        header, packed = self.exchange.pack(vector, kind, 2, 16, 1, 0.1)
        pairs = zip(self.shards, packed, strict=True)
        lacking = [shard.stage(header, each) for shard, each in pairs]
        verdict = self.shards[0].decide(np.append(header, min(lacking)))
        for shard in self.shards[1:]:
            shard.follow(verdict)
        self.exchange.pushed(messages.unpack(Verdict, verdict))
        return packed

    def online(self) -> np.ndarray:
        """What the servers hold, whatever pulls do to it."""
        for shard in self.shards:
            shard.mark(Kind.CHECKPOINT, shard.next_index())
        return np.concatenate([shard.checkpoint().online for shard in self.shards])

    def residual(self) -> np.ndarray:
        return self.exchange.packing.residual


def vector(seed: int = 0, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


def split(link: Link, whole: np.ndarray) -> list[np.ndarray]:
    return np.split(whole, np.cumsum(link.sizes)[:-1])
