"""Environments that never return, in the process of whoever waits for them."""

import json
import pathlib
import subprocess
import sys

import pytest
from support import seen_by

from ps_dqn.environments import overdue

TESTS = str(pathlib.Path(__file__).parents[1])
HANGS = """
import sys
import time
from ps_dqn.config import Environment
from ps_dqn.environments import Environments, overdue
from support import hanging_env
import numpy as np


class Clock:
    # Goes while an environment hangs: nothing else is late, however busy the machine is.
    sleep = time.sleep

    def monotonic():
        return time.monotonic() - hanging_env.since[0] if hanging_env.since else 0.0


overdue.PERIOD, overdue.time = 0.1, Clock
overdue.watch()
kwargs, folder, timeout = sys.argv[1:]
environments = Environments(
    Environment(
        env_id="Hanging-v0", env_module="support.hanging_env", vectorization="sync",
        env_kwargs=kwargs, env_timeout=float(timeout),
    ),
    num_envs=2, folder=folder,
)
environments.reset(seed=1)
for _ in range(600):
    environments.step(np.zeros(2, int))
print("returned")
"""


def hang(folder: pathlib.Path, timeout: float, hangs_in: str) -> subprocess.CompletedProcess:
    mark = folder / "mark"
    if hangs_in == "step":
        mark.touch()
    kwargs = json.dumps({"mark": str(mark), "hangs_in": hangs_in})
    command = [sys.executable, "-c", HANGS, kwargs, str(folder), str(timeout)]
    return subprocess.run(command, capture_output=True, text=True, cwd=TESTS, timeout=120)


def test_the_process_ends_and_says_where_it_hangs(tmp_path):
    ended = hang(tmp_path, timeout=1.5, hangs_in="step")
    assert ended.returncode == overdue.EXIT_CODE, ended.stderr
    assert "time.sleep(10_000)" in ended.stderr
    last = ended.stderr.splitlines()[-1]
    assert last == (
        "error: an environment did not return within --env_timeout=1.5 s: this process ends"
    )
    [path] = tmp_path.glob("env-failure-*.json")
    content = json.loads(path.read_text())
    assert content["kind"] == "hung"
    assert sum(map(len, content["episodes"])) > 500


def test_one_that_is_never_made_ends_it_too(tmp_path):
    ended = hang(tmp_path, timeout=1.5, hangs_in="__init__")
    assert ended.returncode == overdue.EXIT_CODE, ended.stderr
    assert "time.sleep(10_000)" in ended.stderr
    assert "did not return within --env_timeout=1.5 s" in ended.stderr.splitlines()[-1]


def test_it_goes_on_where_all_return(tmp_path):
    ended = hang(tmp_path, timeout=60, hangs_in="")
    assert (ended.returncode, ended.stdout) == (0, "returned\n"), ended.stderr


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that a test says."""
    now = [0.0]
    seen_by.clock(monkeypatch, overdue, monotonic=lambda: now[0])
    monkeypatch.setattr(overdue, "_under_way", {})
    return now


def test_each_environment_of_a_vector_has_its_time(clock):
    with overdue.within(10.0):
        for clock[0] in (9.0, 18.0, 27.0):
            assert not overdue._late()
            overdue.goes_on(print)
        clock[0] = 38.0
        [(_, call)] = overdue._late()
        assert call.write_down is print
    assert not overdue._late()


def test_what_is_around_goes_on_when_it_is_back(clock):
    with overdue.within(10.0):
        with overdue.within(5.0):
            clock[0] = 9.0
            assert len(overdue._late()) == 1
        assert not overdue._late()
        clock[0] = 20.0
        assert len(overdue._late()) == 1


def test_an_environment_outside_of_a_vector_is_not_looked_at(clock):
    overdue.goes_on(print)
    clock[0] = 1e9
    assert not overdue._late()
