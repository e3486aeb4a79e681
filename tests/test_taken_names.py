"""A user's folder may hold files with the names of this project's folders."""

import pathlib
import subprocess
import sys

import pytest
from support.programs import ROOT, run_python

from ps_dqn import commands

NAMES = ("flags", "cluster", "k8s")
COMMANDS = sorted(each.module.removeprefix("ps_dqn.") for each in commands.PROGRAMS)
MINE = """
import cluster, flags, k8s, tests
import gymnasium
import numpy as np


class Mine(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (flags.SIZE,))
    action_space = gymnasium.spaces.Discrete(cluster.ACTIONS)

    def reset(self, *, seed=None, options=None):
        return np.zeros(flags.SIZE, np.float32), {}

    def step(self, action):
        return np.zeros(flags.SIZE, np.float32), 1.0, True, False, {}


gymnasium.register("Mine-v0", Mine)
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with modules and packages of the names."""
    (tmp_path / "flags.py").write_text("SIZE = 3\n")
    for package in ("cluster", "k8s", "tests"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("ACTIONS = 2\n")
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_starts_beside_files_of_the_same_names(
    folder: pathlib.Path, command: str
) -> None:
    # As users start it: what is imported comes from the folder they are in first.
    ran = subprocess.run(
        [sys.executable, "-m", f"ps_dqn.{command}", "--help"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert f"ps_dqn.{command}" in ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "roles",
    [
        ["--num_workers=1"],
        # Each task by a Python of its own, which imports all that it needs.
        ["--preset=ape_x", "--start_method=spawn"],
        ["--preset=seed", "--start_method=spawn"],
    ],
    ids=["a worker", "Ape-X", "SEED"],
)
def test_an_environment_imports_its_own_files_of_the_same_names(
    folder: pathlib.Path, roles: list[str]
) -> None:
    ran = run_python(
        [
            *("-m", "ps_dqn.coordinator", "--env_module=mine", "--env_id=Mine-v0", *roles),
            *("--run_dir=run", "--total_env_steps=256", "--eval_period=128"),
            *("--min_replay_size=64", "--local_updates=2", "--eval_episodes=1"),
        ],
        folder,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "observations 3, 2 actions" in ran.stdout
    ran = run_python(["-m", "ps_dqn.evaluator", "run", "--episodes=1"], folder)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_installed_under_a_name_of_the_top(name: str) -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert 'include = ["ps_dqn*"]' in project
    assert (ROOT / "ps_dqn" / name).resolve() == ROOT / name
