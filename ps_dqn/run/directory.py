"""The folder a run leaves behind, and where things are in it."""

import contextlib
import csv
import datetime
import itertools
import json
import math
import pathlib
import secrets
import shutil
from typing import Any

from ps_dqn.errors import UsageError, not_written
from ps_dqn.run import disk, lock, paths, signals

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
TIMELINE = "timeline.json"
TIMELINE_PICTURE = "timeline.png"
# What workers of a local cluster keep: replay that outlives them.
WORKER_FILES = "workers"
IDENTITY = "run_id"
GIVEN = "environment"  # code of an environment that Python's `train` was given
BEST = "best.npz"  # of the checkpoints
UNFINISHED = ".tmp"  # how the name of one ends that is being written
# What is of one run's parameters and steps, and no other's: where another one begins in its folder,
# it is in one of these then, with a number.
EARLIER = "earlier"
_LEARNED = (METRICS, WORKERS, EVALUATIONS, CURVE, MODEL, TENSORBOARD, VIDEOS, PROFILE)
# How the flagfile of a run begins that is a student, and of what.
DISTILLED = "# distilled from "
# What a run writes or removes, and what only a run's folder has.
_WRITTEN = (
    *(FLAGFILE, ENVIRONMENT, SUMMARY, LOGS, *_LEARNED),
    *(TIMELINE, TIMELINE_PICTURE, WORKER_FILES),
)
_OWN = (IDENTITY, CHECKPOINTS)


def check_free(path: pathlib.Path) -> None:
    """Refuses a folder that is something else's than a run's, and has what a run would write.

    Raises:
        UsageError: with what it has.
        FolderError: it cannot be looked at.
    """
    with paths.looking(f"--run_dir={path}"):
        _check_free(path)


def _check_free(path: pathlib.Path) -> None:
    if path.exists() and not path.is_dir():
        raise UsageError(f"--run_dir={path}: cannot be written (it is a file): say another")
    there = [name for name in _WRITTEN if (path / name).exists()]
    if there and not any((path / name).exists() for name in _OWN):
        raise UsageError(
            f"--run_dir={path}: has {' and '.join(there)}, and is no run's folder: say another"
        )
    flagfile = path / FLAGFILE
    text = flagfile.read_text(encoding="utf-8", errors="replace") if flagfile.exists() else ""
    if text.startswith(DISTILLED):
        raise UsageError(
            f"--run_dir={path}: is the folder of a student, from which a training cannot go on: "
            f"say another"
        )


def create(path: pathlib.Path) -> None:
    """Makes a run directory, or completes one that is there, and keeps it to this process.

    What others that held it did not write to its end is removed.

    Raises:
        FolderError: the folder cannot be written, or another process writes into it.
    """
    try:
        for folder in (CHECKPOINTS, LOGS, TENSORBOARD):
            (path / folder).mkdir(parents=True, exist_ok=True)
        if lock.hold(path):
            drop_unfinished(path)
    except OSError as error:
        raise not_written(path, error) from None


def drop_unfinished(path: pathlib.Path) -> None:
    """Removes checkpoints of which killed processes have written a part; none may write now.

    Raises:
        OSError: it cannot be removed.
    """
    for left in (path / CHECKPOINTS).glob(f"*{UNFINISHED}"):
        left.unlink(missing_ok=True)


def is_new(path: pathlib.Path) -> bool:
    """Whether nothing is there but the code of an environment that a run is begun with.

    Raises:
        FolderError: it cannot be looked at.
    """
    with paths.looking(f"--run_dir={path}"):
        return not path.exists() or all(each.name == GIVEN for each in path.iterdir())


def forget_end(path: pathlib.Path) -> None:
    """Removes the summary of a run that goes on: of an end that is none any more.

    Raises:
        FolderError: it cannot be removed.
    """
    try:
        (path / SUMMARY).unlink(missing_ok=True)
    except OSError as error:
        raise not_written(path, error) from None


def write_flags(path: pathlib.Path, text: str) -> None:
    """Writes the run's flagfile; where that fails, an older one is left as it was.

    Raises:
        FolderError: it cannot be written.
        UsageError: a flag is no text, so nobody could read it.
    """
    try:
        with disk.beside(path / FLAGFILE) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except UnicodeEncodeError as error:
        line = next(each for each in text.splitlines() if error.object[error.start] in each)
        shown = line.encode("utf-8", "replace").decode()
        raise UsageError(
            f"{shown}: is not text in UTF-8, which {FLAGFILE} is: say another"
        ) from None
    except OSError as error:
        raise not_written(path, error) from None


