"""What a row of a replay is: the layout of its ring, and what is written at once.

Shapes: e of E environments, R rows for each, k frames in a stack, S numbers of recurrent state, A
truth values of a mask of actions.
"""

import dataclasses
import pathlib
from typing import NamedTuple

import numpy as np

from ps_dqn.config.capacity import Item
from ps_dqn.errors import UsageError

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


def check_stacks(
    stack: int, envs: np.ndarray, observations: np.ndarray, before: np.ndarray
) -> None:
    """Refuses observations that are not the stacks before them, moved by one frame.

    Args:
        stack: k.
        envs: their environments, int [e].
        observations: [e, k, …].
        before: all but the oldest frame of the stacks before them, [e, k - 1, …].

    Raises:
        UsageError: one of them is not.
    """
    for env, observation, older in zip(envs, observations, before, strict=True):
        # One by one they stay in the processor's cache, which is much quicker.
        if not np.array_equal(observation[:-1], older):
            raise UsageError(
                f"--frame_stack={stack}: in environment {env} an observation is not the "
                f"one before it moved by one frame, so observations are not a sliding stack "
                f"of frames: leave --frame_stack out, then they are stored whole (an image of "
                f"{stack} channels that come first looks like a stack, too)"
            )
