"""What workers kept in files, as arrays of transitions: a file of demonstrations is made of them.

Shapes: N steps, in order, of one episode after the other; A actions.
"""

import json
import pathlib

import numpy as np

from ps_dqn.config.capacity import Item
from ps_dqn.errors import UsageError
from ps_dqn.replay.arrays import FORMAT, LAYOUT
from ps_dqn.replay.ring import Ring
from ps_dqn.replay.rows import CONTINUES, IS_TRANSITION, TERMINATED, Layout


def find(folder: pathlib.Path) -> list[pathlib.Path]:
    """The replays below a folder, which may be one itself, in order of their names."""
    return sorted(path.parent for path in folder.rglob(LAYOUT))


def transitions(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """Reads a replay that no worker uses.

    Args:
        folder: with its files.

    Returns:
        observations and next_observations [N, …], actions int32 [N], rewards float32 [N],
        terminated and truncated bool [N]; and where the environment has them action_masks and
        next_action_masks bool [N, A].

    Raises:
        UsageError: a worker uses it, or it is no replay of this version.
    """
    ring = Ring(layout_of(folder))
    try:
        parts = [_of_env(ring, env) for env in range(len(ring.written))]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    finally:
        ring.arrays.close()


def layout_of(folder: pathlib.Path) -> Layout:
    """The layout that its files were made for.

    Raises:
        UsageError: it is no replay of this version.
    """
    try:
        found = json.loads((folder / LAYOUT).read_text(encoding="utf-8"))
        signature = found["signature"]
        if found["format"] != FORMAT:
            raise UsageError(f"{folder}: is of another format ({found['format']}, now {FORMAT})")
        period = signature["period"]
        return Layout(
            num_envs=signature["num_envs"],
            rows=signature["rows"],
            observation_shape=tuple(signature["observation_shape"]),
            observation_dtype=np.dtype(signature["observation_dtype"]),
            item=Item(1) if period == 1 else Item(1, 0, sequence_length=period, period=period),
            gamma=1.0,
            frame_stack=signature["frame_stack"],
            compression=signature["compression"],
            arena_bytes=signature["arena_bytes"],
            folder=folder,
            state_size=signature["state_size"],
            mask_size=signature.get("mask_size", 0),
            source=signature["source"],
            must_be_there=True,
        )
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{folder}: is no replay ({LAYOUT}: {error!r})") from None


def _of_env(ring: Ring, env: int) -> dict[str, np.ndarray]:
    """The transitions of one environment."""
    base = np.full(1, env * ring.per_env)
    positions = np.arange(ring.oldest()[env], max(ring.written[env] - 1, ring.oldest()[env]))
    rows = ring.follow(base, positions % ring.per_env, range(2))  # [2, positions]
    is_one = ring.flags[rows[0]] & IS_TRANSITION > 0
    positions, rows = positions[is_one], rows[:, is_one]
    slots = positions % ring.per_env
    ends = ring.ends[rows[0]]
    found = {
        "observations": ring.read(base, slots),
        "next_observations": ring.read(base, (positions + 1) % ring.per_env),
        "actions": ring.actions[rows[0]].copy(),
        "rewards": ring.rewards[rows[0]].copy(),
        "terminated": ends == TERMINATED,
        "truncated": (ends != TERMINATED) & (ends != CONTINUES),
    }
    if len(positions):  # where its rows end, the next environment's begin
        found["truncated"][-1] |= ends[-1] == CONTINUES
    masks = ring.masks(rows)
    if masks.shape[-1]:
        found |= {"action_masks": masks[0], "next_action_masks": masks[1]}
    return found
