"""An environment that is given as a class or function, by a name that other processes can import.

What a notebook's cell or a script defines no other process can import. It is pickled by value then,
into a folder of the run's, beside a module that loads it.
"""

import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from ps_dqn.errors import UsageError
from ps_dqn.run import directory, disk
from ps_dqn.run.overwritten import Overwritten

MODULE = "ps_dqn_environment"
_SOURCE = '''"""The environment that ps_dqn.train was given, as it was then."""

import pathlib

import cloudpickle

{name} = cloudpickle.loads(pathlib.Path(__file__).with_suffix(".pickle").read_bytes())
'''


class GivenEnvironment(NamedTuple):
    """What `--env_id` says of it, what people call it, and what has to be written for that."""

    env_id: str
    name: str
    pickled: bytes | None  # None: nothing

    def write(self, run_dir: pathlib.Path) -> Overwritten:
        """Writes what other processes need, into a run's folder.

        Returns:
            What was there before.
        """
        if self.pickled is None:
            return Overwritten([])
        folder = run_dir / directory.GIVEN
        data, module = folder / f"{MODULE}.pickle", folder / f"{MODULE}.py"
        before = Overwritten([data, module])
        folder.mkdir(parents=True, exist_ok=True)
        with disk.beside(data) as temporary:
            temporary.write_bytes(self.pickled)
        with disk.beside(module) as temporary:
            temporary.write_text(_SOURCE.format(name=self.name), encoding="utf-8")
        return before


def named(made_by: Callable[..., Any]) -> GivenEnvironment:
    """A class, or a function that returns an environment, by a name.

    Raises:
        UsageError: it cannot be taken to other processes.
    """
    if not callable(made_by):
        raise UsageError(
            f"environment={made_by!r}: is neither a name nor a class, nor a function that returns "
            f"an environment"
        )
    module, name = getattr(made_by, "__module__", ""), getattr(made_by, "__name__", "")
    if module != "__main__" and getattr(sys.modules.get(module), name, None) is made_by:
        return GivenEnvironment(f"{module}:{name}", name, None)
    name = name if name.isidentifier() else "Environment"
    import cloudpickle

    try:
        pickled = cloudpickle.dumps(made_by)
    except Exception as error:  # whatever one of its parts raises
        raise UsageError(
            f"environment={name}: cannot be taken to other processes "
            f"({type(error).__name__}: {error}): define it in a module of its own and import it "
            f"from there"
        ) from error
    return GivenEnvironment(f"{MODULE}:{name}", name, pickled)


def import_path(run_dir: pathlib.Path) -> list[str]:
    """Where a run's tasks find what was written, where something was, by this user."""
    folder = run_dir / directory.GIVEN
    if folder.is_dir() and folder.stat().st_uid == os.getuid():
        return [str(folder.absolute())]
    return []
