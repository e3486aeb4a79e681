"""The table of faults: which scenarios are run, and that its rows are those that were."""

import pathlib
import sys

import fault_table
import pytest
from support.scenarios import SCENARIOS
from support.trial import Row

NAMES = [scenario.name for scenario in SCENARIOS]


def ran(monkeypatch: pytest.MonkeyPatch, results: pathlib.Path, *words: str) -> list[str]:
    """What is run for a command line, in its order."""
    found: list[str] = []

    def measure(scenario, seed: int, steps: int) -> Row:
        found.append(scenario.name)
        return Row(scenario.name, seed, *[0.0] * (len(Row._fields) - 2))

    monkeypatch.setattr(fault_table, "measure", measure)
    monkeypatch.setattr(sys, "argv", ["fault_table.py", f"--results={results}", *words])
    fault_table.main()
    return found


def test_all_are_run_where_nothing_is_said_and_none_twice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "faults.csv"
    assert ran(monkeypatch, results, "--seeds=1") == NAMES
    table = capsys.readouterr().out.splitlines()[-len(NAMES) :]
    assert [line.split(" | ")[0].removeprefix("| ") for line in table] == NAMES
    assert ran(monkeypatch, results, "--seeds=1") == []


def test_those_that_are_named_are_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    named = [name for name in NAMES if "," in name][:2]
    words = ("--seeds=1", "--scenarios", *named)
    assert ran(monkeypatch, tmp_path / "faults.csv", *words) == named
