"""A small replay in a folder. Observation i of an environment shows i, and reward i is i/4."""

import pathlib

import numpy as np

from ps_dqn.config.capacity import Item
from ps_dqn.replay.replay import Replay
from ps_dqn.replay.rows import CONTINUES, Layout, Rows
from ps_dqn.replay.samplers import Sampler, Uniform

GAMMA = 0.5


def make(folder: pathlib.Path, sampler: Sampler | None = None, **changes: object) -> Replay:
    values = {
        "num_envs": 2,
        "rows": 20,
        "observation_shape": (1,),
        "observation_dtype": np.dtype(np.float32),
        "item": Item(1),
        "gamma": GAMMA,
        "folder": folder,
    }
    layout = Layout(**(values | changes))  # type: ignore[arg-type]
    return Replay(layout, sampler or Uniform(), np.random.default_rng(0))


def feed(replay: Replay, numbers: range, env: int = 0, end: int = CONTINUES, size: int = 0) -> None:
    """Appends transitions; the last one has the given end. With a size: states of so many."""
    for number in numbers:
        replay.write(
            Rows(
                np.array([env]),
                np.full((1, 1), number, np.float32),
                np.array([number % 5]),
                np.array([0.25 * number]),
                np.array([end if number == numbers[-1] else CONTINUES]),
                np.array([True]),
                np.full((1, size), number, np.float32) if size else None,
            )
        )
