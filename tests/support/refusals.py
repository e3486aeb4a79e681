"""What is refused, and the line that says why."""

from typing import Any

import pytest

from ps_dqn import launch
from ps_dqn.config import Config
from ps_dqn.errors import UsageError


def refused(**values: Any) -> str:
    """The line that says why."""
    with pytest.raises(UsageError) as caught:
        Config.from_values(values)
    return str(caught.value)


def not_launched(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that `launch k8s` refuses a command line with."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        launch.main(["launch", "k8s", *words])
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    return err
