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


@pytest.mark.parametrize(
    "key",
    [
        *((..., last) for last in (slice(None, -1), slice(1, 4), slice(-2, None), slice(0, 5, 2))),
        (slice(None), slice(0, 1)),
        (slice(None), slice(1, None), slice(2, 4)),
    ],
    ids=str,
)
def test_slices_are_computed(key: Any) -> None:
    made = model(key)
    assert numpy_steps.unknown(made) == []
    first, steps, _ = numpy_steps.of(made)
    found = numpy_network.computed(steps, {}, first, ROWS)
    np.testing.assert_array_equal(found, ROWS[key])


@pytest.mark.parametrize(
    "key",
    [(slice(None), 0), (..., 2)],
    ids=["a row", "a number"],
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


def test_a_model_within_is_taken_apart_where_it_is_said() -> None:
    inputs, seen = keras.Input((2, 5)), keras.Input((2, 5))
    inner = keras.Model(seen, keras.layers.Permute((2, 1))(seen[..., 1:]), name="inner")
    made = keras.Model(inputs, keras.layers.Flatten()(inner(inputs[:, ::-1])))
    assert numpy_steps.unknown(made) == ["Functional"]
    assert numpy_steps.unknown(made, ["inner"]) == []
    first, steps, _ = numpy_steps.of(made, ["inner"])
    found = numpy_network.computed(steps, {}, first, ROWS)
    np.testing.assert_array_equal(found, ROWS[:, ::-1, 1:].transpose(0, 2, 1).reshape(2, -1))


def test_what_a_model_within_has_is_named() -> None:
    inputs, seen = keras.Input((2, 5)), keras.Input((2, 5))
    inner = keras.Model(seen, keras.layers.UnitNormalization()(seen[:, 0]), name="inner")
    made = keras.Model(inputs, inner(inputs))
    assert numpy_steps.unknown(made, ["inner"]) == ["UnitNormalization", "part of an array"]
