"""What one module under test sees of Python's modules, while the rest of the process sees theirs.

Patched in `time` or `threading` itself, a function would be another one for all threads of this
process too, of which earlier tests may have left some; and whoever compares all threads before and
after finds that one of those has ended meanwhile.
"""

import threading
import time
import types
from collections.abc import Callable
from typing import Any

import pytest


def clock(
    monkeypatch: pytest.MonkeyPatch, module: types.ModuleType, **functions: Callable[..., Any]
) -> None:
    """Has a module that imports `time` call these in the place of Python's."""
    own = types.SimpleNamespace(**{**vars(time), **functions})
    monkeypatch.setattr(module, "time", own)


def threads(monkeypatch: pytest.MonkeyPatch, module: types.ModuleType) -> list[threading.Thread]:
    """The threads that a module which imports `threading` starts from now on, as they come."""
    started: list[threading.Thread] = []

    class Known(threading.Thread):
        def start(self) -> None:
            started.append(self)
            super().start()

    monkeypatch.setattr(
        module, "threading", types.SimpleNamespace(**{**vars(threading), "Thread": Known})
    )
    return started
