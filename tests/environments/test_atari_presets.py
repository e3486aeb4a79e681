"""What the presets for Atari say of the game: lives, no-ops and sticky actions."""

import contextlib
import dataclasses
import inspect
import json
import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from support.command_lines import parsed
from support.programs import ROOT

from ps_dqn.config import Environment
from ps_dqn.environments import Environments, making
from ps_dqn.flags import experiment

vector_env = pytest.importorskip("ale_py.vector_env")

FIRE, RIGHT, LEFT = 1, 2, 3
LIVES = 5
PRESETS = pytest.mark.parametrize("preset", ["atari", "atari_fast", "btr"])
SIDES = pytest.mark.parametrize("evaluates", [False, True], ids=["training", "evaluation"])
# What is drawn takes many games: a preset on each side.
MIXES = pytest.mark.parametrize(
    ("preset", "evaluates"),
    [
        ("atari", True),
        ("atari_fast", False),
        pytest.param("btr", True, marks=pytest.mark.thorough),
        pytest.param("btr", False, marks=pytest.mark.slow),
        pytest.param("atari", False, marks=pytest.mark.thorough),
        pytest.param("atari_fast", True, marks=pytest.mark.thorough),
    ],
)


def breakout(preset: str, evaluates: bool, **kwargs: Any) -> Environment:
    """A preset's Breakout, with further keyword arguments."""
    words = [f"--preset={preset}", "--env_id=ALE/Breakout-v5"]
    config = experiment.read(parsed(*words)).environment
    config = config.in_evaluations if evaluates else config
    both = json.loads(config.env_kwargs) | kwargs
    return dataclasses.replace(config, env_kwargs=json.dumps(both))


def ends(config: Environment) -> list[int]:
    """Lives that are left where episodes end, until a game is over; the ball is let fall."""
    found: list[int] = []
    with contextlib.closing(making.make_vector(config, 1)) as vector:
        vector.reset(seed=0)
        for time in range(400):
            action = np.array([FIRE if time % 7 == 0 else LEFT])
            _, _, terminated, truncated, infos = vector.step(action)
            assert not truncated[0]
            if terminated[0]:
                found.append(int(infos["lives"][0]))
            if found[-1:] == [0]:
                return found
    raise AssertionError(f"the game went on after {found}")


@PRESETS
def test_each_life_is_an_episode_of_one_game_in_training(preset: str) -> None:
    assert ends(breakout(preset, evaluates=False)) == list(reversed(range(LIVES)))


@PRESETS
def test_a_game_is_an_episode_in_evaluations(preset: str) -> None:
    assert ends(breakout(preset, evaluates=True)) == [0]


def test_a_lost_life_is_learned_from_as_an_end() -> None:
    environments = Environments(breakout("atari", evaluates=False), 1)
    environments.reset(0)
    step = environments.step(np.array([FIRE]))
    while not step.terminated[0]:
        assert step.is_transition[0]
        step = environments.step(np.array([FIRE]))
    assert step.is_transition[0]
    assert not environments.step(np.array([FIRE])).is_transition[0], "the next life begins"
    assert environments.step(np.array([FIRE])).is_transition[0]
    environments.close()


@MIXES
def test_games_begin_after_up_to_thirty_frames_of_nothing(preset: str, evaluates: bool) -> None:
    with contextlib.closing(making.make_vector(breakout(preset, evaluates), 16)) as vector:
        _, infos = vector.reset(seed=0)
    frames = infos["episode_frame_number"]
    assert 0 < frames.min() < 10
    assert 20 < frames.max() <= 30
    assert len(set(frames.tolist())) > 8


def are_alike(config: Environment) -> bool:
    """Whether the same actions lead to the same images, whatever the seed."""
    rng = np.random.default_rng(0)
    with contextlib.closing(making.make_vector(config, 4)) as vector:
        vector.reset(seed=0)
        for action in (FIRE, *rng.choice([RIGHT, LEFT], 20)):
            observations, *_ = vector.step(np.full(4, action))
            if (observations != observations[:1]).any():
                return False
    return True


@MIXES
def test_actions_are_not_sticky(preset: str, evaluates: bool) -> None:
    assert are_alike(breakout(preset, evaluates, noop_max=0))


@SIDES
def test_actions_are_sticky_where_that_is_said(evaluates: bool) -> None:
    sticky = breakout("atari", evaluates, noop_max=0, repeat_action_probability=0.25)
    assert not are_alike(sticky)


def test_the_page_on_atari_has_the_defaults_and_what_the_presets_say() -> None:
    rows = re.findall(
        r"^\| (`\w+`(?:, `\w+`)*) \|.*\| (.+) \| (.+) \|$",
        (ROOT / "docs" / "atari.md").read_text(),
        re.MULTILINE,
    )
    parameters = inspect.signature(vector_env.AtariVectorEnv).parameters
    spec = gymnasium.spec("ALE/Pong-v5")  # its arguments go before the constructor's defaults
    documented = {}
    for names, defaults, presets in rows:
        for name, default in zip(re.findall(r"\w+", names), defaults.split(", "), strict=True):
            actual = spec.kwargs.get(name, parameters[name].default)
            assert json.loads(default.replace(",", "")) == actual, name
            documented[name] = presets
    assert len(documented) == 14
    said = {name: text for name, text in documented.items() if re.match(r"\d|true", text)}
    training = {name: json.loads(text) for name, text in said.items()}
    assert json.loads(breakout("atari", evaluates=False).env_kwargs) == training
    evaluation = json.loads(breakout("atari", evaluates=True).env_kwargs)
    assert evaluation == {**training, "life_loss_info": False}
