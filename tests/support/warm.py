"""Programs of this project that need not import TensorFlow: that is most of what a short run costs.

They are forked from a process that has imported it and made nothing of it, as local tasks are
forked from the coordinator (`ps_dqn.cluster.local`). How a program starts otherwise is tested where
it is started as users start it: by `programs.run_python` and by `processes`.
"""

import atexit
import contextlib
import functools
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO

import pytest

from support import warm_forks
from support.programs import RUN_SECONDS, environment_of_python


def run_python(
    arguments: Sequence[object], folder: pathlib.Path, seconds: float = RUN_SECONDS
) -> subprocess.CompletedProcess[str]:
    """As `programs.run_python`, with TensorFlow imported already."""
    command = [sys.executable, *map(str, arguments)]
    warm = _warm_process()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        request = json.dumps([command, str(folder), environment_of_python()]).encode()
        socket.send_fds(warm, [request], [out.fileno(), err.fileno()])
        pid, code = int(warm.recv(warm_forks.MOST)), None
        try:
            warm.settimeout(seconds)
            with contextlib.suppress(TimeoutError):
                code = int(warm.recv(warm_forks.MOST))
        finally:
            # Tasks lead groups of their own; their lifeline ends them with this one.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            warm.settimeout(None)
        if code is None:
            warm.recv(warm_forks.MOST)  # else the next program would be told of this one's end
            pytest.fail(f"still running after {seconds} s; its output:\n{_read(out)}{_read(err)}")
        return subprocess.CompletedProcess(command, code, _read(out), _read(err))


@functools.cache
def _warm_process() -> socket.socket:
    """Starts it; what it is asked by. It ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, warm_forks.__file__, str(theirs.fileno()), warm_forks.ROOM],
            env=environment_of_python(),
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _read(file: IO[str]) -> str:
    file.seek(0)
    return file.read()
