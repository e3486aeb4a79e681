"""A deep Q-network trainer on TensorFlow's parameter-server strategy."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ps_dqn.api import Measures, Run, TrainingError, UsageError, load, train

__version__ = "0.2.0"
__all__ = ["Measures", "Run", "TrainingError", "UsageError", "load", "train"]


def __getattr__(name: str) -> Any:
    """What `ps_dqn.api` offers, imported once it is asked for: no task or command needs it."""
    if name in __all__:
        return getattr(importlib.import_module("ps_dqn.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
