"""What is settled before a run: whether steps overlap, and what evaluations are made in."""

import json
import math
import pathlib
import re
import time
from typing import Any

import gymnasium
import numpy as np
import pytest
from support import programs

from ps_dqn.config import Config
from ps_dqn.coordinator.checks import first_look, normalizing, settled
from ps_dqn.environments.first_steps import Looks
from ps_dqn.errors import UsageError
from ps_dqn.worker.playing.actor import Evaluation


class Waiting(gymnasium.Env):
    """Waits in each step; `size` numbers are seen, which are 0 at first."""

    def __init__(
        self,
        wait: float = 0.0,
        size: int = 2,
        fails: bool = False,
        shows: float = 0.0,
        pays: float = 1.0,
        begins: bool = True,
        moves: bool = True,
    ):
        self.observation_space = gymnasium.spaces.Box(-1e6, 1e6, (size,), np.float32)
        self._shows, self._pays = shows, pays
        one = gymnasium.spaces.Box(0, 1, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2) if moves else one
        self._wait, self._size, self._fails = wait, size, fails
        self._begins = begins

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        if not self._begins:
            raise ValueError("not today")
        return np.zeros(self._size, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        time.sleep(self._wait)
        if self._fails:
            raise ValueError("the simulator\nis gone")
        return np.full(self._size, self._shows, np.float32), self._pays, False, False, {}


gymnasium.register("TestFirstLook/Waiting-v0", Waiting, disable_env_checker=True)


OFFLINE = {"demonstrations": "shown.npz", "offline": True}


def overlap(**values: Any) -> str:
    config = Config.from_values({"env_id": "TestFirstLook/Waiting-v0", **values})
    return first_look.at_environment(config)[0].parameter_server.overlap


def test_slow_environments_are_stepped_while_workers_learn() -> None:
    assert overlap(env_kwargs='{"wait": 0.002}') == "on"
    assert overlap() == "off"


@pytest.mark.parametrize(
    ("kwargs", "values", "settled"),
    [
        ({"shows": 50.0}, {}, ("on", "off")),
        ({"shows": -50.0}, {}, ("on", "off")),
        ({"shows": 5.0, "pays": 5.0}, {}, ("off", "off")),
        ({"pays": -200.0}, {}, ("off", "on")),
        ({"shows": 50.0, "pays": 50.0}, {}, ("on", "on")),
        ({"shows": 50.0, "pays": 50.0}, {"reward_clip": 1.0}, ("on", "off")),
        ({"shows": 50.0}, {"normalize_observations": "off"}, ("off", "off")),
        ({}, {"normalize_observations": "on", "normalize_returns": "on"}, ("on", "on")),
        # What would change means, or never sees any.
        ({"shows": 50.0, "pays": 50.0}, {"optimizer": "adamw"}, ("off", "off")),
        ({"shows": 50.0, "pays": 50.0}, {"pull_wire_dtype": "bfloat16"}, ("off", "off")),
        ({"shows": 50.0, "pays": 50.0}, OFFLINE, ("off", "off")),
        # What says by itself what size values have.
        ({"pays": 50.0}, {"value_distribution": "c51"}, ("off", "off")),
        ({"pays": 50.0}, {"value_distribution": "hl_gauss"}, ("off", "off")),
        ({"pays": 50.0}, {"value_rescaling": True}, ("off", "off")),
    ],
    ids=str,
)
def test_what_is_large_is_normalized(
    kwargs: dict[str, float], values: dict[str, Any], settled: tuple[str, str]
) -> None:
    options = {"env_id": "TestFirstLook/Waiting-v0", "env_kwargs": json.dumps(kwargs)}
    config, _ = first_look.at_environment(Config.from_values({**options, **values}))
    assert (config.network.normalize_observations, config.value.normalize_returns) == settled


def test_first_steps_that_fail_are_refused_only_where_they_decide_on_overlap() -> None:
    options = {"env_id": "TestFirstLook/Waiting-v0", "env_kwargs": '{"fails": true}'}
    config, _ = first_look.at_environment(Config.from_values({**options, "overlap": "off"}))
    assert config.network.normalize_observations == config.value.normalize_returns == "off"


def test_what_is_no_number_is_not_large() -> None:
    for rewards in ([math.inf, 1.0], [math.nan, 1.0], [math.nan], []):
        found = normalizing.settle(Config(), Looks(0.001, 0.0, rewards))
        assert found.value.normalize_returns == "off"


def test_the_flagfile_has_what_was_settled() -> None:
    """Evaluators and exports build their network by it; another coordinator finds it settled."""
    values = {"normalize_observations": "on", "normalize_returns": "off", "overlap": "on"}
    config = Config.from_values(values)
    said = "".join(f"--{name}=auto\n" for name in values) + "--num_envs=8\n"
    flagfile, told = settled.flagfile(config, said)
    assert flagfile == "".join(f"--{name}={each}\n" for name, each in values.items()) + (
        "--num_envs=8\n"
    )
    assert told == [
        "numbers of the environment are large, and are normalized (--normalize_observations=on)"
    ]
    assert settled.flagfile(config, flagfile) == (flagfile, [])  # which people said themselves


@pytest.mark.parametrize(
    ("written", "said", "found"),
    [
        ("--overlap=on\n--gamma=0.9\n", "--overlap=auto\n--gamma=0.9\n", "on"),
        ("--overlap=off\n--gamma=0.9\n", "--overlap=auto\n--gamma=0.9\n", "off"),
        ("--overlap=on\n--gamma=0.8\n", "--overlap=auto\n--gamma=0.9\n", "off"),
        ("--overlap=on\n", "--overlap=off\n", "off"),
        ("", "--overlap=auto\n", "off"),
    ],
    ids=["the same run", "found so too", "another run", "said", "none yet"],
)
def test_another_coordinator_goes_on_with_what_was_settled(
    written: str, said: str, found: str, tmp_path: pathlib.Path
) -> None:
    if written:
        (tmp_path / "flags.txt").write_text(written)
    config = Config.from_values({"overlap": "off"})  # as this one finds it
    assert settled.as_before(config, said, tmp_path).parameter_server.overlap == found


def test_an_environment_whose_steps_fail_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match=r"first steps fail \(.*the simulator is gone"):
        overlap(env_kwargs='{"fails": true}')


