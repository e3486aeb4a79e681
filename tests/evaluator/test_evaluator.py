"""The evaluator, on runs that are over and on those that go on."""

import csv
import json
import pathlib
import signal
from typing import Any

import gymnasium
import numpy as np
import pytest
from support import seen_by
from support.command_lines import only_error
from support.processes import Processes

from ps_dqn.environments import guard, overdue
from ps_dqn.errors import FolderError
from ps_dqn.evaluator import __main__ as evaluator
from ps_dqn.evaluator import following
from ps_dqn.evaluator.score_table import ScoreTable
from ps_dqn.run import directory, signals
from ps_dqn.run.checkpoints import Checkpoint, Checkpoints
from ps_dqn.state import Counters, State

SMALL = (
    "--cluster=in_process",
    "--num_workers=1",
    "--hidden_sizes=16,16",
    "--jit_compile=none",
    "--eval_episodes=4",
    "--target_return=inf",
    "--total_env_steps=3000",
)
VALUES = ("--num_envs_per_worker=8", "--local_updates=16", "--min_replay_size=200")


def table(folder: pathlib.Path) -> list[dict[str, str]]:
    with (folder / "evaluations.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
@pytest.mark.parametrize("flags", [VALUES, ("--preset=a3c",)], ids=["values", "a policy"])
def test_it_follows_a_run_to_its_end_and_goes_on_where_it_was(
    processes: Processes, tmp_path: pathlib.Path, flags: tuple[str, ...]
) -> None:
    folder = tmp_path / "run"
    words = ("-m", "ps_dqn.evaluator", f"--run_dir={folder}", "--follow", "--episodes=5")
    follower = processes.start(*words)
    follower.line_with(f"waiting for a run in {folder}")
    run = processes.start("-m", "ps_dqn.coordinator", f"--run_dir={folder}", *SMALL, *flags)
    assert run.ended() == 0, run.text

    assert follower.ended() == 0, follower.text
    rows = table(folder)
    [newest] = (folder / "checkpoints").glob("updates-*.npz")
    assert newest.name == f"updates-{int(rows[-1]['updates']):012d}.npz"
    assert int(rows[-1]["env_steps"]) >= 3000
    low, middle, high = (float(rows[-1][f"return_{which}"]) for which in ("min", "median", "max"))
    assert 1 <= low <= middle <= high <= 500
    mean = float(rows[-1]["return_mean"])
    line = follower.line_with(newest.name)
    assert f"5 greedy episodes, mean return {mean:.1f}" in line

    # Asked once for the newest, it finds the same: the episodes depend on the seed alone.
    once = processes.start(
        "-m", "ps_dqn.evaluator", f"--run_dir={folder}", "--checkpoint=newest", "--episodes=5"
    )
    assert once.ended() == 0, once.text
    assert once.lines[-1] == line

    # Started again, it has nothing left to do.
    again = processes.start(*words)
    assert again.ended() == 0, again.text
    assert table(folder) == rows


def test_it_leaves_when_it_is_told_to(processes: Processes, tmp_path: pathlib.Path) -> None:
    follower = processes.start("-m", "ps_dqn.evaluator", f"--run_dir={tmp_path}/run", "--follow")
    follower.line_with("waiting for a run")
    follower.process.send_signal(signal.SIGTERM)
    assert follower.ended() == signals.START_AGAIN


def test_a_signal_is_no_failure_of_the_environment_that_steps() -> None:
    class Stepping(gymnasium.Wrapper):
        def step(self, action: int) -> Any:
            return evaluator._leave(signal.SIGTERM, None)

    guarded = guard.Guard(Stepping(gymnasium.make("CartPole-v1")), {}, "")
    guarded.reset(seed=1)
    with pytest.raises(KeyboardInterrupt):
        guarded.step(0)


def test_which_checkpoint_has_no_meaning_for_one_that_follows(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    refused = processes.start(
        "-m", "ps_dqn.evaluator", f"--run_dir={tmp_path}", "--follow", "--checkpoint=newest"
    )
    assert refused.ended() == signals.WRONG_USAGE
    assert refused.lines == [
        "error: --checkpoint=newest: has no effect with --follow, which plays every newest one; "
        "leave it out"
    ]


def test_whom_to_follow_is_to_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        evaluator.main(["evaluate", "--follow"])
    assert left.value.code == signals.WRONG_USAGE
    assert only_error(capsys.readouterr().err).startswith("--run_dir is missing: say which run")


@pytest.mark.slow
def test_an_environment_that_hangs_ends_it_with_a_line(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    kwargs = json.dumps({"hangs_in": "reset"})
    (tmp_path / "flags.txt").write_text(
        f"--env_id=support.hanging_env:Hanging\n--env_kwargs={kwargs}\n--hidden_sizes=8\n"
        "--dueling=false\n--layer_norm=false\n"
    )
    vector = np.ones(2 * 8 + 8 + 8 * 2 + 2, np.float32)
    state = State(vector, vector, vector, (), Counters(1, 9, 640, 0, 9))
    (tmp_path / directory.CHECKPOINTS).mkdir()
    Checkpoints(tmp_path / directory.CHECKPOINTS, keep=1).save_newest(state, 1.0)
    words = ("--checkpoint=newest", "--env_timeout=1.5")
    tests = str(pathlib.Path(__file__).parents[1])
    running = processes.start("-m", "ps_dqn.evaluator", str(tmp_path), *words, PYTHONPATH=tests)
    assert running.ended(120) == overdue.EXIT_CODE
    assert running.lines[-1] == (
        "error: an environment did not return within --env_timeout=1.5 s: this process ends"
    )


@pytest.mark.slow
def test_a_run_that_cannot_be_written_is_played(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    # Even root cannot write below a regular file.
    (tmp_path / "logs").touch()
    leave_a_run(tmp_path)
    running = processes.start(
        "-m", "ps_dqn.evaluator", str(tmp_path), "--checkpoint=newest", "--episodes=2"
    )
    assert running.ended() == 0, running.text
    assert "2 greedy episodes, mean return " in running.lines[-1]


def test_it_says_what_it_is_at_where_that_takes_its_time(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    leave_a_run(tmp_path)
    program = """
import sys
from ps_dqn.evaluator import __main__
from ps_dqn.run import stages
stages.PATIENCE, stages.REMINDER = 0.0, 1e9
sys.exit(__main__.main(sys.argv))
"""
    words = (str(tmp_path), "--checkpoint=newest", "--episodes=100")
    running = processes.start("-c", program, *words)
    assert running.ended() == 0, running.text
    *said, _ = running.lines
    assert said == ["importing TensorFlow", "playing updates-000000000010.npz"]


def leave_a_run(folder: pathlib.Path) -> None:
    """Its flags and a checkpoint of a network of one unit."""
    (folder / "checkpoints").mkdir()
    (folder / "flags.txt").write_text(
        "--env_id=CartPole-v1\n--hidden_sizes=1\n--value_distribution=none\n--nolayer_norm\n"
    )
    save(Checkpoints(folder / "checkpoints", keep=1), 10, parameters=4 + 1 + 2 + 2)


def test_one_that_follows_must_be_able_to_keep_what_it_finds(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "flags.txt").write_text("--env_id=CartPole-v1\n")
    (tmp_path / "evaluations.csv").mkdir()
    refused = processes.start("-m", "ps_dqn.evaluator", f"--run_dir={tmp_path}", "--follow")
    assert refused.ended() == signals.WRONG_USAGE
    path = tmp_path / "evaluations.csv"
    assert refused.lines == [f"error: --follow: {path}: cannot be written (Is a directory)"]


def save(checkpoints: Checkpoints, updates: int, parameters: int = 3) -> None:
    import numpy as np

    vector = np.zeros(parameters, np.float32)
    counters = Counters(updates, updates, updates, 0, updates)
    checkpoints.save_newest(State(vector, vector, vector, (), counters), 1.0)


def test_every_newest_checkpoint_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkpoints").mkdir()
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=2)
    slept = iter(range(100))

    def sleep(seconds: float) -> None:
        # What the run does meanwhile.
        now = next(slept)
        if now == 1:
            save(checkpoints, 10)
        if now == 3:
            save(checkpoints, 20)
            save(checkpoints, 30)
        if now == 4:
            directory.write_summary(tmp_path, {"reason": signals.STOPPED})
        if now == 5:
            save(checkpoints, 40)
            directory.write_summary(tmp_path, {"reason": "finished"})

    seen_by.clock(monkeypatch, following, sleep=sleep)
    table = ScoreTable(tmp_path, print)
    found = following.new_checkpoints(tmp_path, checkpoints, table, 60.0, print)

    assert [each.state.counters.updates for each in found] == [10, 30, 40]
    assert next(slept) == 6


@pytest.mark.parametrize(("period", "minutes"), [(60.0, 5), (600.0, 20)])
def test_people_hear_that_a_run_leaves_nothing_and_does_not_end(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, period: float, minutes: int
) -> None:
    (tmp_path / "checkpoints").mkdir()
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=2)
    save(checkpoints, 10)
    now, said = [0.0], list[str]()

    def sleep(seconds: float) -> None:
        now[0] += 60.0
        if now[0] > 45 * 60:
            directory.write_summary(tmp_path, {"reason": "finished"})

    seen_by.clock(monkeypatch, following, sleep=sleep, monotonic=lambda: now[0])
    table = ScoreTable(tmp_path, print)
    found = following.new_checkpoints(tmp_path, checkpoints, table, period, said.append)
    assert [each.state.counters.updates for each in found] == [10]
    assert [line.partition(", and")[0] for line in said] == [
        f"no new checkpoint for {each} min" for each in range(minutes, 46, minutes)
    ]
    assert said[0].endswith(f"see {tmp_path / 'logs' / 'coordinator.log'}")


def test_a_checkpoint_that_goes_while_it_is_looked_at_does_not_end_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkpoints").mkdir()
    checkpoints, said = Checkpoints(tmp_path / "checkpoints", keep=1), list[str]()
    save(checkpoints, 10)
    newest, looks = checkpoints.newest, iter(range(100))

    directory.write_summary(tmp_path, {"reason": "finished"})  # and it is the last one

    def gone_at_first() -> Checkpoint | None:
        if next(looks) < 2:
            raise FolderError("checkpoint updates-10.npz cannot be read: Stale file handle")
        return newest()

    monkeypatch.setattr(checkpoints, "newest", gone_at_first)
    seen_by.clock(monkeypatch, following, sleep=lambda seconds: None)
    table = ScoreTable(tmp_path, print)
    found = following.new_checkpoints(tmp_path, checkpoints, table, 60.0, said.append)
    assert [each.state.counters.updates for each in found] == [10]
    assert said == [
        "checkpoint updates-10.npz cannot be read: Stale file handle: it is tried again"
    ]
