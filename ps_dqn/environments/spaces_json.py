"""Gymnasium's spaces as JSON, so that a run can be used where its environment is not there."""

import math
from typing import Any

import numpy as np
from gymnasium import Space, spaces

Written = dict[str, Any]


def write(space: Space) -> Written:
    """A space as JSON values.

    Raises:
        TypeError: it is of a kind that no environment of a run has.
    """
    if isinstance(space, spaces.Box):
        bounds = {"low": _written(space.low), "high": _written(space.high)}
        return {"kind": "Box", **bounds, "shape": list(space.shape), "dtype": space.dtype.name}
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        starts = np.broadcast_to(space.start, space.nvec.shape)
        dtype = np.dtype(space.dtype).name
        counts = {"nvec": space.nvec.tolist(), "start": starts.tolist()}
        return {"kind": "MultiDiscrete", **counts, "dtype": dtype}
    if isinstance(space, spaces.MultiBinary):
        n = space.n if isinstance(space.n, int) else list(map(int, space.n))
        return {"kind": "MultiBinary", "n": n}
    if isinstance(space, spaces.Dict):
        # A list: the order is that of the parts.
        named = [[name, write(each)] for name, each in space.spaces.items()]
        return {"kind": "Dict", "spaces": named}
    if isinstance(space, spaces.Tuple | spaces.OneOf):
        return {"kind": type(space).__name__, "spaces": [write(each) for each in space.spaces]}
    raise TypeError(f"{space} cannot be written as JSON")


def read(written: Written) -> Space:
    """The space that `write` wrote.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    kind = written["kind"]
    if kind == "Box":
        shape, kept = tuple(written["shape"]), np.dtype(written["dtype"])
        low, high = (_read(written[name], shape, kept) for name in ("low", "high"))
        return spaces.Box(low, high, shape, kept.type)
    if kind == "Discrete":
        return spaces.Discrete(written["n"], start=written["start"])
    if kind == "MultiDiscrete":
        dtype: Any = np.dtype(written["dtype"])
        nvec = np.array(written["nvec"], dtype)
        return spaces.MultiDiscrete(nvec, dtype.type, start=np.array(written["start"], dtype))
    if kind == "MultiBinary":
        return spaces.MultiBinary(written["n"])
    if kind == "Dict":
        # Gymnasium sorts the names of a plain dictionary; pairs keep their order.
        return spaces.Dict([(name, read(each)) for name, each in written["spaces"]])
    if kind in ("Tuple", "OneOf"):
        return getattr(spaces, kind)([read(each) for each in written["spaces"]])
    raise ValueError(f"{kind} is no kind of space")


def _written(bounds: np.ndarray) -> Any:
    """One number where all are the same, infinite ones as text: JSON has none."""
    if bounds.size and (bounds == bounds.flat[0]).all():
        return _number(bounds.flat[0].item())
    return _nested(bounds.tolist())


def _nested(values: Any) -> Any:
    return [_nested(each) for each in values] if isinstance(values, list) else _number(values)


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _read(written: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    # Texts become numbers as they are cast; whole numbers must not go by way of fractions.
    is_whole = np.issubdtype(dtype, np.integer)
    values = np.array(written, dtype if is_whole or dtype == np.bool_ else np.float64)
    return np.broadcast_to(values.astype(dtype), shape)
