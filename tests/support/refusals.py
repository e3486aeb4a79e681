"""Combinations of options that are refused."""

from typing import Any

import pytest

from ps_dqn.config import Config
from ps_dqn.errors import UsageError


def refused(**values: Any) -> str:
    """The line that says why."""
    with pytest.raises(UsageError) as caught:
        Config.from_values(values)
    return str(caught.value)
