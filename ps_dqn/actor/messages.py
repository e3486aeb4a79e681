"""What an actor and its learner say to each other.

    learner                                   actor
    ───────                                   ─────
    `Hello`, JSON                ───────▶     makes its environments
                                 ◀───────     `Welcome`, JSON; the last where it says an error
                                 ◀───────     `Stepped`, of which only what is to be acted on counts
    actions, int32 [E]           ───────▶     acts
                                 ◀───────     `Stepped`, and so on

Shapes: E environments of the actor, F last observations of episodes that it has left, A truth
values of a mask, K kinds of failures.
"""

import dataclasses
import json
import math
from typing import Any, NamedTuple

import numpy as np

from ps_dqn.config.faults import ENV_FAILURES

# Of these messages: both ends are to be of one.
VERSION = 1


class Hello(NamedTuple):
    """A learner wants environments."""

    config: str  # the experiment, as JSON
    num_envs: int  # E
    seed: int  # of the environments


class Welcome(NamedTuple):
    """An actor has made them, or cannot."""

    error: str  # what is wrong, for people; no text where nothing is
    observation_shape: list[int]
    observation_dtype: str  # of NumPy
    num_actions: int
    mask_size: int  # A


def encode(record: Hello | Welcome) -> bytes:
    """One of these as JSON."""
    return json.dumps({"version": VERSION, **record._asdict()}).encode()


def refusal(error: str) -> bytes:
    """The `Welcome` of an actor that cannot do what it is for; a line for people says why."""
    return encode(Welcome(error, [], "", 0, 0))


def decode(kind: Any, message: np.ndarray) -> Any:
    """What `encode` was given.

    Raises:
        ValueError: it is something else, or of another version of this program.
    """
    content = json.loads(message.tobytes())
    if not isinstance(content, dict) or content.pop("version", None) != VERSION:
        raise ValueError("a message of another version of ps-dqn")
    try:
        return kind(**content)
    except TypeError as error:
        raise ValueError(f"a message of another version of ps-dqn ({error})") from None


@dataclasses.dataclass(frozen=True)
class Layout:
    """What both ends know of a `Stepped`."""

    num_envs: int  # E
    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype
    mask_size: int  # A


class Stepped(NamedTuple):
    """What came of actions; see `environments.Step`."""

    waited: float  # for the actions, from what was acted on before to them (seconds)
    failures: np.ndarray  # of environments since the last message, int64 [K]
    observations: np.ndarray  # to act on next, [E, …]
    masks: np.ndarray  # of these, bool [E, A]
    rewards: np.ndarray  # float64 [E]
    terminated: np.ndarray  # bool [E]
    truncated: np.ndarray  # bool [E]
    is_transition: np.ndarray  # bool [E]
    failed: np.ndarray  # the environment did in this step, bool [E]
    final_envs: np.ndarray  # int64 [F]
    final_observations: np.ndarray  # [F, …]
    final_masks: np.ndarray  # bool [F, A]


_NUMBERS = 2 + len(ENV_FAILURES)  # F, the bits of `waited`, and `failures`; int64


def pack(stepped: Stepped) -> bytes:
    """As one message."""
    waited = np.array([stepped.waited]).view(np.int64)[0]
    numbers = np.array([len(stepped.final_envs), waited, *stepped.failures], np.int64)
    return b"".join(np.ascontiguousarray(each).tobytes() for each in (numbers, *stepped[2:]))


def unpack(message: np.ndarray, layout: Layout) -> Stepped:
    """What `pack` was given.

    Args:
        message: uint8.
        layout: of its sender's environments.

    Raises:
        ValueError: it is not of this layout.
    """
    place = 0

    def take(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        nonlocal place
        start, place = place, place + math.prod(shape) * np.dtype(dtype).itemsize
        part = message[start:place]
        whole = part if start % 8 == 0 else part.copy()  # views need their alignment
        return whole.view(dtype).reshape(shape)

    numbers = take((_NUMBERS,), np.int64)
    envs, finals, masks = layout.num_envs, int(numbers[0]), layout.mask_size
    shape, dtype = layout.observation_shape, layout.observation_dtype
    found = Stepped(
        float(numbers[1:2].view(np.float64)[0]),
        numbers[2:],
        take((envs, *shape), dtype),
        take((envs, masks), np.bool_),
        take((envs,), np.float64),
        take((envs,), np.bool_),
        take((envs,), np.bool_),
        take((envs,), np.bool_),
        take((envs,), np.bool_),
        take((finals,), np.int64),
        take((finals, *shape), dtype),
        take((finals, masks), np.bool_),
    )
    if place != len(message):
        raise ValueError(f"a step of {len(message)} bytes, and {place} were expected")
    return found
