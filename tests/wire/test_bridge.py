"""Python in workers and parameter servers: values, hosts, and real processes."""

import json
import pathlib
import subprocess
import types

import numpy as np
import pytest
import tensorflow as tf
from support import warm
from support.bridge_calls import closure, on_both_workers, this_worker
from support.programs import SUPPORT

from ps_dqn.wire import bridge, encoding

_MARK = tf.TensorSpec([], tf.int32)


@pytest.mark.parametrize(
    "value",
    [
        np.array([[1.5, -2.0, np.inf]], np.float32),
        np.array([1e300, 2**-60]),
        np.int32(-7),
        np.array([2**40, -1], np.int64),
        np.array([0, 255], np.uint8),
        np.array([True, False]),
        np.zeros((0, 3), np.float32),
    ],
    ids=lambda value: f"{value.dtype}{list(value.shape)}",
)
def test_values_and_dtypes_arrive_and_return(coordinator, value):
    spec = tf.TensorSpec(value.shape, value.dtype)

    @closure
    def echo():
        # The text beside it shows that inputs of several dtypes keep their order.
        outputs = [spec, tf.TensorSpec([], tf.string)]
        return bridge.call("echo", this_worker(), [tf.constant(value), "ünï"], outputs)

    returned, text = coordinator.schedule(echo).fetch()
    assert returned.dtype == value.dtype
    np.testing.assert_array_equal(returned, value)
    assert text.decode() == "ünï"


def test_a_process_shows_what_any_of_its_hosts_has_to_show(monkeypatch):
    """A worker that holds a replica has two, and the replica's, the first one, shows nothing."""
    silent, speaking = (types.SimpleNamespace(figures=each) for each in (None, "updates"))
    monkeypatch.setattr(bridge, "_hosts", {-1: silent})
    assert bridge.figures() is None
    monkeypatch.setattr(bridge, "_hosts", {-1: silent, 0: speaking})
    assert bridge.figures() == "updates"


def test_static_shapes_are_known_to_the_graph(coordinator):
    shapes = []

    @closure
    def echo():
        [result] = bridge.call(
            "echo", this_worker(), [tf.zeros([2, 3])], [tf.TensorSpec([2, None], tf.float32)]
        )
        shapes.append(result.shape.as_list())
        return result

    assert coordinator.schedule(echo).fetch().shape == (2, 3)
    assert shapes == [[2, None]]


def test_each_worker_has_a_host_of_its_own(coordinator):
    outputs = [tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.int64)]

    def count(worker):
        return bridge.call("count", worker, [], outputs)

    first = on_both_workers(coordinator, count)
    assert sorted(first) == [0, 1]
    for index, (host, _) in first.items():
        assert host == index  # made with this worker's index
    # Only one worker counts on; a shared state would move the other's as well.
    alone = closure(lambda: count(this_worker()))
    moved = {index: int(times) for index, (_, times) in first.items()}
    for _ in range(5):
        host, times = coordinator.schedule(alone).fetch()
        moved[int(host)] += 1
        assert times == moved[int(host)]
    after = on_both_workers(coordinator, count)
    assert {index: int(times) for index, (_, times) in after.items()} == {
        index: times + 1 for index, times in moved.items()
    }


def on_server(index: int):
    return tf.device(f"/job:ps/replica:0/task:{index}/device:CPU:0")


def test_parameter_servers_have_hosts_and_failures_of_their_own(coordinator):
    outputs = [tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.int64)]

    def counts() -> list[int]:
        found = []
        for i in range(3):
            with on_server(i):
                task, times = bridge.call("count", bridge.server(i), [], outputs)
            assert int(task) == bridge.server(i)
            found.append(int(times))
        return found

    def errors() -> list[bytes]:
        found = []
        for i in range(3):
            with on_server(i):
                found.append(bridge.take_error(bridge.server(i)).numpy())
        return found

    before = counts()
    with on_server(1):
        bridge.call("fail", bridge.server(1), ["only the second"], outputs[:1])
        # Neither a worker nor another server: this one counts zeros until its failure is taken.
        assert int(bridge.call("count", bridge.server(1), [], outputs)[1]) == 0
    workers = on_both_workers(coordinator, lambda worker: bridge.call("count", worker, [], outputs))
    assert {int(task) for task, _ in workers.values()} == {0, 1}
    first, second, third = errors()
    assert second.decode().rstrip().endswith("ValueError: only the second")
    assert first == third == b""
    assert counts() == [times + 1 for times in before]


