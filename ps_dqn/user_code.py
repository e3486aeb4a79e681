"""Python code of a user's own, which the command line names."""

import importlib
import importlib.util
import types

from ps_dqn.errors import UsageError, needs_extra

# Modules of environments that an extra of this project has: their package and the extra.
EXTRAS = {"ale_py": ("ale-py", "atari"), "minatar": ("minatar", "minatar")}


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
    except Exception as error:  # whatever its parents raise
        raise _cannot_import(flag, error) from error
    if found is None:
        raise _cannot_import(flag, ModuleNotFoundError(f"No module named {name!r}"))


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
    except Exception as error:  # whatever a user's module raises
        raise _cannot_import(flag, error) from error


def _cannot_import(flag: str, error: Exception) -> UsageError:
    if isinstance(error, ModuleNotFoundError):
        missing = (error.name or "").partition(".")[0]
        if missing in EXTRAS:
            return needs_extra(flag, *EXTRAS[missing])
    return UsageError(
        f"{flag}: cannot be imported ({one_line(error)}). It must be importable on every task: run "
        f"from its folder or put that on PYTHONPATH"
    )


def one_line(error: Exception) -> str:
    """What a user's code raised, its kind and its text."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
