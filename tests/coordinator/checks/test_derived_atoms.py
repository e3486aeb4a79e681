"""Atoms whose ends nobody says reach as far as rewards that are known allow."""

import pathlib
from typing import Any

import pytest
from support.command_lines import parsed

from ps_dqn.config import Config
from ps_dqn.coordinator import __main__ as coordinator
from ps_dqn.coordinator.checks import atoms
from ps_dqn.coordinator.process import Command
from ps_dqn.flags import experiment

C51 = {"value_distribution": "c51"}
PLAIN = (-10.0, 10.0)
OTHER = {**C51, "env_id": "Taxi-v4"}


@pytest.mark.parametrize(("values", "ends", "says"), [
    (C51, (0, 100), "c51's atoms reach from --v_min=0 to --v_max=100, as each step of "
                    "CartPole-v1 pays 1 and --gamma=0.99"),
    ({**C51, "value_distribution": "hl_gauss", "env_id": "Acrobot-v1"}, (-100, 0), "pays -1 and"),
    ({**C51, "reward_clip": 0.5, "gamma": 0.98}, (0, 25), "pays 0.5 and --gamma=0.98"),
    # A clip bounds returns, and mostly far beyond what they are: it only narrows the defaults.
    ({**OTHER, "reward_clip": 1.0, "gamma": 0.5}, (-2, 2), "as rewards are within 1 (--reward_"),
    ({**OTHER, "reward_clip": 1.0, "gamma": 0.99}, PLAIN, None),
    # Nothing is known of rewards, or of how many there are, or returns are learned as others.
    (OTHER, PLAIN, None),
    ({**C51, "env_kwargs": '{"sutton_barto_reward": true}'}, PLAIN, None),
    ({**C51, "gamma": 1.0}, PLAIN, None),
    ({**C51, "env_id": "LunarLander-v3"}, PLAIN, None),
    ({"value_distribution": "hl_gauss", "normalize_returns": "on"}, PLAIN, None),
    ({"value_distribution": "hl_gauss", "munchausen": True, "double_dqn": False}, PLAIN, None),
    ({}, PLAIN, None),
])  # fmt: skip
def test_ends_follow_from_rewards_that_are_known(
    values: dict[str, Any], ends: tuple[float, float], says: str | None
) -> None:
    found, told = atoms.derived(Config.from_values(values))
    assert (found.value.v_min, found.value.v_max) == ends
    assert len(told) == (says is not None)
    assert says is None or says in told[0]
    if ends != PLAIN:
        assert atoms.notes(found) == []


@pytest.mark.parametrize("problem", ["cartpole", "acrobot", "mountaincar"])
def test_presets_say_what_would_be_derived(problem: str) -> None:
    said = experiment.read(parsed(f"--preset=rainbow,{problem}"))
    assert atoms.derived(said)[0] == said


@pytest.mark.parametrize(("words", "ends", "is_told"), [
    ([], (0, 100), True),
    (["--v_max=10"], PLAIN, False),
    (["--v_min=-10"], PLAIN, False),
    (["--preset=rainbow"], (0, 50), False),
])  # fmt: skip
def test_what_is_said_is_left_alone_and_the_run_keeps_what_it_has(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
    words: list[str],
    ends: tuple[float, float],
    is_told: bool,
) -> None:
    started: list[Command] = []
    monkeypatch.setattr(
        "ps_dqn.coordinator.start.start", lambda command: started.append(command) or 0
    )
    said = ["--value_distribution=c51", f"--run_dir={tmp_path}", *words]
    assert coordinator.main(["train", *said]) == 0
    [command] = started
    value = command.config.value
    assert (value.v_min, value.v_max) == ends
    assert len(command.told) == is_told
    kept = parsed(*(line for line in command.flagfile.splitlines() if not line.startswith("#")))
    assert experiment.read(kept).value == value
    assert not atoms.open_ends(kept)
