"""Parameter servers with a mask, of a network of two layers and what is none.

It has 40 numbers: 0 to 2 are nobody's, 3 to 26 and 27 to 38 are weights of two layers, and 39 is a
bias.
"""

import numpy as np

from ps_dqn.state import Segment
from ps_dqn.wire.messages import Kind
from support.several_servers import Servers, begun

SIZE = 40
FIRST, SECOND = slice(3, 27), slice(27, 39)
SEGMENTS = [Segment(3, 27, False, 10), Segment(27, 39, True, 8), Segment(39, 40, True, 0)]
INITIAL = np.random.default_rng(4).normal(size=SIZE).astype(np.float32)
VECTORS = ("online", "target", "average")
# Each push is of 16 environment steps: masks change after 3, 5 and 7 of them.
SCHEDULE = {
    "total_env_steps": 1600, "pruning_start": 16, "pruning_end": 112, "pruning_changes": 3,
    "sparsity": 0.75, "sparsity_distribution": "uniform", "average_decay": 0.9,
    "target_update_period": 4,
}  # fmt: skip
MAGNITUDE = {"pruning": "magnitude", **SCHEDULE}
RIGL = {"pruning": "rigl", "rigl_fraction": 0.5, **SCHEDULE}


def pushed(number: int) -> np.ndarray:
    return np.random.default_rng([3, number]).normal(size=SIZE).astype(np.float32)


def made(num_ps: int = 1, num_workers: int = 1, **options) -> Servers:
    return Servers(num_ps, num_workers, INITIAL, segments=SEGMENTS, **{**MAGNITUDE, **options})


def gone_on(servers: Servers, numbers: range, growth: bool = False) -> dict[str, np.ndarray]:
    """Pushes of one worker; what is there after them."""
    exchange = begun(servers, ticket=1 + numbers.start)
    for number in numbers:
        servers.pull(exchange)
        grown = {"growth": pushed(1000 + number)} if growth else {}
        verdict = servers.push(exchange, pushed(number), **grown)
        exchange.pushed(verdict)
        assert verdict.kind == Kind.APPLIED
    return servers.mark()


def masks(servers: Servers) -> np.ndarray:
    return np.concatenate([shard._pruning.mask.kept for shard in servers.shards])
