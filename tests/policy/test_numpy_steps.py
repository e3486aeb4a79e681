"""Parts of arrays and arrays of several, which a user's network may have anywhere."""

from typing import Any

import keras
import numpy as np
import pytest

from ps_dqn.policy import numpy_network, numpy_steps

ROWS = np.arange(20, dtype=np.float32).reshape(2, 2, 5)


def model(key: Any) -> keras.Model:
    inputs = keras.Input((2, 5))
    return keras.Model(inputs, inputs[key])


@pytest.mark.parametrize("last", [slice(None, -1), slice(1, 4), slice(-2, None), slice(0, 5, 1)])
def test_parts_of_the_last_axis_are_computed(last: slice) -> None:
    made = model((..., last))
    assert numpy_steps.unknown(made) == []
    first, steps, _ = numpy_steps.of(made)
    found = numpy_network.computed(steps, {}, first, ROWS)
    np.testing.assert_array_equal(found, ROWS[..., last])


@pytest.mark.parametrize(
    "key",
    [(..., slice(0, 5, 2)), (slice(None), 0), (slice(None), slice(0, 1)), (..., 2)],
    ids=["every second", "a row", "rows", "a number"],
)
def test_other_parts_are_named(key: Any) -> None:
    assert numpy_steps.unknown(model(key)) == ["part of an array"]


def joined(parts: list[Any]) -> Any:
    return keras.ops.concatenate(tuple(parts), axis=-1)


@pytest.mark.parametrize("join", [keras.layers.Concatenate(), joined], ids=["layer", "operation"])
def test_arrays_are_put_together(join: Any) -> None:
    inputs = keras.Input((2, 5))
    made = keras.Model(inputs, join([inputs[..., 3:], inputs]))
    assert numpy_steps.unknown(made) == []
    first, steps, _ = numpy_steps.of(made)
    found = numpy_network.computed(steps, {}, first, ROWS)
    np.testing.assert_array_equal(found, np.concatenate([ROWS[..., 3:], ROWS], axis=-1))
