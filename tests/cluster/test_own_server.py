"""Whether a task's TensorFlow server answers, started of real ones."""

import os
import signal
import socket
import time

import pytest
from support import processes as real
from support.processes import Processes

from ps_dqn.cluster import health, ports

# Forks a server, and another one when that has ended and SIGUSR1 says so.
SERVERS = """
import os, signal, sys, time
import tensorflow
from ps_dqn.cluster import server, spec
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
cluster = spec.ClusterSpec("localhost:1", ("localhost:2",), (sys.argv[1],))
while (pid := os.fork()):
    os.waitpid(pid, 0)
    signal.sigwait([signal.SIGUSR1])
kept = server.start(cluster, spec.Task("worker", 0), server.session_config("worker", 1, 2))
print("it serves:", os.getpid(), flush=True)
time.sleep(1000)
"""


@pytest.mark.slow
def test_a_server_answers_unless_it_hangs_or_is_gone(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # discards whatever it is sent
    [address] = ports.on_this_machine(1, 1).workers
    port = address.rpartition(":")[2]
    own = health.OwnServer(address)
    assert own.is_alive() == ""
    assert own.is_ready() == "the TensorFlow server has not started yet"
    assert not health.answers(address, 30)

    running = processes.start("-c", SERVERS, address)
    monkeypatch.setattr(health, "SERVER_SECONDS", 60.0)  # on a machine under load, too
    server = int(running.line_with("it serves").split()[-1])
    assert health.answers(address, 30)
    own.started()
    assert (own.is_alive(), own.is_ready()) == ("", "")

    real.stop(server)
    started = time.monotonic()
    assert not health.answers(address, 0.5)
    assert time.monotonic() - started < 30  # half a second, on a noisy machine
    monkeypatch.setattr(health, "SERVER_SECONDS", 2.0)
    silence = f"the TensorFlow server at 127.0.0.1:{port} gave no answer in 2 s"
    assert (own.is_alive(), own.is_ready()) == (silence, silence)
    monkeypatch.setattr(health, "SERVER_SECONDS", 60.0)
    os.kill(server, signal.SIGCONT)
    assert health.answers(address, 30)
    assert own.is_alive() == ""

    os.kill(server, signal.SIGKILL)
    real.until(lambda: server not in processes.alive(), 30, "the server to be gone")
    for _ in range(5):
        assert not health.answers(address, 30)
    # Found at once, with no pause after failures.
    os.kill(running.pid, signal.SIGUSR1)
    real.until(lambda: running.count("it serves") == 2, 180, "another server")
    assert health.answers(address, 30)


def test_what_listens_without_a_word_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        assert not health.answers(f"127.0.0.1:{mute.getsockname()[1]}", 0.2)
