"""Every exception this package raises on purpose."""

import pathlib


class PsDqnError(Exception):
    """The base of all of them; its text is one line written for the person who reads it."""


class UsageError(PsDqnError):
    """A flag, file or environment cannot be used as given; the program exits with 2."""


class FolderError(UsageError):
    """A run's folder cannot be read or written as it is now, whatever the flags say.

    In a pod a run that has begun exits with 75, and is started again: its servers have the rest.
    """


class WorkerError(PsDqnError):
    """Python hosted in a worker raised; the text carries that worker's traceback."""


class ClusterLostError(PsDqnError):
    """A task that cannot be replaced is gone, so the run ended early; the program exits with 1."""


class TrainingError(PsDqnError):
    """A run that was started from Python failed; the text ends with the last lines it said."""


def needs_extra(subject: str, package: str, extra: str) -> UsageError:
    """What to say where a package of an extra is not installed.

    Args:
        subject: the flag and its value.
        package: what it needs.
        extra: of this project, which has it.
    """
    return UsageError(
        f'{subject}: needs {package}, which is not installed: pip install "ps-dqn[{extra}]"'
    )


def not_written(folder: pathlib.Path, error: OSError) -> FolderError:
    """What to say where a file of a run directory cannot be written."""
    return FolderError(f"--run_dir={folder}: cannot be written ({error.strerror})")
