"""A parameter server that is the only one, called as its workers call it."""

import itertools

import numpy as np
import pytest

from ps_dqn.config import Config
from ps_dqn.state import Counters
from ps_dqn.wire import messages
from ps_dqn.wire.messages import Kind, PullHeader, PullRequest, PushHeader, Status, Verdict
from support.numpy_vectors import make_shard

SIZE = 6
SESSION = 9


def make_config(**options) -> Config:
    defaults = {
        "num_envs_per_worker": 1,
        # Pushes are changes that are added as they are.
        "local_updates": 2,
        "outer_learning_rate": None if options.get("local_updates") == 1 else 1.0,
        "outer_momentum": None if options.get("local_updates") == 1 else 0.0,
        "average_decay": 0.0,
        "target_update_period": 128 if options.get("tau") else 10**6,
    }
    return Config.from_values({**defaults, **options})


def start(size: int = SIZE) -> np.ndarray:
    return np.linspace(-1, 1, size).astype(np.float32)


def vector(seed: int, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


class Server:
    """A shard that is the only one, and messages for it."""

    def __init__(self, num_workers: int = 1, size: int = SIZE, **options):
        self.shard = make_shard(make_config(**options), SESSION, 1, num_workers, start(size))
        self.tickets = itertools.count(1)

    def push(self, pushed, worker=0, base=0, kind=Kind.APPLIED, rate=0.1, **fields) -> Verdict:
        header = PushHeader(
            session=SESSION, ticket=next(self.tickets), attempt=1, oldest=0, kind=int(kind),
            worker=worker, base_version=base, updates=2, env_steps=16, episodes=1,
            rate_bits=messages.bits(rate),
        )._replace(**fields)  # fmt: skip
        message = messages.pack_vector(np.asarray(pushed, np.float32), "float32")
        return messages.unpack(Verdict, self.shard.push(messages.pack(header), message))

    def pull(self, worker=0, target_version=-1, session=SESSION, is_pressing=0):
        """Header, online and target; the last two are empty where they were not sent."""
        request = PullRequest(session, worker, target_version, is_pressing)
        message = self.shard.pull(messages.pack(request))
        values = message[messages.HEADER :].view(np.float32)
        size = -(-len(start()) * 4 // 64) * 16
        found = [values[:SIZE].tolist(), values[size : size + SIZE].tolist()]
        return messages.header(PullHeader, message), *found

    def status(self, **fields) -> Status:
        return Status(self.pull(**fields)[0].status)

    @property
    def state(self):
        self.shard.mark(Kind.CHECKPOINT, 0)
        return self.shard.checkpoint()

    @property
    def counters(self) -> Counters:
        tally = self.shard.tally()
        return Counters(*(tally[name] for name in Counters._fields))


def close(wanted, tolerance: float = 2e-6):
    return pytest.approx(wanted, rel=tolerance, abs=tolerance)
