"""One run of a container: a process tree in namespaces and a control group of its own."""

import contextlib
import os
import pathlib
import signal
import subprocess

from support.pods.memory_group import MemoryGroup
from support.pods.network import Interface

# As the image has it, but for the path.
_IMAGE = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/tmp",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
}
# If this process dies, so does the container.
_WITH_US = ["setpriv", "--pdeathsig", "KILL"]
_NAMESPACES = ["--mount", "--uts", "--ipc", "--cgroup", "--pid"]
# Its first child is process 1; it stays, to tell how that ended.
_RUN = 'setpriv --pdeathsig KILL sh -c "$0"; exit $?'


class Container:
    """Runs from when it is made; its program has the process id 1, as in a real container."""

    def __init__(
        self,
        interface: Interface,
        group: MemoryGroup,
        script: str,
        environment: dict[str, str],
        log: pathlib.Path,
    ):
        """Starts it.

        Args:
            interface: its place in the network.
            group: its limits.
            script: makes its file system and becomes its program.
            environment: all the program has beside the image's.
            log: file that its output is added to.
        """
        join = [*_WITH_US, *group.joining]
        apart = ["nsenter", f"--net={interface.path}", "unshare", *_NAMESPACES]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*join, *apart, "sh", "-c", _RUN, script],
                env={**_IMAGE, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._group = group

    @property
    def pid(self) -> int:
        """The program's process id on this machine; 0 while it has none."""
        for pid in (self._group.folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                status = pathlib.Path("/proc", pid, "status").read_text()
                if f"\nPPid:\t{self._process.pid}\n" in status:
                    return int(pid)
        return 0

    def exit_code(self) -> int | None:
        """How it ended, 128 + n for signal n, or None."""
        code = self._process.poll()
        return 128 - code if code is not None and code < 0 else code

    def ask_to_stop(self) -> None:
        """Sends SIGTERM to the program, which ignores it until it has a handler: it is 1."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Sends SIGKILL to the program, and with it to everything it started."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends it, whatever it does."""
        self._process.kill()
        self._process.wait()
