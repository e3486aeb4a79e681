"""An actor task's process."""

import contextlib
import http.client

from support import processes as real
from support.processes import Processes

from ps_dqn.cluster import ports

SECONDS = 60.0
# The command, with a socket that has no descriptors for connections.
WITHOUT_DESCRIPTORS = """
import socket
from ps_dqn.actor import __main__, host
from ps_dqn.flags import command_line


class Listener(socket.socket):
    def accept(self):
        raise OSError(24, "Too many open files")


def listen(port):
    made = Listener()
    made.bind(("", port))
    made.listen()
    return made


host._listen = listen
command_line.run_main(__main__.main)
"""


def test_probes_say_that_nobody_can_reach_it(processes: Processes) -> None:
    spec = ports.on_this_machine(1, 1, 0, 1)
    port = ports.reserved_port()
    hosts = (f"--worker_hosts={spec.workers[0]}", f"--actor_hosts={spec.actors[0]}")
    processes.start(
        *("-c", WITHOUT_DESCRIPTORS, f"--chief_host={spec.chief}", f"--ps_hosts={spec.ps[0]}"),
        *(*hosts, "--task_index=0", f"--health_port={port}"),
    )

    def refusal(path: str) -> str:
        """Why it is not well, as soon as it says so."""
        with contextlib.suppress(OSError):  # it does not serve yet
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
            with contextlib.closing(connection):
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.read().decode() if answer.status == 503 else ""
        return ""

    for path in ("/livez", "/readyz"):
        found = real.until(lambda path=path: refusal(path), SECONDS, f"{path} to refuse")
        assert found == "no connection can be taken: [Errno 24] Too many open files\n"
