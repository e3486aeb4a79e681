"""A run that has ended, and goes on by the same folder."""

import json
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple


class Resumed(NamedTuple):
    """What it has left, and said when it went on."""

    folder: pathlib.Path
    first: dict[str, Any]  # its summary before
    second: dict[str, Any]  # and after it went on
    said: str


def resumed(
    coordinate: Callable[..., Any], name: str, total_env_steps: int, *flags: str
) -> Resumed:
    """Lets a run end, and again once it may make so many steps.

    Args:
        coordinate: the fixture.
        name: of the folder.
        total_env_steps: the second time, and more than the first.
        flags: of the first time; the folder has them then.
    """
    folder, ended = coordinate(name, *flags)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    first = json.loads((folder / "summary.json").read_text())
    _, ended = coordinate(name, f"--total_env_steps={total_env_steps}")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    steps, updates = first["env_steps"], first["updates"]
    assert f"resumed at {steps:,} env steps, {updates:,} updates" in ended.stdout
    second = json.loads((folder / "summary.json").read_text())
    assert second["reason"] == "finished"
    assert second["env_steps"] >= total_env_steps
    assert second["updates"] > updates
    return Resumed(folder, first, second, ended.stdout)
