"""Films of the policy while it is trained: made by a process of their own, beside the workers."""

import contextlib
import os
import pathlib
import subprocess
import time
from collections.abc import Callable

from ps_dqn.cluster import lifeline
from ps_dqn.cluster.process import interpreter
from ps_dqn.run import directory

# How much it stands back for the tasks that train, and for how long the end of a run waits for one
# (seconds).
NICENESS, LAST_SECONDS = 10, 60.0
# After so long, and twice and four times as long, people hear that one is not ready (seconds).
PATIENCE = 300.0


class Films:
    """A film every so many environment steps, one at a time: what is due meanwhile is left out."""

    def __init__(
        self,
        folder: pathlib.Path,
        period: int,
        say: Callable[[str], None],
        show: Callable[[int, bytes], None],
    ):
        """Makes none yet.

        Args:
            folder: of the run.
            period: from one to the next (environment steps); 0: none is made.
            say: takes a line for people.
            show: takes the small form of a film that is ready, GIF, and what env steps it is of.
        """
        self._folder, self._period, self._say, self._show = folder, period, say, show
        self._next: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ours = -1  # a pipe, whose other end ends with this process
        self._path, self._env_steps = pathlib.Path(), 0
        self._began, self._patience = 0.0, PATIENCE

    def look(self, env_steps: int, save: Callable[[], bool]) -> None:
        """Begins a film where one is due, and says what became of the last.

        Args:
            env_steps: of the run.
            save: saves a newest checkpoint, whose policy is filmed; whether it did.
        """
        self._hear()
        if not self._period:
            return
        if self._next is None:
            # A connection before this one may have come so far.
            self._next = (env_steps // self._period + 1) * self._period
        if env_steps < self._next or self._process is not None:
            return
        self._next = env_steps + self._period
        if save():
            self._begin(env_steps)

    def close(self, has_time: Callable[[], bool]) -> None:
        """Ends it; as long as the run has time, the film that is being made has some left."""
        if self._process is None:
            return
        deadline = time.monotonic() + LAST_SECONDS
        if has_time():
            self._say(f"waiting for {self._path.name}, for {LAST_SECONDS:.0f} s at most")
        while self._process is not None and has_time() and time.monotonic() < deadline:
            time.sleep(0.05)
            self._hear()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._end("was not ready and is given up")

    def _begin(self, env_steps: int) -> None:
        self._began, self._patience = time.monotonic(), PATIENCE
        self._path = self._folder / directory.VIDEOS / f"env-steps-{env_steps:012}.mp4"
        self._env_steps = env_steps
        line, self._ours = os.pipe()
        arguments = (
            *(f"--run_dir={self._folder}", "--checkpoint=newest"),
            *(f"--video={self._path}", f"--preview={self._preview}"),
        )
        with (self._folder / directory.LOGS / "films.log").open("ab") as log:
            self._process = subprocess.Popen(
                # What the folder may import, this process has imported.
                [*interpreter("ps_dqn.watch"), *arguments, "--trust_run_dir"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, lifeline.ENVIRONMENT_VARIABLE: str(line)},
                pass_fds=[line],
                start_new_session=True,
            )
        os.close(line)
        os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)

    @property
    def _preview(self) -> pathlib.Path:
        return self._path.with_suffix(".gif")

    def _hear(self) -> None:
        if self._process is None:
            return
        if (code := self._process.poll()) is None:
            self._remind()
            return
        if code:
            self._end(f"failed: see {directory.LOGS}/films.log")
            return
        self._end("is ready")
        with contextlib.suppress(OSError):  # somebody has moved it away
            self._show(self._env_steps, self._preview.read_bytes())

    def _remind(self) -> None:
        if (seconds := time.monotonic() - self._began) < self._patience:
            return
        self._patience *= 2
        self._say(
            f"{directory.VIDEOS}/{self._path.name} is not ready after {seconds:.0f} s, and no "
            f"other film is begun: see {directory.LOGS}/films.log"
        )

    def _end(self, what: str) -> None:
        os.close(self._ours)
        self._process = None
        self._say(f"{directory.VIDEOS}/{self._path.name} {what}")