def test_what_is_said_is_done() -> None:
    assert overlap(env_kwargs='{"wait": 0.002}', overlap="off") == "off"
    assert overlap(overlap="on") == "on"


ROLLOUT = {"replay": "rollout", "target_update_period": 0, "n_step": 1, "double_dqn": False}


def test_rollouts_are_learned_from_before_the_next_steps() -> None:
    assert overlap(env_kwargs='{"wait": 0.002}', **ROLLOUT) == "off"
    with pytest.raises(UsageError, match="--overlap=on: does not go with --replay=rollout"):
        Config.from_values({**ROLLOUT, "overlap": "on"})


def evaluated_in(kwargs: str) -> Config:
    return Config.from_values({"env_id": "TestFirstLook/Waiting-v0", "eval_env_kwargs": kwargs})


def test_evaluations_have_keyword_arguments_of_their_own() -> None:
    plain = evaluated_in("").environment
    assert plain.in_evaluations == plain
    config = evaluated_in('{"size": 3}')
    assert config.environment.in_evaluations.env_kwargs == '{"size": 3}'
    evaluation = Evaluation(config, episodes=2)
    assert evaluation.begin(0).observations.shape == (2, 3)
    evaluation.environments.close()


def test_evaluations_in_something_else_are_refused() -> None:
    with pytest.raises(UsageError, match=r'--eval_env_kwargs=\{"size": 3\}: observations'):
        first_look.at_environment(evaluated_in('{"size": 3}'))
    _, same = first_look.at_environment(evaluated_in('{"wait": 0.0}'))
    assert same.observation_shape == (2,)
    for text, words in (("{", "not JSON"), ("[]", "must be a JSON object")):
        with pytest.raises(UsageError, match=f"--eval_env_kwargs=.*{words}"):
            evaluated_in(text)


@pytest.mark.parametrize(
    ("kwargs", "why"),
    [
        ('{"tall": 3}', "cannot be made (TypeError: "),
        ('{"moves": false}', "its actions are Box("),
        ('{"begins": false}', "its first steps fail (ValueError: not today, at "),
    ],
)
def test_what_fails_in_evaluations_alone_is_blamed_on_their_arguments(
    kwargs: str, why: str
) -> None:
    with pytest.raises(UsageError) as caught:
        first_look.at_environment(evaluated_in(kwargs))
    line = str(caught.value)
    assert line.startswith(f"--eval_env_kwargs={kwargs}: in evaluations: {why}")
    assert "--env_" not in line


def test_an_environment_that_never_returns_is_refused_before_there_is_a_run(
    tmp_path: pathlib.Path,
) -> None:
    hangs = json.dumps({"hangs_in": "reset"})
    flags = ["--env_module=support.hanging_env", "--env_id=Hanging-v0", f"--env_kwargs={hangs}"]
    command = ["-m", "ps_dqn.coordinator", *flags, "--env_timeout=6"]
    ended = programs.run_python(command, tmp_path)
    assert ended.returncode == 2
    assert ended.stdout == (
        "Hanging-v0 takes longer than 5 s to be made and for its first steps (--env_timeout=6)\n"
    )
    [line] = ended.stderr.splitlines()
    assert line.startswith("error: --env_id=Hanging-v0: it does not return within --env_timeout=6 ")
    assert re.search(r"and is at \S+hanging_env\.py:\d+ in _hang: ", line)
    assert not list(tmp_path.iterdir())
