"""States of parameter servers to save, and how to compare them."""

import pathlib

import numpy as np

from ps_dqn.run import checkpoints
from ps_dqn.state import Counters, State

VECTORS = ("online", "target", "average")


def state(updates: int, slots: int = 2) -> State:
    rng = np.random.default_rng(updates)
    vectors = {name: rng.normal(size=5).astype(np.float32) for name in VECTORS}
    kept = tuple(rng.normal(size=5).astype(np.float32) for _ in range(slots))
    counters = Counters(updates // 2, updates, 10**12, 3, updates // 4)
    return State(**vectors, slots=kept, counters=counters)


def assert_same(one: State, other: State) -> None:
    assert one.counters == other.counters
    assert len(one.slots) == len(other.slots)
    pairs = [(getattr(one, name), getattr(other, name)) for name in VECTORS]
    for first, second in [*pairs, *zip(one.slots, other.slots, strict=True)]:
        assert first.dtype == second.dtype == np.float32
        assert (first == second).all()


def newest(folder: pathlib.Path) -> State:
    """What the last checkpoint of a run has."""
    return checkpoints.load(max((folder / "checkpoints").glob("updates-*.npz"))).state


def names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