def read_presets(path: pathlib.Path) -> str:
    """The names of the presets that a run was begun with, comma separated; or no text."""
    lines = (path / FLAGFILE).read_text(encoding="utf-8", errors="replace").splitlines()
    return next(
        (line.removeprefix(BEGAN_WITH) for line in lines if line.startswith(BEGAN_WITH)), ""
    )


def new_path(env_id: str) -> pathlib.Path:
    """The path of a run directory that nobody names: environment and time; it may be taken."""
    now = datetime.datetime.now()
    return RUNS / f"{env_id.replace('/', '-').replace(':', '-')}-{now:%Y%m%d-%H%M%S}"


def make_new(path: pathlib.Path) -> pathlib.Path:
    """Makes a run directory that nobody else has made or makes just now.

    Returns:
        The path; or, where that is taken, the next one with a number behind it.

    Raises:
        FolderError: it cannot be made.
    """
    numbered = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for each in itertools.chain([path], numbered):
            with contextlib.suppress(FileExistsError):
                each.mkdir()
                return each
    except OSError as error:
        raise not_written(path, error) from None
    raise AssertionError("numbers have no end")


def remove(path: pathlib.Path) -> None:
    """Removes the folder of a run that has left nothing."""
    shutil.rmtree(path, ignore_errors=True)


def identity(path: pathlib.Path) -> str:
    """The name of the run that the folder is of, the same whenever it is resumed; or no text."""
    file = path / IDENTITY
    return file.read_text(encoding="utf-8").strip() if file.exists() else ""


def new_identity(path: pathlib.Path) -> str:
    """Names a run that begins.

    One in the folder of another that has left nothing gets a name of its own, and what that one's
    workers kept is removed: it is of other parameters, and maybe of another environment.
    """
    shutil.rmtree(path / WORKER_FILES, ignore_errors=True)
    (path / IDENTITY).write_text(secrets.token_hex(8) + "\n", encoding="utf-8")
    return identity(path)


def set_aside(path: pathlib.Path) -> pathlib.Path | None:
    """Moves what an earlier run has learned and measured out of the way of one that begins anew.

    Returns:
        The folder, in the same one, where all of it is; None where there is nothing.
    """
    left = [path / name for name in (f"{CHECKPOINTS}/{BEST}", *_LEARNED)]
    left = [each for each in left if (any(each.iterdir()) if each.is_dir() else each.exists())]
    if not left:
        return None
    number = next(n for n in itertools.count(1) if not (path / f"{EARLIER}-{n}").exists())
    aside = path / f"{EARLIER}-{number}"
    for each in left:
        target = aside / each.relative_to(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        each.rename(target)
    (path / TENSORBOARD).mkdir(exist_ok=True)
    return aside


def newest() -> pathlib.Path | None:
    """The run directory under `runs/` whose checkpoints are the newest."""
    found = [path.parent.parent for path in RUNS.glob(f"*/{CHECKPOINTS}/updates-*.npz")]
    return max(found, key=lambda path: (path / CHECKPOINTS).stat().st_mtime, default=None)


def has_checkpoint(path: pathlib.Path) -> bool:
    """Whether a run can be resumed from this folder."""
    return any((path / CHECKPOINTS).glob("updates-*.npz"))


def may_have_begun(path: pathlib.Path) -> bool:
    """Whether training has, as far as can be seen: a file system may not answer."""
    try:
        return (path / IDENTITY).exists() or has_begun(path)
    except OSError:
        return True


def has_begun(path: pathlib.Path) -> bool:
    """Whether training has: its metrics have a header right before the first closure."""
    measured = path / METRICS
    has_rows = measured.exists() and measured.stat().st_size > 0
    return has_rows or any((path / CHECKPOINTS).glob("*.npz"))


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
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_summary(path: pathlib.Path, summary: dict[str, Any]) -> None:
    """Writes `summary.json`; numbers that are not finite become null."""
    with disk.beside(path / SUMMARY) as temporary:
        temporary.write_text(json.dumps(_finite(summary), indent=2) + "\n", encoding="utf-8")


def has_ended(path: pathlib.Path) -> bool:
    """Whether a run has reached its end, rather than been stopped on the way."""
    summary = path / SUMMARY
    with contextlib.suppress(OSError, ValueError):  # there is none, or it is being written
        return bool(json.loads(summary.read_text(encoding="utf-8"))["reason"] != signals.STOPPED)
    return False


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
