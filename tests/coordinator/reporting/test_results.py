"""The files of a run's end, where some cannot be written."""

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from support import states
from support.full_disk import full

from ps_dqn.coordinator.reporting import summary
from ps_dqn.networks import weights
from ps_dqn.run import directory, disk
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.run.disk import Disk
from ps_dqn.telemetry import learning_curve

WHAT = {"env_id": "CartPole-v1", "seed": 0, "reason": "finished"}
Save = Callable[..., list[str]]


@pytest.fixture
def save(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Save:
    """Saves the results of a run with a best checkpoint; what could not be written."""
    monkeypatch.setattr(disk, "LAST_PAUSE", 0.0)
    directory.create(tmp_path)
    held = Checkpoints(tmp_path / directory.CHECKPOINTS, keep=1)
    held.save_best(states.state(10), 1.0, 5.0)
    monkeypatch.setattr(weights, "save_model", lambda *_: None)
    said: list[str] = []

    def run(told: list[str] | None = None) -> list[str]:
        network: Any = None
        tell = ([] if told is None else told).append
        errors = summary.save(tmp_path, WHAT, 1.0, held, network, Disk(said.append), tell)
        assert not said, "training does not go on"
        return errors

    return run


def fails(times: int, really: Callable[..., Any]) -> Callable[..., Any]:
    tries = [0]

    def write(*arguments: Any, **named: Any) -> Any:
        tries[0] += 1
        if tries[0] <= times:
            full()
        return really(*arguments, **named)

    return write


def test_what_cannot_be_written_at_first_is_tried_again(
    save: Save, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "replace", fails(2, os.replace))
    assert save() == []
    assert json.loads((tmp_path / directory.SUMMARY).read_text())["reason"] == "finished"


def test_a_summary_is_whole_or_none(
    save: Save, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(path: pathlib.Path, text: str, **_: object) -> None:
        path.write_bytes(text[: len(text) // 2].encode())
        full()

    monkeypatch.setattr(pathlib.Path, "write_text", half)
    assert save() == ["summary.json could not be written (No space left on device)"]
    assert not [path for path in tmp_path.iterdir() if "summary" in path.name]


def test_a_damaged_best_checkpoint_is_said(save: Save, tmp_path: pathlib.Path) -> None:
    best = tmp_path / directory.CHECKPOINTS / directory.BEST
    best.write_bytes(best.read_bytes()[:100])
    [error] = save()
    assert error.startswith(f"best.keras could not be written (checkpoint {best} cannot be read")
    assert (tmp_path / directory.SUMMARY).exists()


def test_what_libraries_make_of_a_users_settings_is_said(
    save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("Failed to process string with tex\nbecause latex could not be found")

    monkeypatch.setattr(learning_curve, "draw", fail)
    told: list[str] = []
    assert save(told) == []  # a picture does not decide the exit code
    why = "RuntimeError: Failed to process string with tex because latex could not be found"
    assert told == [f"learning_curve.png could not be drawn ({why})"]
    assert "Traceback" in capsys.readouterr().err  # the log

    monkeypatch.setattr(weights, "save_model", fail)
    assert save() == [f"best.keras could not be written ({why})"]
