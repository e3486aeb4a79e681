"""One run of a sweep: a coordinator in a process and a folder of its own."""

import dataclasses
import hashlib
import os
import pathlib
import re
import signal
import subprocess
from typing import IO

from ps_dqn.cluster.process import Process, interpreter
from ps_dqn.run import directory, disk, signals
from ps_dqn.sweep import space
from ps_dqn.sweep.space import Point

ENDED, INTERRUPTED, FAILED = "ended", "interrupted", "failed"
_LONGEST_NAME = 120  # of a folder (characters)
_TAIL = 4096  # bytes of the output that are looked at
FLAGFILE = "run.flags"


@dataclasses.dataclass(frozen=True)
class Trial:
    """A point and a seed."""

    point: Point
    seed: int
    folder: pathlib.Path  # the run's

    @property
    def label(self) -> str:
        """What it is, for people."""
        return f"{space.label(self.point)}, seed {self.seed}"

    @property
    def has_ended(self) -> bool:
        """Its run has reached its end, now or in an earlier sweep."""
        return directory.has_ended(self.folder)

    @property
    def output(self) -> pathlib.Path:
        """What its coordinator says."""
        return self.folder.with_name(f"{self.folder.name}.out")

    @property
    def flagfile(self) -> pathlib.Path:
        """Of its coordinator, and of those of the point's other trials."""
        return self.folder.with_name(FLAGFILE)

    def words(self) -> list[str]:
        """Its coordinator's flags."""
        words = [f"--flagfile={self.flagfile}", f"--seed={self.seed}", f"--run_dir={self.folder}"]
        return [*words, "--resume"] if directory.has_checkpoint(self.folder) else words

    def last_line(self) -> str:
        """What its coordinator has said last."""
        if not self.output.exists():
            return ""
        with self.output.open("rb") as file:
            file.seek(max(self.output.stat().st_size - _TAIL, 0))
            lines = file.read().decode(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def of(point: Point, seed: int, folder: pathlib.Path) -> Trial:
    """A trial of the sweep in a folder; the same one has the same place there."""
    name = ",".join(word.removeprefix("--") for word in point) or "run"
    safe = re.sub(r"[^\w.=,+-]", "_", name)
    if safe != name or len(safe) > _LONGEST_NAME:
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        safe = f"{safe[:_LONGEST_NAME]}-{digest}"
    return Trial(point, seed, folder / safe / f"seed-{seed}")


class Running:
    """A trial whose coordinator runs; it is in a session of its own, so no Ctrl-C reaches it."""

    def __init__(self, trial: Trial, flagfile: str):
        """Starts it, or goes on with it.

        Args:
            trial: which.
            flagfile: what its flagfile says.

        Raises:
            OSError: a file cannot be written.
        """
        self.trial = trial
        trial.folder.parent.mkdir(parents=True, exist_ok=True)
        with disk.beside(trial.flagfile) as temporary:  # another trial may be reading it
            temporary.write_text(flagfile, encoding="utf-8")
        self._output: IO[bytes] = trial.output.open("wb")
        popen = subprocess.Popen(
            [*interpreter("ps_dqn.coordinator"), *trial.words()],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=_environment(),
            start_new_session=True,
        )
        self._process = Process(popen.pid, popen)

    def ask_to_end(self) -> None:
        """It saves itself and ends; asked again, it ends at once."""
        popen = self._process.popen
        if popen is not None and popen.poll() is None:
            popen.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """It is gone, and all of its tasks."""
        self._process.signal_group(signal.SIGKILL)

    def outcome(self) -> str:
        """How it ended; empty while it runs."""
        code = self._process.poll()
        if code is None:
            return ""
        self._output.close()
        if code == 0 and self.trial.has_ended:
            return ENDED
        return INTERRUPTED if code in (0, signals.START_AGAIN, signals.INTERRUPTED) else FAILED


def _environment() -> dict[str, str]:
    """This process's, in no cluster."""
    return {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
