"""A run of actors and learners that share a replay, and what is left of it."""

import csv
import json
import math
import pathlib
import re

import pytest
from support.resuming import resumed

N_STEP, ENVS, ACTORS, LEAST, PERIOD = 3, 4, 2, 200, 4
SMALL = (
    *("--preset=ape_x", "--cluster=in_process", "--num_replay_servers=2"),
    f"--num_actors={ACTORS}",
    f"--num_envs={ACTORS * ENVS}",
    f"--update_period={PERIOD}",
    f"--n_step={N_STEP}",
    *("--local_updates=8", "--batch_size=16", f"--min_replay_size={LEAST}"),
    *("--hidden_sizes=16,16", "--jit_compile=none", "--target_update_period=50"),
    *("--target_return=inf", "--metrics_period=500"),
    *("--eval_period=1500", "--eval_episodes=2", "--confirm_episodes=0"),
)


@pytest.mark.slow
def test_a_run_of_actors_and_learners(coordinate) -> None:
    folder, ended = coordinate(
        "shared", *SMALL, "--num_learners=2", "--frame_stack=2", "--total_env_steps=3000"
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{ACTORS} actors × {ENVS} environments, 2 learners, 2 replay servers" in ended.stdout

    summary = json.loads((folder / "summary.json").read_text())
    steps, updates, replay = summary["env_steps"], summary["updates"], summary["replay_servers"]
    assert summary["reason"] == "finished"
    # Neither is ahead of the other by more than pushes that were under way.
    pace = (steps - LEAST) / PERIOD
    assert summary["sequential_updates"] == pytest.approx(pace, abs=6 * 8)
    # Every step has arrived once, but those whose errors were not known at the end.
    held_back = steps - sum(each["adds"] for each in replay)
    assert 0 <= held_back <= (N_STEP + 1) * ENVS * ACTORS + 64 * ACTORS
    assert [each["adds"] > 0 for each in replay] == [True, True]
    # Each server gave half of what was learned from, and heard of it.
    assert [each["samples"] for each in replay] == pytest.approx([updates * 8] * 2, rel=0.25)
    # Of those alone: a learner that has waited in vain draws too, and learns nothing.
    assert [each["updates"] for each in replay] == pytest.approx([updates * 8] * 2, abs=8 * 8)
    by_worker = [summary["workers"][str(worker)] for worker in range(4)]
    assert [row["env_steps_made"] > 0 for row in by_worker] == [False, False, True, True]
    assert [row["updates_made"] > 0 for row in by_worker] == [True, True, False, False]
    assert [row["pushes_collected"] > 0 for row in by_worker] == [False, False, True, True]

    with (folder / "metrics.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["replay/adds_per_second"]]
    assert float(rows[-1]["replay/samples_per_second"]) > 0
    sent = [float(row["replay/bytes_out"]) for row in rows]
    assert sent == sorted(sent)
    # 0.4^1 to 0.4^8, over the environments of all actors.
    ladder = [0.4 ** (1 + 7 * i / (ACTORS * ENVS - 1)) for i in range(ACTORS * ENVS)]
    assert float(rows[-1]["train/epsilon"]) <= max(ladder)
    assert math.isclose(by_worker[2]["env_steps_made"] + by_worker[3]["env_steps_made"], steps)
    assert "Replay servers" in ended.stdout


@pytest.mark.slow
def test_a_parcel_that_cannot_be_taken_ends_the_run(coordinate, tmp_path: pathlib.Path) -> None:
    """So no actor sends again what a server has written half of."""
    (tmp_path / "no_room.py").write_text(
        """
from ps_dqn.replay.replay import Replay

write, rows = Replay.write, 0


def fail(self, given):
    global rows
    rows += 1
    if rows == 20:
        raise MemoryError("no room")
    write(self, given)


Replay.write = fail
"""
    )
    _, ended = coordinate("full", *SMALL, "--env_module=no_room", "--total_env_steps=1000000")
    assert ended.returncode == 1
    shown = ended.stdout + ended.stderr
    assert "error: Python hosted in a worker failed:" in shown
    assert "MemoryError: no room" in shown


@pytest.mark.slow
def test_a_run_that_is_resumed_has_its_experience_again(coordinate) -> None:
    flags = (*SMALL, "--replay_files", "--replay_capacity=20000", "--total_env_steps=2000")
    _, first, second, shown = resumed(coordinate, "kept", 4000, *flags)
    kept = sum(each["rows"] for each in first["replay_servers"])
    [said] = re.findall(r"replay servers have ([\d,]+) rows", shown)
    assert kept - ACTORS * ENVS <= int(said.replace(",", "")) <= kept
    # A server counts what has come to its process.
    for before, after in zip(first["replay_servers"], second["replay_servers"], strict=True):
        at_the_seam = (N_STEP + 1) * ENVS * ACTORS
        assert after["rows"] >= before["rows"] + after["adds"] - at_the_seam
    made = sum(row["env_steps_made"] for row in second["workers"].values())
    assert first["env_steps"] + made == second["env_steps"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--num_replay_servers=2",), "--num_replay_servers=2: has no effect without --topology"),
        (("--preset=ape_x", "--num_workers=4"), "--num_workers=4: with --topology=apex"),
        (("--preset=ape_x", "--num_replay_servers=99"), "--num_replay_servers=99: each keeps some"),
        (("--preset=ape_x", "--batch_size=7", "--num_replay_servers=2"), "--batch_size=7: each of"),
    ],
)
def test_a_cluster_that_makes_no_sense_is_refused(coordinate, words, says: str) -> None:
    folder, ended = coordinate("refused", *words)
    assert ended.returncode == 2
    assert f"error: {says}" in ended.stderr
    assert not folder.exists()
