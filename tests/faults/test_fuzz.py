"""Thousands of command lines that nobody would write: one line and exit code 2, or a valid run."""

import os
import pathlib

import pytest
from support.fuzzed import Fuzz

from ps_dqn.coordinator import __main__ as coordinator
from ps_dqn.flags import command_line

CASES, SEED = 5_000, 20_261


class ValidError(Exception):
    """Everything was found good; tasks would be started now."""


def refusal(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command line is refused with; no text where a run would start."""
    with pytest.raises((ValidError, SystemExit)) as ended:
        coordinator.main(["coordinator", *words])
    said = capsys.readouterr()
    if isinstance(ended.value, ValidError):
        return ""
    # On a loaded machine an import may take its time, of which people hear.
    others = [line for line in said.out.splitlines() if "takes longer than" not in line]
    assert (ended.value.code, others) == (2, [])
    return said.err


@pytest.mark.slow
def test_whatever_is_said_is_refused_in_a_line_or_starts(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def starts(*_: object) -> None:
        raise ValidError

    monkeypatch.setattr("ps_dqn.run.directory.create", starts)
    monkeypatch.setattr("ps_dqn.cluster.server.PORT_SECONDS", 0.0)
    monkeypatch.setattr("ps_dqn.run.libraries.SETTINGS", {})  # not for the tests that follow
    monkeypatch.chdir(tmp_path)
    fuzz = Fuzz(coordinator._define(), tmp_path, SEED)
    started = refused = 0
    for case in range(CASES):
        words, tf_config = fuzz.words(), fuzz.tf_config()
        os.environ.pop("TF_CONFIG", None)
        if tf_config is not None:
            monkeypatch.setenv("TF_CONFIG", tf_config)
        told = f"case {case}: {words!r} TF_CONFIG={tf_config!r:.500}"
        try:
            said = refusal(words, capsys)
        except BaseException as error:
            raise AssertionError(told) from error
        started, refused = started + (not said), refused + bool(said)
        assert not said or said.startswith("error: "), f"{told}: {said}"
        assert said.count("\n") <= 2, f"{told}: {said}"
        assert "Traceback" not in said, f"{told}: {said}"
    assert min(started, refused) > CASES // 20
    assert command_line.PRESETS.exists()
