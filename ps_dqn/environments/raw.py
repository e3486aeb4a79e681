"""Observations as an environment returns them, as named arrays: what an exported network reads.

Shapes: B observations, k frames where they are stacked.
"""

import dataclasses
import math
import re
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from ps_dqn.environments import parts
from ps_dqn.environments.interface import Interface
from ps_dqn.environments.parts import Part

NAME = "observation"


@dataclasses.dataclass(frozen=True)
class Input:
    """One array of an observation.

    Attributes:
        name: of it: `observation`, or that and a part's name, joined by `_`.
        shape: of one frame, as the environment has it.
        dtype: the environment's, or a smaller one that holds what is kept of it.
        starts: what numbers of things are counted from, one after the other.
        part: what the network is given of it; None: of an observation that has no parts.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    starts: tuple[int, ...]
    part: Part | None


def inputs(interface: Interface) -> list[Input]:
    """The arrays of an interface's observations, in the order of their parts."""
    spec, space = interface.spec, interface.own.observation
    if not spec.parts:
        return [Input(NAME, tuple(space.shape or ()), spec.observation_dtype, (), None)]
    found: list[Input] = []
    for part, (_, leaf, _) in zip(spec.parts, parts.leaves(space, None), strict=True):
        shape, starts = part.shape, tuple(0 for _ in part.categories)
        if isinstance(leaf, spaces.Discrete):
            starts = (int(leaf.start),)
        elif isinstance(leaf, spaces.MultiDiscrete):
            shape = tuple(leaf.nvec.shape)
            starts = tuple(map(int, np.broadcast_to(leaf.start, shape).flat))
        taken = [each.name for each in found]
        found.append(Input(_name(part, taken), shape, part.dtype, starts, part))
    return found


def _name(part: Part, taken: list[str]) -> str:
    # Letters that all formats of files can have in a name.
    name = "_".join(filter(None, [NAME, re.sub(r"[^A-Za-z0-9_]", "_", part.name)]))
    while name in taken:
        name += "_"
    return name


def arrays(interface: Interface, observation: Any) -> tuple[dict[str, np.ndarray], bool]:
    """Observations of the environment, not stacked, by the names of their inputs.

    Args:
        interface: of the run.
        observation: one, or a batch as Gymnasium's vectors return them: each array with one axis
            more.

    Returns:
        Arrays [B, *shape], and whether it was one observation (B is 1).

    Raises:
        ValueError: it is no observation of the environment.
    """
    space = interface.own.observation
    try:
        leaves = list(parts.leaves(space, observation))
    except (KeyError, IndexError, TypeError):
        raise ValueError(f"{_shown(observation)} is no observation of {space}") from None
    wanted = inputs(interface)
    values = [
        _values(each, leaf, value) for each, (_, leaf, value) in zip(wanted, leaves, strict=True)
    ]
    extra = [value.ndim - len(each.shape) for each, value in zip(wanted, values, strict=True)]
    shapes = [value.shape[n:] for n, value in zip(extra, values, strict=True) if n in (0, 1)]
    if shapes != [each.shape for each in wanted] or len(set(extra)) > 1:
        shown = ", ".join(f"{each.name} {each.shape}" for each in wanted)
        found = ", ".join(str(value.shape) for value in values)
        raise ValueError(
            f"observations of {interface.env_id} have the shapes {shown}, or one axis more for "
            f"several: these have {found}"
        )
    is_one = extra[0] == 0
    rows = [value[None] if is_one else value for value in values]
    if len({len(each) for each in rows}) > 1:
        raise ValueError(f"the parts of observations are not equally many: {list(map(len, rows))}")
    for each, value in zip(wanted, rows, strict=True):
        _check(each, value)
    return {each.name: value for each, value in zip(wanted, rows, strict=True)}, is_one


def _values(each: Input, leaf: Space, value: Any) -> np.ndarray:
    try:
        if isinstance(leaf, spaces.OneOf):
            is_one = not isinstance(value[0], tuple | list)
            flat: list[Any] = [spaces.flatten(leaf, one) for one in ([value] if is_one else value)]
            value = flat[0] if is_one else np.stack(flat)
        found = np.asarray(value)
        kept = found.astype(each.dtype)
        if each.dtype != np.float32 and not (kept == found).all():  # pixels from 0 to 1, say
            raise ValueError
        return kept
    except (TypeError, ValueError, IndexError, KeyError):
        raise ValueError(f"{each.name}: {_shown(value)} is none of {leaf}") from None


def _check(each: Input, values: np.ndarray) -> None:
    if each.part and each.part.categories:
        things = values.reshape(len(values), -1) - np.array(each.starts)
        if (things < 0).any() or (things >= np.array(each.part.categories)).any():
            raise ValueError(f"{each.name}: {_shown(values)} is out of the environment's range")
    elif not np.isfinite(values).all():
        raise ValueError(f"{each.name}: has numbers that are not finite")


def _shown(value: Any) -> str:
    return f"{value!r:.100}"


def of_rows(interface: Interface, rows: np.ndarray) -> dict[str, np.ndarray]:
    """What a run keeps of observations [B, …] or [B, k, …], as `arrays` has it."""
    wanted = inputs(interface)
    if not interface.spec.parts:
        return {wanted[0].name: rows}
    found = {}
    pieces = parts.split(interface.spec.parts, rows)
    for each, (part, piece) in zip(wanted, pieces, strict=True):
        values = parts.unpacked(part, piece)
        if part.categories:
            flat = values.reshape(*rows.shape[:-1], len(part.categories))
            values = (flat + np.array(each.starts, part.dtype)).astype(part.dtype)
        found[each.name] = values.reshape(*rows.shape[:-1], *each.shape)
    return found


def rows_of(interface: Interface, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """What `of_rows` was of.

    Raises:
        ValueError: the arrays are of other shapes.
    """
    wanted, frames = inputs(interface), interface.frames
    pieces = []
    for each in wanted:
        values = np.asarray(arrays[each.name], each.dtype)
        if values.shape[1:] != (*frames, *each.shape):
            raise ValueError(f"{each.name} has the shape {values.shape}")
        if each.part is None:
            return values
        flat = values.reshape(len(values), *frames, math.prod(each.shape))
        if each.starts:
            flat = (flat - np.array(each.starts, each.dtype)).astype(each.dtype)
        pieces.append(np.ascontiguousarray(flat).view(np.uint8))
    return np.concatenate(pieces, axis=-1)
