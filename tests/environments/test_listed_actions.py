"""Actions of several parts, and continuous ones, become a list."""

import dataclasses
import json
import math
import pathlib
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ps_dqn import reproduce
from ps_dqn.config import Config, Environment
from ps_dqn.environments import Environments, describe, guard
from ps_dqn.errors import UsageError


class Echo(gymnasium.Env):
    """Observes what was done last; fails where that is beyond a limit."""

    def __init__(self, actions: str = "grid", limit: float = 100.0):
        self.action_space = {
            "grid": spaces.Box(np.float32([[-1, 0]]), np.float32([[1, 4]])),
            "large": spaces.Box(-1.0, 1.0, (5,), np.float32),
            "huge": spaces.Box(-1.0, 1.0, (84, 84, 3), np.float32),
            "whole": spaces.Box(0, 3, (1,), np.int64),
            "endless": spaces.MultiDiscrete([2**40, 2]),
            "thousands": spaces.MultiBinary(5000),
            "open": spaces.Box(-np.inf, np.inf, (1,), np.float32),
            "parts": spaces.MultiDiscrete([2, 3], start=[0, 5]),
            "many": spaces.MultiDiscrete([50, 50]),
            "bits": spaces.MultiBinary(2),
            "masked": spaces.MultiBinary(2),
            "one": spaces.Discrete(3),
            "scalar": spaces.Box(-1, 1, (), np.float32),
            "none": spaces.Box(-1, 1, (0,), np.float32),
            "nowhere": spaces.MultiDiscrete(np.zeros(0, np.int64)),
            "vast": spaces.Box(-1.7e308, 1.7e308, (1,), np.float64),
        }[actions]
        self._limit, self._is_masked = limit, actions == "masked"
        shape = (1,) if actions in ("whole", "scalar") else (2,)
        self.observation_space = spaces.Box(-100, 100, shape, np.float32)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        info = {"action_mask": np.ones(4, np.bool_)} if self._is_masked else {}
        return np.zeros(self.observation_space.shape, np.float32), info

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert self.action_space.contains(action), action
        if action.max() > self._limit:
            raise ValueError("beyond the limit")
        return np.ravel(action).astype(np.float32), 0.0, False, False, {}


gymnasium.register("TestListed/Echo-v0", Echo, disable_env_checker=True)


def options(actions: str, bins: int = 0, branching: bool = False, **kwargs: Any) -> Environment:
    texts = json.dumps({"actions": actions, **kwargs})
    values = {"env_id": "TestListed/Echo-v0", "env_kwargs": texts, "action_bins": bins}
    values |= {"branching": branching}
    return Config.from_values(values).environment


@pytest.mark.parametrize(("actions", "bins", "expected"), [
    ("grid", 3, [[x, y] for x in (-1, 0, 1) for y in (0, 2, 4)]),
    ("parts", 0, [[x, y] for x in (0, 1) for y in (5, 6, 7)]),
    ("whole", 9, [[0], [1], [2], [3]]),
    ("bits", 0, [[0, 0], [0, 1], [1, 0], [1, 1]]),
    ("scalar", 3, [[-1], [0], [1]]),
])  # fmt: skip
@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_each_action_is_a_combination(
    vectorization: str, actions: str, bins: int, expected: list[list[float]]
) -> None:
    envs = Environments(dataclasses.replace(options(actions, bins), vectorization=vectorization), 2)
    assert envs.num_actions == len(expected)
    envs.reset(seed=0)
    for i, combination in enumerate(expected):
        envs.step(np.array([i, 0]))
        assert envs.observations.tolist() == [combination, expected[0]]
    assert not any(envs.failures.values())
    envs.close()


@pytest.mark.parametrize(("actions", "bins", "said"), [
    ("grid", 0, "say --action_bins=5 .* 1,024 in all at most"),
    ("grid", 1, "say --action_bins=5"),
    ("large", 5, "--action_bins=5: its actions .* make more than 1,024 combinations: say fewer"),
    ("huge", 0, "say --action_bins=5"),
    ("huge", 5, "--action_bins=5: its actions .* make more than 1,024"),
    ("grid", 10**12, "--action_bins=1000000000000: its actions .* make more than 1,024"),
    ("endless", 0, "make more than 1,024"),
    ("thousands", 0, "make more than 1,024"),
    ("open", 5, "--action_bins=5: .* without bounds"),
    ("many", 0, "TestListed/Echo-v0: its actions .* more than 1,024 combinations: say --br"),
    ("none", 5, "TestListed/Echo-v0: its actions .* have no numbers"),
    ("nowhere", 0, "TestListed/Echo-v0: its actions .* have no numbers"),
    ("vast", 5, "--action_bins=5: the actions .* farther apart than a number can say"),
    ("one", 5, "--action_bins=5: has no effect, as the actions .* are Discrete"),
    ("bits", 5, "--action_bins=5: has no effect"),
])  # fmt: skip
def test_what_makes_no_list_is_refused(actions: str, bins: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        describe(options(actions, bins))


@pytest.mark.parametrize(("actions", "bins", "branches"), [
    ("grid", 3, (3, 3)),
    ("parts", 0, (2, 3)),
    ("bits", 0, (2, 2)),
    ("many", 0, (50, 50)),
    ("large", 60, (60,) * 5),
])  # fmt: skip
def test_branches_are_the_choices_of_the_parts(
    actions: str, bins: int, branches: tuple[int, ...]
) -> None:
    spec = describe(options(actions, bins, branching=True))
    assert spec.branches == branches
    assert spec.num_actions == math.prod(branches)
    assert spec.num_outputs == sum(branches)
    assert describe(options("parts")).branches == ()


@pytest.mark.parametrize(("actions", "bins", "said"), [
    ("one", 0, "--branching=true: has no effect, as the actions .* are Discrete"),
    ("endless", 0, "more than 1,024 choices or 2,147,483,647 combinations: wrap"),
    ("thousands", 0, "more than 1,024 choices or 2,147,483,647 combinations"),
    ("large", 80, "--action_bins=80: its actions .* more than 1,024 choices .*: say fewer"),
    ("large", 0, "say --action_bins=5"),
])  # fmt: skip
def test_branches_that_cannot_be_are_refused(actions: str, bins: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        describe(options(actions, bins, branching=True))


def test_masks_of_combinations_do_not_go_with_branches() -> None:
    with pytest.raises(UsageError, match="say --action_masks=off"):
        describe(options("masked", branching=True))
    off = dataclasses.replace(options("masked", branching=True), action_masks="off")
    assert describe(off).branches == (2, 2)


def test_a_failure_is_made_again_with_the_same_list(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard, "_written", 0)  # of the first few of a process
    envs = Environments(options("grid", 3, limit=3.0), 1, str(tmp_path))
    envs.reset(seed=0)
    for action in (0, 4, 5):
        envs.step(np.array([action]))
    envs.close()
    (path,) = tmp_path.glob("env-failure-*.json")
    content = json.loads(path.read_text())
    assert (content["episodes"], content["action_bins"]) == ([[0, 4, 5]], 3)
    assert reproduce.main(["reproduce", str(path)]) == 0
    assert "it failed again, after 3 steps: beyond the limit" in capsys.readouterr().out
