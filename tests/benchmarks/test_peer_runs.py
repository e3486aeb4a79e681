"""The benchmark of peers with programs that take no time and need no packages."""

import csv
import importlib.util
import json
import pathlib
import subprocess
import sys
import time

import installing
import known
import measuring
import pytest
import watching
from installing import Unavailable
from known import PEERS, Peer
from measuring import Asked, measure
from support.programs import ROOT, SUPPORT

from ps_dqn.telemetry import memory

_SPEC = importlib.util.spec_from_file_location(
    "peers_main", ROOT / "benchmarks" / "peers" / "__main__.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
benchmark = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(benchmark)
ASKED = Asked("CartPole-v1", 3, 50_000, 5000, until_solved=True)
FAKE = "fake_peer.py"


@pytest.fixture(autouse=True)
def fake_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "FOLDER", SUPPORT)


def test_a_run_is_what_its_program_said() -> None:
    row = measure(Peer(FAKE), sys.executable, ASKED)
    # Solved at the fourth evaluation, the third in a row at 475 or more.
    assert row["solved_env_steps"] == 4000
    assert (row["solved_updates"], row["solved_seconds"]) == (300, 8.0)
    assert (row["solved_command_seconds"], row["solved_eval_seconds"]) == (11.0, 2.0)
    assert (row["start_seconds"], row["compile_seconds"]) == (3.0, 1.25)
    # From the second to the fourth evaluation: 4 s, of which 1 is evaluating.
    assert row["updates_per_second"] == pytest.approx(200 / 3)
    assert row["env_steps_per_second"] == pytest.approx(2000 / 3)
    # It may be over before it was looked at.
    assert {"peak_megabytes", "cpu_seconds"} <= set(row) <= set(measuring.SCORES)


def test_two_in_a_row_are_not_solved() -> None:
    returns = "500,500,474,500,500"
    row = measure(Peer(FAKE, options=(f"--returns={returns}",)), sys.executable, ASKED)
    assert "solved_env_steps" not in row
    assert (row["env_steps"], row["eval_return"]) == (5000, 500)


def test_a_program_that_fails_is_unavailable_by_its_last_word() -> None:
    with pytest.raises(Unavailable, match=r"exit code 1: no such library"):
        measure(Peer(FAKE, options=("--fails",)), sys.executable, ASKED)


def test_packages_that_cannot_be_had_are_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    packages = ("no-such-package==0",)
    monkeypatch.setitem(known.PLACES, packages, "none")
    monkeypatch.setattr(installing.venv, "create", lambda place, with_pip: place.mkdir())

    def pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[-1] == packages[0]
        errors = "ERROR: No matching distribution found\nhint\n"
        return subprocess.CompletedProcess(command, 1, "", errors)

    monkeypatch.setattr(installing.subprocess, "run", pip)
    with pytest.raises(Unavailable, match="not installed: ERROR: No matching distribution"):
        installing.interpreter(Peer(FAKE, packages), tmp_path)


def test_all_processes_of_a_program_are_watched_and_end() -> None:
    child = "held = bytearray(64 << 20); print('held', flush=True); input()"
    program = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdin=subprocess.PIPE)\n"
        "child.wait()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    watch = watching.Watch(process, period=0.02)
    deadline = time.monotonic() + 60
    while watch.peak_bytes < 64 << 20 and time.monotonic() < deadline:
        time.sleep(0.02)
    members = list(memory.family(process.pid))
    watching.end(process)
    watch.close()
    process.stdout.close()
    assert watch.peak_bytes >= 64 << 20
    assert watch.seconds > 0
    assert len(members) == 2
    assert process.poll() is not None
    while any(pathlib.Path(f"/proc/{pid}").exists() for pid in members):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def called(
    monkeypatch: pytest.MonkeyPatch, folder: pathlib.Path, *words: str
) -> list[dict[str, str]]:
    """The benchmark with fake programs: slow is three times as slow as ours."""
    fakes = {
        "ours": Peer(FAKE),
        "slow": Peer(FAKE, options=("--pace=6",)),
        "broken": Peer(FAKE, options=("--fails",)),
        "elsewhere": Peer(FAKE, without={"CartPole-v1": "it has no poles"}),
    }
    monkeypatch.setattr(known, "PEERS", fakes)
    monkeypatch.setattr(benchmark, "PEERS", fakes)
    monkeypatch.setattr(benchmark.tables, "PEERS", fakes)
    output = folder / "peers.csv"
    command = ["peers", "--problems=CartPole-v1", f"--output={output}", "--seeds=2", *words]
    monkeypatch.setattr(sys, "argv", command)
    benchmark.main()
    with output.open(newline="") as file:
        return list(csv.DictReader(file))


