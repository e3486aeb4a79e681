"""What a program and all the processes that it starts take of the machine."""

import contextlib
import os
import pathlib
import signal
import subprocess
import threading

from ps_dqn.telemetry import memory

_PROC = pathlib.Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """What a process has computed, without its children; 0 where it is gone."""
    with contextlib.suppress(OSError):
        # Behind the name, which may have spaces: utime and stime are the 14th and 15th field.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / _TICKS
    return 0.0


class Watch:
    """Looks at a process's family until it is closed; peaks are of the looks.

    Args:
        process: the first of them.
        period: seconds from one look to the next.
    """

    def __init__(self, process: subprocess.Popen[str], period: float = 0.5) -> None:
        self._pid, self._period = process.pid, period
        self._cpu: dict[int, float] = {}
        self.peak_bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        """What all of them have computed: the last that was seen of each."""
        return sum(self._cpu.values())

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            members = list(memory.family(self._pid))
            self.peak_bytes = max(self.peak_bytes, sum(map(memory.of_process, members)))
            for member in members:
                self._cpu[member] = max(self._cpu.get(member, 0.0), cpu_seconds(member))
            if self._over.wait(self._period):
                return


def end(process: subprocess.Popen[str]) -> None:
    """Ends a program and what it has started, and waits for it; one that is over is let be."""
    if process.poll() is not None:
        return  # its number may be another's by now
    for member in reversed(list(memory.family(process.pid))):
        with contextlib.suppress(OSError):
            os.kill(member, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=20)
    for member in reversed(list(memory.family(process.pid))):
        with contextlib.suppress(OSError):
            os.kill(member, signal.SIGKILL)
    process.wait()
