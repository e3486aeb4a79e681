"""How programs are called, and what a misspelled word may have meant."""

import difflib
import pathlib
import sys
from collections.abc import Iterable

COMMAND, AS_MODULE = "ps-dqn", "python -m ps_dqn"


def this_program(module: str) -> str:
    """What this process's program is called by who called it.

    Args:
        module: how it is called as a module, `python -m ps_dqn.launch k8s`.

    Returns:
        The same; or the word of the command `ps-dqn`, which is the first of `sys.argv` then.
    """
    if _command():
        return " ".join([sys.argv[0], *module.split()[3:]])
    return COMMAND if pathlib.Path(sys.argv[0]).name == COMMAND else module


def program_named(word: str) -> str:
    """How another program of this project is called, by who called this one as they did."""
    return f"{_command() or COMMAND} {word}"


def nearest(word: str, known: Iterable[str], before: str = "") -> str:
    """`; did you mean …?` where one of the known words is near, else `;`.

    Args:
        word: what was said.
        known: what may be said.
        before: what such words are written with, as `--`.
    """
    known = list(known)
    # A run's --num_workers are the --workers of its launch.
    same = [each for each in (f"num_{word}", word.removeprefix("num_")) if each in known]
    near = same or difflib.get_close_matches(word, known, 1)
    return f"; did you mean {before}{near[0]}?" if near else ";"


def _command() -> str:
    """The command by whose word this program was called, if it was."""
    commands = (COMMAND, AS_MODULE)
    return next((each for each in commands if sys.argv[0].startswith(f"{each} ")), "")
