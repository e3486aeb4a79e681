"""Calls of hosted Python that give and return records."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ps_dqn.wire import bridge


class Point(NamedTuple):
    x: Any
    y: Any


class Named(NamedTuple):
    name: Any
    point: Point
    rest: Any


NUMBER = tf.TensorSpec([], tf.float32)
SPECS = Named(tf.TensorSpec([], tf.string), Point(NUMBER, np.zeros(2, np.int64)), [NUMBER] * 2)


def call_on_a_worker(coordinator, method: str, *inputs: Any) -> tuple[Any, bytes]:
    """What a method returns as `SPECS` has it, and the error text."""

    def closure() -> Any:
        worker = tf.distribute.coordinator.experimental_get_current_worker_index()
        returned = bridge.call(method, worker, inputs, SPECS)
        after = tf.nest.flatten(returned)
        return returned, bridge.take_error(worker, after=after)

    traced = tf.function(closure, autograph=False).get_concrete_function()
    return coordinator.schedule(traced).fetch()


def test_what_returns_is_in_records_and_lists_as_its_specs_are(coordinator):
    inputs = "a name", 1.0, tf.constant([2, 3], tf.int64), 4.0, 5.0
    for method in ("echo", "nest"):  # the host may return arrays in a row, or in records too
        named, error = call_on_a_worker(coordinator, method, *inputs)
        assert error == b""
        assert isinstance(named, Named)
        assert isinstance(named.point, Point)
        assert (named.name, named.point.x, named.rest) == (b"a name", 1, [4, 5])
        assert named.point.y.tolist() == [2, 3]


def test_zeros_after_a_failure_are_in_records_too(coordinator):
    named, error = call_on_a_worker(coordinator, "fail", "no such point")
    assert b"ValueError: no such point" in error
    assert (named.name, named.point.x, named.rest) == (b"", 0, [0, 0])
    assert named.point.y.tolist() == [0, 0]
