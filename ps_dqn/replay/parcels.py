"""What an actor sends to a replay server: rows of some of its environments, each frame once.

A parcel is one message. Of stacked frames it has the newest of each row, and the older ones only
where an episode begins or the parcel does, so that it can be read whatever was lost before it.

Shapes: S vector steps, E environments, k frames in a stack, A truth values of a mask, C rows whose
older frames come along, F last observations of episodes that have ended.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ps_dqn.replay.rows import Layout


class Parcel(NamedTuple):
    """Rows in the order in which they were made: of each step those of E, then last observations.

    Of a stack `frames` and `last_frames` are the newest frame.
    """

    sender: int  # another number for each process that sends
    number: int  # of the parcel, counted from 0 by its sender
    frames: np.ndarray  # acted on, [S, E, …]
    actions: np.ndarray  # int32 [S, E]
    rewards: np.ndarray  # float32 [S, E]
    ends: np.ndarray  # see `rows`, uint8 [S, E]
    is_transition: np.ndarray  # bool [S, E]
    errors: np.ndarray  # |TD error| of the transition that begins here, float32 [S, E]
    masks: np.ndarray  # bool [S, E, A]
    older: np.ndarray  # [C, k - 1, …]
    older_of: np.ndarray  # where in S·E, int64 [C]
    last_frames: np.ndarray  # [F, …]
    last_of: np.ndarray  # after which row of S·E, int64 [F]
    last_masks: np.ndarray  # bool [F, A]


def pack(parcel: Parcel) -> np.ndarray:
    """The parcel as uint8."""
    steps = len(parcel.actions)
    numbers = [parcel.sender, parcel.number, steps, len(parcel.older_of), len(parcel.last_of)]
    parts = [np.array(numbers, np.int64), *parcel[2:]]
    return np.concatenate([np.ascontiguousarray(part).reshape(-1).view(np.uint8) for part in parts])


def unpack(message: np.ndarray, layout: Layout, num_envs: int) -> Parcel:
    """What was packed.

    Args:
        message: uint8.
        layout: of the replay that it is for.
        num_envs: E, of the sender.
    """
    sender, number, steps, older, last = (int(each) for each in message[:40].view(np.int64))
    place = 40

    def take(shape: Sequence[int], dtype: np.dtype | type) -> np.ndarray:
        nonlocal place
        start, place = place, place + math.prod(shape) * np.dtype(dtype).itemsize
        part = message[start:place]
        # Views need their alignment; what is small before it may have taken that.
        whole = part if start % 8 == 0 else part.copy()
        return whole.view(dtype).reshape(shape)

    shape, dtype, actions = layout.observation_shape, layout.observation_dtype, layout.mask_size
    frame = shape[1:] if layout.frame_stack > 1 else shape
    grid = (steps, num_envs)
    return Parcel(
        sender,
        number,
        take((*grid, *frame), dtype),
        take(grid, np.int32),
        take(grid, np.float32),
        take(grid, np.uint8),
        take(grid, np.bool_),
        take(grid, np.float32),
        take((*grid, actions), np.bool_),
        take((older, layout.frame_stack - 1, *frame), dtype),
        take((older,), np.int64),
        take((last, *frame), dtype),
        take((last,), np.int64),
        take((last, actions), np.bool_),
    )