def test_calls_that_need_no_order_run_at_the_same_time(coordinator):
    number = tf.TensorSpec([], tf.int32)

    @closure
    def meet_each_other():
        # Each waits for the other: one after the other they would wait until they fail.
        tasks = [tf.constant(bridge.server(i)) for i in range(2)]
        met = [bridge.call("meet", task, [], [number], in_order=False)[0] for task in tasks]
        return *met, *(bridge.take_error(task, after=met) for task in tasks)

    first, second, *errors = coordinator.schedule(meet_each_other).fetch()
    assert errors == [b"", b""]
    assert (first, second) == (bridge.server(0), bridge.server(1))


def test_an_array_that_a_host_keeps_stays_as_it_was(coordinator):
    # Hosts keep what a call brought, uncopied: pushes until they are applied, optimizer slots.
    size = 4096  # beyond what TensorFlow stores inside a tensor's own object

    def keep(ones):
        worker = this_worker()
        marks = [bridge.call("keep", worker, [ones * (i + 1.0)], [_MARK])[0] for i in range(16)]
        # Memory of the same size is asked for again and again.
        busy = [tf.reduce_sum(tf.random.stateless_uniform([size], [i, 0])) for i in range(16)]
        with tf.control_dependencies([*marks, *busy]):
            [kept] = bridge.call("kept", worker, [], [tf.TensorSpec([16, size], tf.float32)])
        return kept, bridge.take_error(worker, after=[kept])

    traced = tf.function(keep, autograph=False).get_concrete_function(
        tf.TensorSpec([size], tf.float32)
    )
    for _ in range(5):
        kept, error = coordinator.schedule(traced, args=(np.ones(size, np.float32),)).fetch()
        assert error == b""
        np.testing.assert_array_equal(kept, np.repeat(np.arange(1.0, 17.0), size).reshape(16, size))


def run(script: str, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return warm.run_python(["-c", script], folder)


@pytest.mark.slow
def test_install_refuses_to_be_second(tmp_path):
    ended = run(
        """
import tensorflow as tf
from ps_dqn.wire import bridge, encoding

with tf.Graph().as_default() as first:
    tf.numpy_function(lambda: 1, [], [tf.int64])
bridge.install(lambda index: None)
""",
        tmp_path,
    )
    assert ended.returncode == 1
    assert "RuntimeError: the bridge was registered as pyfunc_1, not pyfunc_0" in ended.stderr


def test_install_twice_keeps_the_token_and_takes_the_new_host(tmp_path):
    ended = run(
        """
import tensorflow as tf
from ps_dqn.wire import bridge, encoding


class Host:
    recording = None

    def __init__(self, name):
        self.methods = {"name": lambda: [name]}


bridge.install(lambda index: Host("old"))
bridge.install(lambda index: Host("new"))
[name] = bridge.call("name", tf.constant(0), [], [tf.TensorSpec([], tf.string)])
print(name.numpy().decode())
""",
        tmp_path,
    )
    assert ended.stderr.count("Traceback") == 0
    assert ended.stdout.split() == ["new"]


def test_hosted_python_runs_in_its_tasks_process_also_after_a_worker_was_killed(tmp_path):
    ended = warm.run_python([SUPPORT / "pid_cluster.py", tmp_path], tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    seen = json.loads(ended.stdout.splitlines()[-1])
    assert seen["first"] == seen["first_process"]
    assert seen["first_ps"] == seen["second_ps"] == seen["ps_process"]
    assert len({seen["first"], seen["ps_process"], seen["coordinator"]}) == 3
    assert seen["second"] == seen["second_process"]
    assert seen["second"] not in (seen["first"], seen["coordinator"])
    assert not [pid for pid in seen.values() if pathlib.Path(f"/proc/{pid}").exists()]


def test_an_array_that_is_lent_is_taken_over_and_any_other_is_copied() -> None:
    array = encoding.aligned(12).view(np.float32)
    array[:] = 1
    lent, copied = bridge.local_tensor(array, is_lent=True), bridge.local_tensor(array)
    array[0] = 2
    assert np.asarray(memoryview(lent)).tolist() == [2, 1, 1]
    assert np.asarray(memoryview(copied)).tolist() == [1, 1, 1]
