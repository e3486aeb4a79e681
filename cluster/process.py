"""A process that this one has started, and that ends with it."""

import contextlib
import dataclasses
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable

from ps_dqn.cluster import lifeline

# As `python -m` does it, but for the folder that it is started in, which comes last. Who writes the
# command down is to find the usual one.
_RUN_MODULE = "; ".join(
    (
        "import sys",
        "sys.path[0] or sys.path.append(sys.path.pop(0))",
        "sys.orig_argv[1:3] = ['-m']",
        "import runpy",
        "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)",
    )
)


@dataclasses.dataclass
class Process:
    """A task or a coordinator. `returncode` is negative for a signal, None while it lives."""

    pid: int
    popen: subprocess.Popen | None = None
    returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code once the process has ended."""
        if self.returncode is None:
            if self.popen is not None:
                self.returncode = self.popen.poll()
            else:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def signal_group(self, number: int) -> None:
        """Signals it and whatever it started: each leads a process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def interpreter(module: str) -> list[str]:
    """The beginning of a command that runs a module in an interpreter of its own.

    It looks for modules where this process does. `python -m` looks first in the folder that it is
    started in; ps-dqn looks there last, so what a user has called random.py is not what the
    standard library imports.
    """
    if _looks_here_first():
        return [sys.executable, "-m", module]
    return [sys.executable, "-c", _RUN_MODULE, module]


def _looks_here_first() -> bool:
    try:
        return sys.path[:1] in ([""], [os.getcwd()])
    except FileNotFoundError:  # the folder is deleted
        return False


def fork(body: Callable[[], int], line: int, line_ours: int) -> Process:
    """Forks this process, which must have one thread; the fork leads a group of its own.

    Args:
        body: what it does; returns its exit code.
        line: its lifeline.
        line_ours: the other end of that.
    """
    if threading.active_count() > 1:
        raise RuntimeError("cannot fork tasks: this process already runs other threads")
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):  # the child does it too; whichever comes first
            os.setpgid(pid, pid)
        return Process(pid)
    code = 1
    try:
        os.setpgid(0, 0)
        os.close(line_ours)
        lifeline.hold(line)
        code = body()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):  # a log on a disk that is full
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
