"""Python code of a user's own, which the command line names."""

import importlib
import importlib.util
import pathlib
import sys
import traceback
import types
from collections.abc import Iterable

from ps_dqn.errors import UsageError, needs_extra

# Modules of environments that an extra of this project has: their package and the extra.
EXTRAS = {"ale_py": ("ale-py", "atari"), "minatar": ("minatar", "minatar")}
# What a user's code ends with when it fails; one that leaves the program would end it in silence.
FAILURES = (Exception, SystemExit)
# Modules between a user's code and what it calls, or what calls it.
_BETWEEN = {"gymnasium", *sys.stdlib_module_names}
_INSTALLED = {"site-packages", "dist-packages"}


def find_module(flag: str, name: str) -> None:
    """Looks for a user's module, and does not import it: it may bring TensorFlow with it.

    Args:
        flag: what names it, as the user wrote it.
        name: of the module, dotted.

    Raises:
        UsageError: there is none.
    """
    try:
        found = importlib.util.find_spec(name)
    except FAILURES as error:  # whatever its parents raise
        raise _cannot_import(flag, name, error) from error
    if found is None:
        raise _cannot_import(flag, name, ModuleNotFoundError(f"No module named {name!r}"))


def import_module(flag: str, name: str) -> types.ModuleType:
    """Imports a user's module.

    Args:
        flag: what names it, as the user wrote it: `--env_module=my_games`.
        name: of the module, dotted.

    Raises:
        UsageError: it cannot be imported.
    """
    try:
        return importlib.import_module(name)
    except FAILURES as error:  # whatever a user's module raises
        raise _cannot_import(flag, name, error) from error


def _cannot_import(flag: str, name: str, error: BaseException) -> UsageError:
    if "/" in name or name.endswith(".py"):
        module = pathlib.PurePath(name).name.removesuffix(".py")
        return UsageError(
            f"{flag}: {name} is the name of a file: say that of its module, {module}, without "
            f"folders and .py, and run from its folder or put that on PYTHONPATH"
        )
    if isinstance(error, ModuleNotFoundError):
        missing = (error.name or "").partition(".")[0]
        if missing in EXTRAS:
            return needs_extra(flag, *EXTRAS[missing])
    return UsageError(
        f"{flag}: cannot be imported ({with_place(error)}). It must be importable on every task: "
        f"run from its folder or put that on PYTHONPATH"
    )


def one_line(error: BaseException) -> str:
    """What a user's code raised, its kind and its text."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def with_place(error: BaseException) -> str:
    """The same, and the line of the user's code where it was raised, if it was there."""
    raised: BaseException | None = error
    while raised is not None:  # Gymnasium raises some errors anew
        if where := place(reversed(list(traceback.walk_tb(raised.__traceback__)))):
            return f"{one_line(error)}, at {where}"
        raised = raised.__cause__ or raised.__context__
    return one_line(error)


def place(frames: Iterable[tuple[types.FrameType, int]]) -> str:
    """The line of a user's code that this program has called.

    Args:
        frames: and their lines, the innermost first.

    Returns:
        `games.py:31 in step`, the innermost line that is of no installed package, if there is one;
        empty where all is this program's, Gymnasium's and Python's own.
    """
    found = []
    for frame, line in frames:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package == "ps_dqn":
            break
        if package not in _BETWEEN:
            found.append((pathlib.Path(frame.f_code.co_filename), line, frame.f_code.co_name))
    if not found:
        return ""
    own = [each for each in found if _INSTALLED.isdisjoint(each[0].parts)]
    path, line, function = (own or found)[0]
    folder = pathlib.Path.cwd()
    shown = path.relative_to(folder) if path.is_relative_to(folder) else path
    return f"{shown}:{line} in {function}"
