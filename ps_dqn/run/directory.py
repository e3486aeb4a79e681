"""The folder a run leaves behind, and where things are in it."""

import contextlib
import csv
import datetime
import json
import math
import pathlib
import secrets
import shutil
from typing import Any

from ps_dqn.errors import UsageError
from ps_dqn.run import lock, signals

RUNS = pathlib.Path("runs")
FLAGFILE = "flags.txt"
# How a line of it begins that says which presets the run was begun with: its flags are what came of
# them, so this is for people.
BEGAN_WITH = "# --preset="
ENVIRONMENT = "environment.txt"
METRICS = "metrics.csv"
WORKERS = "workers.csv"
SUMMARY = "summary.json"
EVALUATIONS = "evaluations.csv"  # of an evaluator that follows the run
CURVE = "learning_curve.png"
MODEL = "best.keras"
CHECKPOINTS = "checkpoints"
LOGS = "logs"
TENSORBOARD = "tensorboard"
VIDEOS = "videos"
PROFILE = "profile"  # of Python
# What workers of a local cluster keep: replay that outlives them.
WORKER_FILES = "workers"
IDENTITY = "run_id"


def create(path: pathlib.Path) -> None:
    """Makes a run directory, or completes one that is there, and keeps it to this process.

    Raises:
        UsageError: the folder cannot be written, or another process writes into it.
    """
    try:
        for folder in (CHECKPOINTS, LOGS, TENSORBOARD):
            (path / folder).mkdir(parents=True, exist_ok=True)
        lock.hold(path)
        (path / SUMMARY).unlink(missing_ok=True)  # of an end that is none any more
    except OSError as error:
        raise UsageError(f"--run_dir={path}: cannot be written ({error.strerror})") from None


def write_flags(path: pathlib.Path, text: str) -> None:
    """Writes the run's flagfile; where that fails, an older one is left as it was.

    Raises:
        UsageError: it cannot be written.
    """
    temporary = (path / FLAGFILE).with_suffix(".tmp")
    try:
        temporary.write_text(text)
        temporary.replace(path / FLAGFILE)
    except OSError as error:
        raise UsageError(f"--run_dir={path}: cannot be written ({error.strerror})") from None


def read_presets(path: pathlib.Path) -> str:
    """The names of the presets that a run was begun with, comma separated; or no text."""
    lines = (path / FLAGFILE).read_text(errors="replace").splitlines()
    return next(
        (line.removeprefix(BEGAN_WITH) for line in lines if line.startswith(BEGAN_WITH)), ""
    )


def new_path(env_id: str) -> pathlib.Path:
    """A run directory's path that is not taken: environment and time."""
    stem = f"{env_id.replace('/', '-').replace(':', '-')}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    path, number = RUNS / stem, 1
    while path.exists():
        number += 1
        path = RUNS / f"{stem}-{number}"
    return path


def remove(path: pathlib.Path) -> None:
    """Removes the folder of a run that has left nothing."""
    shutil.rmtree(path, ignore_errors=True)


def identity(path: pathlib.Path) -> str:
    """The name of the run that the folder is of, the same whenever it is resumed; or no text."""
    file = path / IDENTITY
    return file.read_text().strip() if file.exists() else ""


def new_identity(path: pathlib.Path) -> str:
    """Names a run that begins.

    One in the folder of another that has left nothing gets a name of its own, and what that one's
    workers kept is removed: it is of other parameters, and maybe of another environment.
    """
    shutil.rmtree(path / WORKER_FILES, ignore_errors=True)
    (path / IDENTITY).write_text(secrets.token_hex(8) + "\n")
    return identity(path)


def newest() -> pathlib.Path | None:
    """The run directory under `runs/` whose checkpoints are the newest."""
    found = [path.parent.parent for path in RUNS.glob(f"*/{CHECKPOINTS}/updates-*.npz")]
    return max(found, key=lambda path: (path / CHECKPOINTS).stat().st_mtime, default=None)


def has_checkpoint(path: pathlib.Path) -> bool:
    """Whether a run can be resumed from this folder."""
    return any((path / CHECKPOINTS).glob("updates-*.npz"))


def read_metrics(path: pathlib.Path) -> list[dict[str, str]]:
    """The rows of a run's metrics.csv; none where there is no such file."""
    return read_table(path / METRICS)


def trained_seconds(path: pathlib.Path) -> float:
    """For how long a run has trained, as the last row of its metrics.csv says."""
    rows = read_metrics(path)
    return float(rows[-1]["seconds"] or 0.0) if rows else 0.0


def read_table(path: pathlib.Path) -> list[dict[str, str]]:
    """The rows of a CSV file; none where there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_summary(path: pathlib.Path, summary: dict[str, Any]) -> None:
    """Writes `summary.json`; numbers that are not finite become null."""
    (path / SUMMARY).write_text(json.dumps(_finite(summary), indent=2) + "\n")


def has_ended(path: pathlib.Path) -> bool:
    """Whether a run has reached its end, rather than been stopped on the way."""
    summary = path / SUMMARY
    with contextlib.suppress(OSError, ValueError):  # there is none, or it is being written
        return bool(json.loads(summary.read_text())["reason"] != signals.STOPPED)
    return False


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
