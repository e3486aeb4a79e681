"""How signals end a run: its process, whatever its main thread does."""

import signal
import sys

import pytest
from support.processes import Processes

from ps_dqn.run.signals import SAVE_SECONDS, START_AGAIN, WRITING_SECONDS, Signals

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="blocks in the C library")

# The main thread waits where none of Python's handlers runs, as in TensorFlow for a task.
HANGS = """
import ctypes, math, os, signal, sys, threading, time
from ps_dqn.run import signals

signal.signal(signal.SIGHUP, signal.{hangup})

def hang():
    mutex = ctypes.create_string_buffer(256)
    lock = ctypes.CDLL(None).pthread_mutex_lock
    lock(mutex), lock(mutex)

signals.SILENT_SECONDS, signals.LAST_SECONDS, signals.SAVE_SECONDS = {silent}, 0.1, {saving}
signals.WRITING_SECONDS = {writing}
sign, is_writing = [{sign}], [False]
handler = signals.Signals(print, lambda: sign[0], lambda: is_writing[0], lambda: {save})
handler.watch()
handler.on_stop(lambda: print("stopping", flush=True))
print("ready", flush=True)
{body}
"""


def script(body: str, **values: object) -> tuple[str, str]:
    """A program that says that it is ready, and then does this.

    Args:
        body: statements.
        **values: what else is in it, where it is not the usual one.
    """
    usual = {"silent": 0.2, "writing": 60.0, "hangup": "SIG_DFL", "save": "''", "saving": 60.0}
    return "-c", HANGS.format(body=body, **{**usual, "sign": "time.monotonic()", **values})


@pytest.mark.parametrize(
    ("number", "code"), [("SIGTERM", START_AGAIN), ("SIGINT", 130), ("SIGHUP", 129)]
)
def test_a_run_that_hangs_is_ended(processes: Processes, number: str, code: int) -> None:
    running = processes.start(*script("hang()"))
    running.line_with("ready")
    running.process.send_signal(signal.Signals[number])
    assert running.ended() == code
    assert running.lines[-1] == (
        f"error: {number} did not end the run: a task does not answer; ended without another "
        f"checkpoint"
    )


def test_what_is_in_memory_is_saved_before_it_is_ended(processes: Processes) -> None:
    running = processes.start(*script("hang()", save="'saved what there was'"))
    running.line_with("ready")
    running.process.send_signal(signal.SIGTERM)
    assert running.ended() == START_AGAIN
    assert running.lines[-1].endswith(": a task does not answer; saved what there was")


@pytest.mark.parametrize("save", ["time.sleep(1000)", "1 / 0"])
def test_a_run_is_ended_though_that_fails(processes: Processes, save: str) -> None:
    running = processes.start(*script("hang()", save=save, saving=0.5))
    running.line_with("ready")
    running.process.send_signal(signal.SIGTERM)
    assert running.ended() == START_AGAIN
    assert running.lines[-1].endswith("; ended without another checkpoint")


@pytest.mark.parametrize(
    ("body", "options", "said"),
    [
        ("hang()", {"sign": "math.inf"}, "a task does not answer"),
        (
            "is_writing[0] = True; hang()",
            {"saving": 0.1, "save": "time.sleep(1000)"},
            "a checkpoint is still being written",
        ),
    ],
    ids=["lives", "writes"],
)
def test_a_run_that_lives_or_writes_may_take_its_time_until_it_is_told_again(
    body: str, options: dict[str, object], said: str, processes: Processes
) -> None:
    running = processes.start(*script(body, **options))
    running.line_with("ready")
    running.process.send_signal(signal.SIGTERM)
    with pytest.raises(AssertionError, match="still runs"):
        running.ended(1.0)
    running.process.send_signal(signal.SIGINT)
    assert running.ended() == 130
    assert said in running.lines[-1]


def test_two_signals_at_once_are_one_request(processes: Processes) -> None:
    # `timeout` sends one to the process and one to its group.
    body = """
for _ in range(2):
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, [])  # Python looks for signals
time.sleep(1.5)
print("written", handler.exit_code(False))
"""
    running = processes.start(*script(body, silent=60))
    assert running.ended() == 0, running.text
    assert running.lines == ["ready", "stopping", f"written {START_AGAIN}"]


def test_a_run_that_needs_no_task_any_more_may_be_silent(processes: Processes) -> None:
    body = "handler.left_tasks(); os.kill(os.getpid(), 15); time.sleep(1); print('written')"
    running = processes.start(*script(body))
    assert running.ended() == 0
    assert running.lines == ["ready", "stopping", "written"]


def test_a_checkpoint_that_is_written_may_take_its_time(processes: Processes) -> None:
    body = """
is_writing[0] = True
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(1.5)
sign[0], is_writing[0] = math.inf, False
print("written", flush=True)
"""
    running = processes.start(*script(body))
    assert running.ended() == 0, running.text
    assert running.lines == ["ready", "stopping", "written"]


def test_a_checkpoint_that_is_written_for_too_long_is_told(processes: Processes) -> None:
    body = "is_writing[0] = True; os.kill(os.getpid(), signal.SIGTERM); hang()"
    running = processes.start(*script(body, writing=1.0, saving=0.1, save="time.sleep(1000)"))
    assert running.ended() == START_AGAIN
    assert running.lines[-1] == (
        "error: SIGTERM did not end the run: a checkpoint is still being written after 1 s; ended "
        "without it"
    )


def test_a_run_has_the_grace_of_its_pod_to_write() -> None:
    # With the last save of `_end`, and the poll before it.
    assert WRITING_SECONDS + SAVE_SECONDS + 1 < 60


def test_a_hangup_stops_a_run_unless_it_was_ignored(processes: Processes) -> None:
    body = "os.kill(os.getpid(), signal.SIGHUP); time.sleep(0.1)\nprint(handler.exit_code(False))"
    assert processes.start(*script(body, silent=60)).ended() == 0
    for running, said in (
        (processes.start(*script(body, silent=60)), ["ready", "stopping", "129"]),
        (processes.start(*script(body, hangup="SIG_IGN")), ["ready", "0"]),
    ):
        assert running.ended() == 0
        assert running.lines == said


def test_a_signal_whose_exception_python_drops_still_ends_the_run(processes: Processes) -> None:
    # As where it comes while a destructor runs.
    body = """
class Destroyed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)

handler.on_stop(None)
del Destroyed
print("goes on", flush=True)
handler.on_stop(lambda: print("never", flush=True))
print("went on", flush=True)
"""
    running = processes.start(*script(body.replace("del Destroyed", "Destroyed()")))
    assert running.ended() == 130, running.text
    assert running.count("goes on") == 1
    assert running.count("went on") == running.count("never") == 0


def test_what_fails_after_a_signal_at_the_start_has_its_exit_code(monkeypatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    signals = Signals(print, lambda: 0.0, lambda: False, str)
    assert signals.told_code is None
    with pytest.raises(SystemExit):  # of which an import may make an ImportError
        signals._handle(signal.SIGHUP, None)
    assert signals.told_code == 129
