"""Functions that TensorFlow registers with the tasks through its C API."""

import collections
import pathlib
import re
import types

import pytest
import tensorflow as tf
from support.programs import SUPPORT, run_python
from tensorflow.python.eager import context

from ps_dqn.cluster.spec import Task
from ps_dqn.coordinator.connecting import runtime


@pytest.fixture
def installed(coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever other tests of this process have connected to."""
    monkeypatch.setattr(context.Context, "add_c_function", context.Context.add_c_function)
    runtime.install(Task("ps", 0), 2)


@pytest.mark.usefixtures("installed")
def test_a_function_runs_here_and_on_tasks():
    @tf.function
    def squares(numbers):
        return tf.while_loop(
            lambda i, _: i < 2, lambda i, x: (i + 1, x * x), (0, tf.cast(numbers, tf.float32))
        )[1]

    assert squares(tf.constant([1, 2])).numpy().tolist() == [1, 16]
    with tf.device("/job:worker/replica:0/task:0"):
        assert squares(tf.constant([2, 3])).numpy().tolist() == [16, 81]


@pytest.mark.usefixtures("installed")
def test_where_it_may_not_nothing_is_registered_for_an_operation():
    def register() -> set[str]:
        # The names have no types, so an operation that nothing else in this process makes.
        before = set(context.context().list_function_names())
        assert tf.math.special.bessel_j0(tf.constant(0.0)) == 1
        made = set(context.context().list_function_names()) - before
        return {name for name in made if "BesselJ0" in str(name)}

    with runtime.without_functions_of_operations():
        assert not register()
    # Neither is what was not registered used later.
    assert register()


def test_tensorflows_vector_of_parts_has_grown_before_threads_use_it(
    tmp_path: pathlib.Path,
) -> None:
    """It doubles its room, so more parts than a power of two leave it room for as many more."""
    ended = run_python([SUPPORT / "first_parts.py"], tmp_path)
    assert ended.returncode == 0, ended.stderr[-4000:]
    made = collections.Counter(re.findall(r"CFLR::Instantiate: .*this: (0x\w+)", ended.stderr))
    assert max(made.values()) >= runtime.parts(2) == 33


def test_a_closure_that_never_ends_keeps_nobody_from_connecting_anew(
    tmp_path: pathlib.Path,
) -> None:
    ended = run_python([SUPPORT / "closure_left_behind.py"], tmp_path)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert ended.stdout == "1.0\n"


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7, 8])
def test_there_is_room_for_16_parts_of_each_worker_but_for_one(workers: int) -> None:
    full = runtime.parts(workers) - 1
    assert full & (full - 1) == 0  # there the room doubles
    assert 2 * full - runtime.parts(workers) >= 16 * workers - 1


def test_a_start_with_many_workers_takes_no_longer_than_with_eight() -> None:
    assert runtime.parts(1000) == runtime.parts(8) == 129


@pytest.mark.usefixtures("installed")
def test_what_tensorflow_refuses_is_raised(monkeypatch):
    damaged = types.SimpleNamespace(
        TF_FunctionToFunctionDef=lambda *_: None, TF_GetBuffer=lambda _: b"no function"
    )
    monkeypatch.setattr(runtime, "pywrap_tf_session", damaged)
    with pytest.raises(tf.errors.InvalidArgumentError, match="FunctionDef"):
        tf.function(lambda x: x + 1).get_concrete_function(tf.constant(1.0))
