"""What CleanRL documents of its DQN, for the programs that are written here.

docs.cleanrl.dev/rl-algorithms/dqn: `dqn` and `dqn_jax` have the same defaults, `dqn_atari` others.
"""

import argparse
from typing import NamedTuple

from protocol import PONG
from rates import SAME


class Settings(NamedTuple):
    """Of a program."""

    hidden: tuple[int, ...]  # after DQN's convolutions where observations are frames
    batch_size: int
    update_period: int  # environment steps for each update
    capacity: int  # transitions
    learning_starts: int  # transitions
    learning_rate: float
    target_period: int  # environment steps
    epsilon_end: float
    epsilon_steps: int


DQN = Settings((120, 84), 128, 10, 10_000, 10_000, 2.5e-4, 500, 0.05, 250_000)
# Its replay has a million transitions, of 28 kB each: more than many machines can keep.
DQN_ATARI = Settings((512,), 32, 4, 300_000, 80_000, 1e-4, 1000, 0.01, 1_000_000)
GAMMA, EPSILON_START = 0.99, 1.0


def of(options: argparse.Namespace) -> Settings:
    """What a run has; for rates, what is the same for all."""
    documented = DQN_ATARI if options.env_id == PONG else DQN
    if not options.rate_seconds:
        return documented
    return documented._replace(**SAME[options.env_id]._asdict())
