"""Runs whose environments fail: they learn from the rest, or end with a word."""

import json
import os
import pathlib
import signal

import pytest
from support import processes as real
from support.processes import Processes, Running
from support.tiers import tiered

TESTS = pathlib.Path(__file__).parents[1]


def start(processes: Processes, folder: pathlib.Path, kwargs: dict, *flags: str) -> Running:
    return processes.start(
        *("-m", "ps_dqn.coordinator", f"--run_dir={folder}", f"--env_kwargs={json.dumps(kwargs)}"),
        *("--env_module=support.misbehaving_env", "--env_id=Misbehaving-v0"),
        *("--eval_period=100000", "--eval_episodes=2", "--log_interval=0.5", "--jit_compile=none"),
        *("--hidden_sizes=16,16", "--target_return=inf", *flags),
        PYTHONPATH=str(TESTS),
    )


@pytest.mark.parametrize(
    "how", tiered(["nan observation", "infinite reward", "raises"], slow=("raises",))
)
def test_a_run_goes_on_without_the_steps_that_fail(
    processes: Processes, tmp_path: pathlib.Path, how: str
) -> None:
    # Of each environment one step in a thousand, so 20 in all.
    running = start(
        processes,
        tmp_path,
        {"how": how, "at": 300},
        *("--total_env_steps=20000", "--num_workers=2", "--num_envs=32"),
    )
    code, said = running.ended(600), running.count("no such step is learned from")
    assert (code, min(said, 2)) == (0, 2), f"exit code {code}, said {said} times:\n{running.text}"
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["reason"] == "finished"
    assert summary["env_steps"] >= 20_000
    # As many updates as without failures: none is withheld.
    assert summary["updates"] >= 2 * 0.8 * 19_000 / 8
    workers = summary["workers"].values()
    assert sum(worker["pushes_withheld"] for worker in workers) == 0
    kind = "env_raised" if how == "raises" else "env_not_finite"
    assert sum(worker[kind] for worker in workers) >= 32
    found = list(tmp_path.glob("workers/*/env_failures/env-failure-*.json"))
    assert 2 <= len(found) <= 10
    log = (tmp_path / "logs" / "worker-0.log").read_text()
    assert "python -m ps_dqn.reproduce" in log
    processes.all_gone(10)


@pytest.mark.slow
def test_too_many_failures_end_the_run_with_a_checkpoint(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    running = start(processes, tmp_path, {"how": "raises", "at": 15}, "--max_env_failures=50")
    assert running.ended(600) == 1, running.text
    [error] = [line for line in running.lines if line.startswith("error: ")]
    assert "more often than --max_env_failures=50 in 1,000 allows" in error
    assert list(tmp_path.glob("checkpoints/updates-*.npz"))
    assert "Traceback" not in running.text
    processes.all_gone(10)


@pytest.mark.slow
def test_an_environment_that_hangs_in_a_process_of_its_own_is_replaced(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    running = start(
        processes,
        tmp_path,
        {"how": "hangs", "at": 600},
        *("--vectorization=async", "--env_timeout=10", "--num_envs_per_worker=2"),
        *("--num_workers=1", "--total_env_steps=1000000", "--min_replay_size=100"),
        *("--replay_capacity=1000", "--overlap=off", "--local_updates=8"),
    )
    running.line_with("did not answer within --env_timeout", 120)
    heard = running.count("updates/s")
    real.until(lambda: running.count("updates/s") > heard + 3, 180, "training")
    os.kill(running.pid, signal.SIGINT)
    assert running.ended() == 128 + signal.SIGINT, running.text
    processes.all_gone(10)
