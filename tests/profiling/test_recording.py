"""When a task records itself, and what it gives: with TensorFlow's profiler, or one made up."""

import threading
import time

import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from ps_dqn.profiling import recording, trace
from ps_dqn.profiling.recording import Piece, Progress, Recording

WINDOW = range(100, 200)


class MadeUp:
    """In the place of TensorFlow's profiler."""

    was_cut = False

    def stop(self) -> bytes:
        return b"what was recorded"


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "Trace", MadeUp)


def fetch(recorded: Recording) -> tuple[Piece, bytes]:
    """The first piece, once it is ready, and the content of all of them."""
    deadline = time.monotonic() + 60
    while (first := recorded.give(0)).progress is Progress.ENDING:
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
    content = first.content.tobytes()
    while len(content) < first.trace_size + first.python_size:
        content += recorded.give(len(content)).content.tobytes()
    return first, content


def names(content: bytes) -> set[str]:
    """Of what TensorFlow has recorded."""
    space = xplane_pb2.XSpace.FromString(content)
    return {each.name for plane in space.planes for each in plane.event_metadata.values()}


@pytest.mark.parametrize(
    ("heard", "progress"),
    [
        ([], Progress.WAITING),
        ([0, 99], Progress.WAITING),
        ([0, 100], Progress.RECORDING),
        ([0, 100, 199], Progress.RECORDING),
        ([150], Progress.RECORDING),  # of a run that is resumed in the window
        ([200], Progress.NONE),  # beyond it
        ([200, 201], Progress.NONE),
        ([99, 250], Progress.RECORDING),  # a window that is skipped
    ],
)
@pytest.mark.usefixtures("made_up")
def test_it_begins_with_the_window(heard: list[int], progress: Progress) -> None:
    recorded = Recording(WINDOW, with_python=False)
    for updates in heard:
        recorded.hear(updates)
    assert recorded.progress is progress


@pytest.mark.parametrize("heard", [[0, 100, 200], [0, 300, 301], [150, 2000]])
@pytest.mark.usefixtures("made_up")
def test_it_ends_with_the_window(heard: list[int]) -> None:
    recorded = Recording(WINDOW, with_python=False)
    for updates in heard:
        recorded.hear(updates)
    assert not recorded.listens
    first, content = fetch(recorded)
    assert first.progress == Progress.READY
    assert content == b"what was recorded"


@pytest.mark.usefixtures("made_up")
def test_who_asks_before_its_end_ends_it() -> None:
    recorded = Recording(WINDOW, with_python=False)
    recorded.hear(120)
    assert fetch(recorded)[1] == b"what was recorded"


@pytest.mark.usefixtures("made_up")
def test_who_asks_before_its_begin_gets_nothing_now_or_later() -> None:
    recorded = Recording(WINDOW, with_python=False)
    assert recorded.give(0).progress is Progress.NONE
    recorded.hear(120)
    assert recorded.progress is Progress.NONE


@pytest.mark.usefixtures("made_up")
def test_it_travels_in_pieces_and_is_forgotten_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "PIECE", 5)
    recorded = Recording(WINDOW, with_python=False)
    recorded.hear(120)
    first, content = fetch(recorded)
    assert first.content.tobytes() == b"what "
    assert content == b"what was recorded"
    assert Piece.from_arrays(first.as_arrays()[0], first.content, b"") == first
    assert recorded.give(len(content)).progress is Progress.NONE
    assert recorded.give(0).content.size == 0


@pytest.mark.usefixtures("made_up")
def test_python_follows_tensorflow() -> None:
    recorded = Recording(WINDOW, with_python=True)
    assert recorded.call("sorted", sorted, [2, 1]) == [1, 2]  # nothing is recorded yet
    recorded.hear(100)
    assert recorded.call("sorted", sorted, [2, 1]) == [1, 2]
    first, content = fetch(recorded)
    assert first.trace_size == len(b"what was recorded")
    assert first.python_size == len(content) - first.trace_size > 0


def test_a_profiler_that_cannot_start_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise tf.errors.AlreadyExistsError(None, None, "another one\nis at work")

    monkeypatch.setattr(recording, "Trace", fail)
    recorded = Recording(WINDOW, with_python=True)
    recorded.hear(100)
    recorded.call("sorted", sorted, [2, 1])
    first, _ = fetch(recorded)
    assert (first.trace_size, first.progress) == (0, Progress.READY)
    assert first.python_size > 0
    assert first.note == "AlreadyExistsError: another one is at work"


@pytest.mark.usefixtures("made_up")
def test_what_is_too_large_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_BYTES", 4)
    recorded = Recording(WINDOW, with_python=False)
    recorded.hear(100)
    first, content = fetch(recorded)
    assert content == b""
    assert "it is left out; record fewer updates" in first.note


def test_nobody_asks_for_what_was_closed() -> None:
    recorded = Recording(WINDOW, with_python=False)
    recorded.hear(100)
    recorded.close()
    assert recorded.give(0).progress is Progress.NONE
    trace.Trace().stop()  # TensorFlow's is free again


def test_tensorflows_profiler_records_calls_by_name() -> None:
    recorded = trace.Trace(most_seconds=600.0)  # TensorFlow's first operation may take long
    with trace.named("a call"):
        tf.matmul(tf.ones([2, 2]), tf.ones([2, 2]))
    found = names(recorded.stop())
    assert "a call" in found
    assert any("MatMul" in name for name in found)
    assert not recorded.was_cut


def test_tensorflows_profiler_ends_by_itself() -> None:
    recorded = trace.Trace(most_seconds=0.05)
    recorded._timer.join(60)  # it says that it ends before it does
    assert recorded.was_cut
    with trace.named("a late call"):
        pass
    assert "a late call" not in names(recorded.stop())
