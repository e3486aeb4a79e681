"""Failures of hosted Python: they come back as text, or as the one line a person can mend."""

import numpy as np
import pytest
import tensorflow as tf
from support.bridge_calls import closure, on_both_workers, this_worker
from support.programs import SUPPORT

from ps_dqn.errors import UsageError, WorkerError
from ps_dqn.wire import bridge, failures


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
    # Nothing for the log either: there is no more to know than that line. What TensorFlow's own
    # threads say meanwhile is of other things.
    assert "not so" not in capfd.readouterr().err


def test_texts_of_closures_are_errors_of_their_kinds():
    failures.check_error(b"")
    failures.check_error(np.array(b"", object))
    with pytest.raises(WorkerError, match=r"(?s)^Python hosted in a worker failed:\nusage of no"):
        failures.check_error(b"usage of no flag")
    with pytest.raises(UsageError, match=r"^\S+ is \S+$"):
        failures.check_error(np.array(bridge.USAGE.encode() + "é is ü".encode(), object))


def test_code_that_cannot_be_kept_is_told_with_what_to_do():
    # As TensorFlow says it of a full disk.
    said = "/c/xla_compile_cache__1__2.pb.tmp; No space left on device"
    error = failures.lost(tf.errors.ResourceExhaustedError(None, None, f"{said}\n\t [[{{node}}]]"))
    assert str(error) == (
        "compiled code cannot be written or read: start again with --compile_cache=FOLDER "
        f"elsewhere, or with --compile_cache= to keep none ({said})"
    )


def test_what_failed_is_told_without_what_comes_before_it():
    at = "Detected at node n defined at (most recent call last):\n<stack traces unavailable>\n"
    before = f"Graph execution error:\n\n{at}{at}"
    one = tf.errors.InternalError(None, None, f"{before}cannot parse\n\t [[{{node}}]]")
    assert str(failures.lost(one)) == "a closure failed inside TensorFlow: cannot parse"
    two = f"{before}2 root error(s) found.\n  (0) FAILED_PRECONDITION:  /f is no folder\n  (1) …"
    assert failures.reason(tf.errors.FailedPreconditionError(None, None, two)) == "/f is no folder"
    assert failures.reason(tf.errors.UnavailableError(None, None, "")) == "UnavailableError"


def test_an_unknown_method_is_a_failure_like_any_other(coordinator):
    @closure
    def unknown():
        worker = this_worker()
        called = bridge.call("nobody_has_this", worker, [], [tf.TensorSpec([], tf.int32)])
        return bridge.take_error(worker, after=called)

    assert "KeyError: 'nobody_has_this'" in coordinator.schedule(unknown).fetch().decode()


@pytest.mark.parametrize(
    ("said", "who"),
    [
        ("/job:chief/replica:0/task:0 to /job:ps/replica:0/task:1", "parameter server 1"),
        ("GRPC error from remote target /job:replay/replica:0/task:2: gone", "replay server 2"),
        ("/job:ps/replica:0/task:0 and /job:ps/replica:0/task:1", "a parameter server"),
        ("Socket closed", "a parameter server"),
    ],
)
def test_a_lost_server_is_named_where_tensorflow_names_one(said: str, who: str) -> None:
    lost = failures.lost(tf.errors.UnavailableError(None, None, said))
    assert str(lost) == f"lost a task, likely {who}: {said}"
