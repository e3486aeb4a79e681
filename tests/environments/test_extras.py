"""Packages of extras: imported where an environment's id asks for them, and named where missing."""

import dataclasses
import sys

import gymnasium
import pytest

from ps_dqn.config import Environment
from ps_dqn.environments import making
from ps_dqn.errors import UsageError


def refused(config: Environment) -> str:
    with pytest.raises(UsageError) as caught:
        making.describe(config)
    return str(caught.value)


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch):
    """Makes a package one that is not installed, and its environments unknown."""

    def lack(package: str, namespace: str) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.delitem(sys.modules, "ps_dqn.minatar_games", raising=False)
        monkeypatch.setitem(sys.modules, package, None)
        for name in [name for name in gymnasium.registry if name.startswith(namespace)]:
            monkeypatch.delitem(gymnasium.registry, name)

    return lack


@pytest.mark.parametrize(
    ("package", "env_id", "says"),
    [
        ("ale_py", "ALE/Pong-v5", 'ale-py, which is not installed: pip install "ps-dqn[atari]"'),
        (
            "minatar",
            "MinAtar/Breakout-v0",
            'minatar, which is not installed: pip install "ps-dqn[minatar]"',
        ),
    ],
)
def test_a_missing_package_says_which_extra_has_it(
    lacking, package: str, env_id: str, says: str
) -> None:
    lacking(package, env_id.partition("/")[0])
    assert refused(Environment(env_id=env_id)) == f"--env_id={env_id}: needs {says}"


def test_a_module_that_is_named_says_it_too(lacking) -> None:
    lacking("ale_py", "ALE/")
    config = Environment(env_id="ALE/Pong-v5", env_module="ale_py")
    assert refused(config) == (
        '--env_module=ale_py: needs ale-py, which is not installed: pip install "ps-dqn[atari]"'
    )


def test_missing_box2d(lacking, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking("Box2D", "-")
    for name in [name for name in sys.modules if name.startswith("gymnasium.envs.box2d")]:
        monkeypatch.delitem(sys.modules, name)
    assert refused(Environment(env_id="LunarLander-v3")) == (
        '--env_id=LunarLander-v3: needs Box2D, which is not installed: pip install "ps-dqn[box2d]"'
    )


@pytest.mark.parametrize(
    ("package", "env_id"), [("ale_py", "ALE/Pong-v5"), ("minatar", "MinAtar/Asterix-v1")]
)
def test_games_are_known_by_their_names(
    monkeypatch: pytest.MonkeyPatch, package: str, env_id: str
) -> None:
    pytest.importorskip(package)
    config = Environment(env_id=env_id)
    spec = making.describe(config)
    assert spec.num_actions > 1
    assert making.describe(dataclasses.replace(config, frame_stack=2)).observation_shape[0] == 2


def test_a_game_that_there_is_not() -> None:
    pytest.importorskip("ale_py")
    assert refused(Environment(env_id="ALE/Nothing-v5")).startswith(
        "--env_id=ALE/Nothing-v5: cannot be made"
    )
