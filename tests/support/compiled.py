"""A user whose runs keep compiled code, and where they keep it."""

import os
import pathlib

import pytest

from ps_dqn.run import compile_cache

DIRECTORY = "--tf_xla_persistent_cache_directory="


def begin_anew(monkeypatch: pytest.MonkeyPatch, home: pathlib.Path) -> None:
    """A user with a home and nothing set."""
    for name in ("TF_XLA_FLAGS", compile_cache.SEALED, "XDG_CACHE_HOME", "XLA_FLAGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))


def folder_of(said: str) -> str:
    """The folder that TensorFlow is told once `use` was called with this."""
    os.environ.pop("TF_XLA_FLAGS", None)
    compile_cache.use(said)
    _, _, rest = os.environ["TF_XLA_FLAGS"].partition(f'{DIRECTORY}"')
    return rest.partition('" ')[0]
