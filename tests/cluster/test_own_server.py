"""Whether a task's TensorFlow server answers, started of real ones."""

import os
import signal
import socket
import time

import pytest
from support import processes as real
from support.processes import Processes

from ps_dqn.cluster import health
from ps_dqn.cluster import spec as cluster_spec

SERVER = """
import sys, time
from ps_dqn.cluster import server, spec
cluster = spec.ClusterSpec("localhost:1", ("localhost:2",), (sys.argv[1],))
kept = server.start(cluster, spec.Task("worker", 0), server.session_config(1, 2))
print("it serves", flush=True)
time.sleep(1000)
"""


def test_a_server_answers_unless_it_hangs_or_is_gone(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # discards whatever it is sent
    [address] = cluster_spec.on_this_machine(1, 1).workers
    port = address.rpartition(":")[2]
    own = health.OwnServer(address)
    assert own.is_alive() == ""
    assert own.is_ready() == "the TensorFlow server has not started yet"
    assert not health.answers(address, 30)

    running = processes.start("-c", SERVER, address)
    running.line_with("it serves")
    assert health.answers(address, 30)
    own.started()
    assert (own.is_alive(), own.is_ready()) == ("", "")

    real.stop(running.pid)
    started = time.monotonic()
    assert not health.answers(address, 0.5)
    assert time.monotonic() - started < 5  # half a second, on a noisy machine
    silence = f"the TensorFlow server at 127.0.0.1:{port} gave no answer in 2 s"
    assert (own.is_alive(), own.is_ready()) == (silence, silence)
    os.kill(running.pid, signal.SIGCONT)
    assert health.answers(address, 30)
    assert own.is_alive() == ""

    running.process.kill()
    running.ended()
    for _ in range(5):
        assert not health.answers(address, 30)
    # Found at once, with no pause after failures.
    processes.start("-c", SERVER, address).line_with("it serves")
    assert health.answers(address, 30)


def test_what_listens_without_a_word_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        assert not health.answers(f"127.0.0.1:{mute.getsockname()[1]}", 0.2)
