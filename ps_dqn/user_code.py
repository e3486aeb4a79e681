"""Python code of a user's own, which the command line names."""

import importlib
import types

from ps_dqn.errors import UsageError


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
        raise UsageError(
            f"{flag}: cannot be imported ({one_line(error)}). It must be importable on every "
            f"task: run from its folder or put that on PYTHONPATH"
        ) from error


def one_line(error: Exception) -> str:
    """What a user's code raised, its kind and its text."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
