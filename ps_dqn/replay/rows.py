"""What a row of a replay is: the layout of its ring, and what is written at once.

Shapes: e of E environments, R rows for each, k frames in a stack, S numbers of recurrent state, A
truth values of a mask of actions.
"""

import dataclasses
import pathlib
from typing import NamedTuple

import numpy as np

from ps_dqn.config.capacity import Item

CONTINUES, TRUNCATED, TERMINATED = 0, 1, 2
# Flags of a row. BEGINS: the row before it is no transition.
IS_TRANSITION, BEGINS, FORGOTTEN = 1, 2, 128


@dataclasses.dataclass(frozen=True)
class Layout:
    """What a replay is made for."""

    num_envs: int  # E
    rows: int  # R, rounded up to a multiple of the sequence period
    observation_shape: tuple[int, ...]  # as the network sees it; the newest of a stack is last
    observation_dtype: np.dtype
    item: Item  # what is drawn
    gamma: float  # discount per environment step
    frame_stack: int = 1  # k; above 1, the observation's first axis has k frames
    compression: str = "none"  # or one of `ps_dqn.replay.frames.CODECS`
    arena_bytes: int = 0  # for all compressed observations
    folder: pathlib.Path | None = None  # everything is kept in files here
    state_size: int = 0  # S
    mask_size: int = 0  # A
    source: str = ""  # what is acted in; files of another source are not used
    must_be_there: bool = False  # files that are not as they should be are refused, not removed


class Rows(NamedTuple):
    """What is written at once: a row for each of some environments."""

    envs: np.ndarray  # int [e], each at most once
    observations: np.ndarray  # before the action, [e, …]
    actions: np.ndarray  # int [e]
    rewards: np.ndarray  # float [e]
    ends: np.ndarray  # `CONTINUES`, `TRUNCATED` or `TERMINATED`, [e]
    is_transition: np.ndarray  # False for an episode's last observation, bool [e]
    states: np.ndarray | None = None  # before the action, float32 [e, S]; None: zeros
    masks: np.ndarray | None = None  # of the actions, bool [e, A]; None: all are allowed

    @classmethod
    def of_observations(
        cls, envs: np.ndarray, observations: np.ndarray, masks: np.ndarray | None = None
    ) -> "Rows":
        """Rows that are no transitions."""
        nothing = np.zeros(len(envs), np.uint8)
        return cls(envs, observations, nothing, nothing, nothing, nothing, masks=masks)


def packed_size(mask_size: int) -> int:
    """Bytes of a mask's bits."""
    return -(-mask_size // 8)
