"""Every exception this package raises on purpose."""


class PsDqnError(Exception):
    """The base of all of them; its text is one line written for the person who reads it."""


class UsageError(PsDqnError):
    """A flag, file or environment cannot be used as given; the program exits with 2."""


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