def test_ours_runs_before_each_and_what_cannot_run_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = called(monkeypatch, tmp_path, "--until_solved")
    order = [(row["peer"], row["beside"]) for row in rows]
    turn = [("ours", "slow"), ("slow", ""), ("ours", "broken"), ("broken", ""), ("elsewhere", "")]
    assert order == turn * 2
    shown = capsys.readouterr().out
    assert "unavailable: exit code 1: no such library" in shown
    assert "unavailable: it has no poles" in shown
    summary = json.loads((tmp_path / "peers.json").read_text())["summary"]
    slow = next(one for one in summary if one["peer"] == "slow")
    # Solved after 24 s, of which 2 are evaluating, and 8 s, of which 2 are.
    assert slow["training_ratio"]["median"] == pytest.approx(22 / 6, rel=1e-4)
    assert slow["command_ratio"]["median"] == pytest.approx(25 / 9, rel=1e-4)
    assert (tmp_path / "peers.png").stat().st_size > 1000


def test_runs_that_are_there_are_not_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    first = called(monkeypatch, tmp_path, "--until_solved", "--peers=ours,slow")
    made: list[str] = []
    run = benchmark.run

    def counted(options: object, name: str, asked: object) -> dict[str, object]:
        made.append(name)
        return run(options, name, asked)

    monkeypatch.setattr(benchmark, "run", counted)
    second = called(monkeypatch, tmp_path, "--until_solved", "--peers=ours,slow")
    assert (second, made) == (first, [])
    called(monkeypatch, tmp_path, "--until_solved", "--peers=ours,slow", "--seeds=3")
    assert made == ["ours", "slow"]


def test_rates_are_compared_with_those_of_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    rows = called(monkeypatch, tmp_path, "--rates", "--peers=ours,slow")
    assert [row["updates_per_second"] for row in rows] == ["200", "600"] * 2
    summary = json.loads((tmp_path / "peers.json").read_text())["summary"]
    assert summary[1]["ours_by_updates_per_second"]["median"] == pytest.approx(1 / 3)


def test_who_is_not_known_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        called(monkeypatch, tmp_path, "--peers=ours,nobody")
    assert "--peers: no nobody; there are ours," in capsys.readouterr().err


def test_rows_of_an_older_benchmark_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    columns = [name for name in benchmark.KEY if name != "beside"] + [
        "env_steps",
        "seconds",
        "load",
    ]
    begin = {"env_id": "CartPole-v1", "seed": "800", "env_steps_asked": "50000"}
    begin |= dict.fromkeys(set(columns) - set(begin), "1") | {"until_solved": "False"}
    old = [begin | {"peer": peer} for peer in ("ours", "sb3")]
    with (tmp_path / "peers.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(old)
    rows = called(monkeypatch, tmp_path, "--until_solved", "--peers=ours,slow", "--seeds=1")
    assert len(rows) == len(old) + 2
    kept = [{name: row[name] for name in old[0]} for row in rows[: len(old)]]
    assert kept == old
    # A run of ours from before turns were kept is beside anybody.
    results = benchmark.Results(tmp_path / "peers.csv", benchmark.KEY, measuring.SCORES)
    key = {name: old[0][name] for name in benchmark.KEY if name != "beside"}
    assert results.has(key | {"beside": "sb3"})
    assert not results.has(key | {"beside": "sb3", "seed": "999"})


def test_every_program_and_its_packages_are_named() -> None:
    for name, peer in PEERS.items():
        assert (ROOT / "benchmarks" / "peers" / peer.script).exists(), name
        assert peer.place or not peer.packages, name
        assert all("==" in package for package in peer.packages), name


def test_ratios_are_of_neighbours_that_solved_it() -> None:
    def row(peer: str, seed: int, beside: str, seconds: float, solved: bool = True) -> dict:
        names = dict.fromkeys((*benchmark.KEY, *measuring.SCORES), "")
        names |= {"env_id": "CartPole-v1", "peer": peer, "seed": str(seed), "beside": beside}
        end = {"solved_seconds": str(seconds), "solved_command_seconds": str(seconds + 2)}
        return names | {"cpu_seconds": str(2 * seconds)} | (end if solved else {})

    rows = [
        *(row("ours", 1, "sb3", 10), row("sb3", 1, "", 40)),
        *(row("ours", 2, "sb3", 20), row("sb3", 2, "", 100)),
        # One of a pair did not solve it, and this run of ours is another's neighbour.
        *(row("ours", 3, "sb3", 10), row("sb3", 3, "", 90, solved=False)),
        row("ours", 1, "cleanrl", 1),
    ]
    found = {one["peer"]: one for one in benchmark.tables.scores(rows)}
    assert found["sb3"]["training_ratio"] == {"median": 4.5, "least": 4, "most": 5}
    assert found["sb3"]["command_ratio"]["least"] == 42 / 12
    assert found["sb3"]["cpu_ratio"]["most"] == 5
    assert (found["sb3"]["solved"], found["sb3"]["runs"]) == (2, 3)
    assert found["ours"]["training_ratio"] is None
