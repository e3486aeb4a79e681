"""Tests of the same in many settings: which of them are quick, slow or thorough."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def tiered(
    values: Iterable[Any], *, quick: Container[Any] = (), slow: Container[Any] = ()
) -> list[Any]:
    """Parameters: few that are always tried, some with `-m slow`, all others with `-m thorough`."""
    return [pytest.param(value, marks=_marks(value in quick, value in slow)) for value in values]


def _marks(is_quick: bool, is_slow: bool) -> Any:
    if is_quick:
        return ()
    return pytest.mark.slow if is_slow else pytest.mark.thorough
