"""Masks that are none of an environment's actions: refused before a run, and a failure in it."""

import json
import pathlib
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ps_dqn import reproduce
from ps_dqn.config import Environment
from ps_dqn.environments import Environments, describe_and_look, guard
from ps_dqn.errors import UsageError

SPACE, ACTIONS = gymnasium.spaces.Box(-1, 1, (1,), np.float32), gymnasium.spaces.Discrete(3)
MISTAKEN: dict[str, Any] = {
    "short": np.ones(2, np.bool_),
    "list": [True, False],
    "of several lengths": [[True], [True, False, True]],
    "dict": {"a": 1},
    "none": None,
}
WANTED = "must have one truth value for each of its 3 actions: mend them, or say --action_masks=off"


class Masked(gymnasium.Env):
    """Says masks, which are mistaken in one step of its life, `at`; 0: in reset."""

    observation_space, action_space = SPACE, ACTIONS

    def __init__(self, how: str = "", at: int = 50, in_reset: bool = True):
        self._how, self._at, self._in_reset, self._steps = how, at, in_reset, 0

    def _info(self) -> dict[str, Any]:
        is_now = self._how and self._steps == self._at
        return {"action_mask": MISTAKEN[self._how] if is_now else np.array([1, 0, 1], np.int8)}

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        return np.zeros(1, np.float32), self._info() if self._in_reset else {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._steps += 1
        return np.zeros(1, np.float32), 1.0, False, False, self._info()


class MaskedVector(VectorEnv):
    """The same in a form of its own, with nothing around each environment."""

    def __init__(self, num_envs: int, **kwargs: Any):
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = SPACE, ACTIONS
        self.observation_space = batch_space(SPACE, num_envs)
        self.action_space = batch_space(ACTIONS, num_envs)
        self._env = Masked(**kwargs)

    def _infos(self, info: dict[str, Any]) -> dict[str, Any]:
        return {key: np.stack([np.asarray(said)] * self.num_envs) for key, said in info.items()}

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        _, info = self._env.reset()
        return np.zeros((self.num_envs, 1), np.float32), self._infos(info)

    def step(self, actions: np.ndarray) -> tuple[Any, Any, Any, Any, dict]:
        *_, info = self._env.step(0)
        never = np.zeros(self.num_envs, np.bool_)
        observations = np.zeros((self.num_envs, 1), np.float32)
        return observations, np.ones(self.num_envs), never, never, self._infos(info)


gymnasium.register("TestMistakenMasks/Masked-v0", Masked, disable_env_checker=True)
gymnasium.register("TestMistakenMasks/Vector-v0", vector_entry_point=MaskedVector)


def options(env_id: str = "Masked-v0", action_masks: str = "auto", **kwargs: Any) -> Environment:
    env_id = f"TestMistakenMasks/{env_id}"
    return Environment(env_id=env_id, env_kwargs=json.dumps(kwargs), action_masks=action_masks)


def failures(envs: Environments, steps: int = 60) -> list[int]:
    """The steps in which environments failed."""
    envs.reset(0)
    found = [i for i in range(steps) if envs.step(np.zeros(2, np.int64)).failed_envs.size]
    envs.close()
    return found


@pytest.mark.parametrize("how", MISTAKEN)
def test_a_mistaken_mask_is_a_failure_of_its_environment(how: str, tmp_path: pathlib.Path) -> None:
    envs = Environments(options(how=how), 2, str(tmp_path))
    assert failures(envs) == [49]
    assert {kind: count for kind, count in envs.failures.items() if count} == {"malformed": 2}


@pytest.mark.parametrize("how", ["short", "dict"])
def test_a_vector_with_a_mistaken_mask_is_made_anew(how: str) -> None:
    envs = Environments(options("Vector-v0", how=how), 2)
    assert failures(envs) == [49]
    assert {kind: count for kind, count in envs.failures.items() if count} == {"malformed": 1}


@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize("how", MISTAKEN)
@pytest.mark.parametrize("env_id", ["Masked-v0", "Vector-v0"])
def test_the_first_look_says_which_masks_are_wanted(env_id: str, how: str, at: int) -> None:
    if env_id == "Vector-v0" and how == "of several lengths":
        pytest.skip("no array of a vector can have it")
    with pytest.raises(UsageError, match=f"its action masks are .*, and {WANTED}"):
        describe_and_look(options(env_id, how=how, at=at), is_strict=True)


@pytest.mark.parametrize("action_masks", ["auto", "on"])
@pytest.mark.parametrize("env_id", ["Masked-v0", "Vector-v0"])
def test_masks_of_steps_alone_are_refused(env_id: str, action_masks: str) -> None:
    with pytest.raises(UsageError, match="says so in step, but not in reset: let reset say so too"):
        describe_and_look(options(env_id, action_masks, in_reset=False), is_strict=True)


@pytest.mark.parametrize("how", MISTAKEN)
def test_masks_that_are_not_read_may_be_anything(how: str) -> None:
    off = options(action_masks="off", how=how, at=3)
    assert not describe_and_look(off, is_strict=True)[0].has_masks
    describe_and_look(options(action_masks="off", in_reset=False), is_strict=True)


def test_a_mistaken_mask_can_be_made_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(guard, "_written", 0)
    failures(Environments(options(how="short"), 2, str(tmp_path)))
    assert reproduce.main(["reproduce", str(next(tmp_path.iterdir()))]) == 0
    assert "it failed again, after 50 steps: its action masks are" in capsys.readouterr().out
