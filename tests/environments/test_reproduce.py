"""A failure is written down so that it can be made again."""

import json
import pathlib
import subprocess

import numpy as np
import pytest
from support.misbehaving_env import Misbehaving
from support.programs import run_python

from ps_dqn.config import Environment
from ps_dqn.environments import Environments, guard


@pytest.fixture
def written(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A failure in the third episode, of an environment that fails after 27 steps."""
    monkeypatch.setattr(guard, "_written", 0)
    envs = Environments(
        Environment(
            env_id="Misbehaving-v0",
            env_module="support.misbehaving_env",
            env_kwargs='{"how": "raises", "at": 27}',
        ),
        1,
        str(tmp_path / "failures"),
    )
    envs.reset(11)
    for i in range(40):
        envs.step(np.array([i % 2]))
    envs.close()
    [path] = (tmp_path / "failures").iterdir()
    return path


def reproduce(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run_python(["-m", "ps_dqn.reproduce", *arguments], pathlib.Path.cwd())


def test_a_failure_is_written_down(written: pathlib.Path) -> None:
    content = json.loads(written.read_text())
    assert content["env_id"] == "Misbehaving-v0"
    assert content["env_kwargs"] == {"how": "raises", "at": 27}
    assert content["seed"] == 11
    assert [len(actions) for actions in content["episodes"]] == [10, 10, 7]
    assert content["kind"] == "raised"
    assert content["error"] == "ValueError: action 0 is one too many"


def test_it_fails_again(written: pathlib.Path) -> None:
    done = reproduce(written)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Misbehaving-v0: raised: ValueError: action 0 is one too many",
        "it failed again, after 27 steps: action 0 is one too many",
    ]
    assert "misbehaving_env.py" in done.stderr  # its traceback


def test_it_does_not_fail_again(written: pathlib.Path) -> None:
    content = json.loads(written.read_text())
    written.write_text(json.dumps(content | {"env_kwargs": {"at": 28}}))
    done = reproduce(written)
    assert done.returncode == 1, done.stderr
    assert "it did not fail in 27 steps" in done.stdout


def test_an_episode_that_does_not_end_is_not_kept(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(guard, "_written", 0)
    recipe = {"env_id": "Misbehaving-v0", "env_kwargs": {"how": "raises", "at": 1}}  # the next
    recipe |= {"env_module": "support.misbehaving_env", "env_wrappers": ""}
    env = Misbehaving(how="raises", at=60_000, length=10**9, goes_on=True)
    watched = guard.Guard(env, recipe, str(tmp_path))
    watched.reset(seed=3)
    for _ in range(60_000):
        _, _, _, is_cut_off, _ = watched.step(1)
    assert is_cut_off
    [path] = tmp_path.iterdir()
    assert path.stat().st_size < 1000
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"it cannot be made again: there were more than 50,000 actions since its seed, and they "
        f"are not kept; how it was made is in {path}"
    )
    done = reproduce(path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"error: {path}: it cannot be made again: there were more than 50,000 actions since its "
        f"seed, and they are not kept"
    ]
    watched.reset()
    watched.step(0)
    [_, next_one] = sorted(tmp_path.iterdir())
    assert json.loads(next_one.read_text())["episodes"] == [[0]]


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99},
        {"episodes": [["up"]]},
        {"seed": None},
        {"env_module": "no_such_module"},
        {"env_id": "NoSuch-v0"},
    ],
    ids=str,
)
def test_a_file_that_cannot_be_used(written: pathlib.Path, change: dict) -> None:
    content = json.loads(written.read_text())
    written.write_text(json.dumps(content | change))
    done = reproduce(written)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ")


def test_no_file() -> None:
    done = reproduce("no-such-file.json")
    assert done.returncode == 2
    assert done.stderr.startswith("error: no-such-file.json: cannot be read (FileNotFoundError")
    assert reproduce().returncode == 2
    assert reproduce("--help").returncode == 0
