"""Python in workers and parameter servers: values, hosts, failures, and real processes."""

import json
import pathlib
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from support.programs import SUPPORT, run_python

from ps_dqn.errors import UsageError, WorkerError
from ps_dqn.wire import bridge, failures

_MARK = tf.TensorSpec([], tf.int32)


def this_worker() -> tf.Tensor:
    return tf.distribute.coordinator.experimental_get_current_worker_index()


def closure(function):
    return tf.function(function, autograph=False).get_concrete_function()


def on_both_workers(coordinator, function) -> dict[int, list]:
    """Runs a closure on each worker at the same time; its results by worker index."""

    def meet_first():
        worker = this_worker()
        [index] = bridge.call("meet", worker, [], [tf.TensorSpec([], tf.int32)])
        with tf.control_dependencies([index]):
            return index, *function(worker)

    meeting = closure(meet_first)
    waiting = [coordinator.schedule(meeting) for _ in range(2)]
    results = [remote.fetch() for remote in waiting]
    return {int(index): list(rest) for index, *rest in results}


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


def test_a_failure_comes_back_as_text_and_the_cluster_lives_on(coordinator):
    number = tf.TensorSpec([2], tf.float32)
    text = tf.TensorSpec([], tf.string)

    @closure
    def fails():
        worker = this_worker()
        # The host takes one text; a size that varies is 0 in what a failed call returns.
        failed = bridge.call(
            "fail", worker, ["no such Ω"], [number, text, tf.TensorSpec([None], tf.int64)]
        )
        with tf.control_dependencies(failed):
            [following] = bridge.call("echo", worker, [tf.ones([2])], [number])
        return worker, *failed, following, bridge.take_error(worker, after=[following])

    worker, numbers, words, sized, following, error = coordinator.schedule(fails).fetch()
    np.testing.assert_array_equal(numbers, [0, 0])
    assert words == b""
    assert sized.shape == (0,)
    np.testing.assert_array_equal(following, [0, 0])
    shown = error.decode()
    assert "Traceback (most recent call last)" in shown
    assert f'"{SUPPORT / "hosts.py"}"' in shown
    assert shown.rstrip().endswith("ValueError: no such Ω")

    def works(worker):
        [echoed] = bridge.call("echo", worker, [tf.constant([3.0, 4.0])], [number])
        return echoed, bridge.take_error(worker, after=[echoed])

    results = on_both_workers(coordinator, works)
    assert int(worker) in results
    for echoed, error in results.values():
        np.testing.assert_array_equal(echoed, [3, 4])
        assert error == b""  # it was taken, and the other worker never had one


def test_a_failure_stays_until_it_is_taken(coordinator):
    number = tf.TensorSpec([], tf.float32)

    def fail(worker):
        return bridge.call("fail", worker, ["first"], [number])

    def fail_again_and_echo(worker):
        [failed] = bridge.call("fail", worker, ["second"], [number])
        with tf.control_dependencies([failed]):
            [echoed] = bridge.call("echo", worker, [tf.constant(5.0)], [number])
        return echoed, bridge.take_error(worker, after=[echoed])

    on_both_workers(coordinator, fail)
    # `meet` is a call too: it returns zeros at once on a worker that failed, so no meeting now.
    later = closure(lambda: (this_worker(), *fail_again_and_echo(this_worker())))
    errors = {}
    for _ in range(100):  # until each worker took one up
        waiting = [coordinator.schedule(later) for _ in range(8)]
        for worker, echoed, error in [remote.fetch() for remote in waiting]:
            if int(worker) not in errors:
                assert echoed == 0
                errors[int(worker)] = error.decode()
        if len(errors) == 2:
            break
    assert sorted(errors) == [0, 1]
    assert all(error.rstrip().endswith("ValueError: first") for error in errors.values())


def test_what_a_person_can_mend_comes_back_as_its_one_line(coordinator, capfd):
    number = tf.TensorSpec([2], tf.float32)

    @closure
    def refuses():
        worker = this_worker()
        refused = bridge.call("refuse", worker, ["--flag=1: not so"], [number])
        return *refused, bridge.take_error(worker, after=refused)

    zeros, error = coordinator.schedule(refuses).fetch()
    np.testing.assert_array_equal(zeros, [0, 0])
    with pytest.raises(UsageError) as caught:
        failures.check_error(error)
    assert str(caught.value) == "--flag=1: not so"
    # Nothing for the log either: there is no more to know than that line.
    assert capfd.readouterr().err == ""


def test_texts_of_closures_are_errors_of_their_kinds():
    failures.check_error(b"")
    failures.check_error(np.array(b"", object))
    with pytest.raises(WorkerError, match=r"(?s)^Python hosted in a worker failed:\nusage of no"):
        failures.check_error(b"usage of no flag")
    with pytest.raises(UsageError, match=r"^\S+ is \S+$"):
        failures.check_error(np.array(bridge.USAGE.encode() + "é is ü".encode(), object))


def test_an_unknown_method_is_a_failure_like_any_other(coordinator):
    @closure
    def unknown():
        worker = this_worker()
        called = bridge.call("nobody_has_this", worker, [], [tf.TensorSpec([], tf.int32)])
        return bridge.take_error(worker, after=called)

    assert "KeyError: 'nobody_has_this'" in coordinator.schedule(unknown).fetch().decode()


def run(script: str, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return run_python(["-c", script], folder)


def test_install_refuses_to_be_second(tmp_path):
    ended = run(
        """
import tensorflow as tf
from ps_dqn.wire import bridge

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
from ps_dqn.wire import bridge


class Host:
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
    ended = run_python([SUPPORT / "pid_cluster.py", tmp_path], tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    seen = json.loads(ended.stdout.splitlines()[-1])
    assert seen["first"] == seen["first_process"]
    assert seen["first_ps"] == seen["second_ps"] == seen["ps_process"]
    assert len({seen["first"], seen["ps_process"], seen["coordinator"]}) == 3
    assert seen["second"] == seen["second_process"]
    assert seen["second"] not in (seen["first"], seen["coordinator"])
    assert not [pid for pid in seen.values() if pathlib.Path(f"/proc/{pid}").exists()]
