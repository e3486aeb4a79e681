"""Environments by their classes, and wrappers, as the command line names them."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from ps_dqn import reproduce
from ps_dqn.config import Environment
from ps_dqn.environments import Environments, guard, making
from ps_dqn.errors import UsageError

PAYING = "support.paying_env:Paying"
DOUBLED, PLUS_ONE = "support.wrapped:Doubled", "support.wrapped:plus_one"
Open = Callable[..., Environments]

gymnasium.register("TestNamedPaying", PAYING, disable_env_checker=True)


def rewards(environments: Environments, action: int) -> list[float]:
    return environments.step(np.full(environments.num_envs, action)).rewards.tolist()


@pytest.mark.parametrize("vectorization", ["auto", "async"])
def test_an_environment_is_named_by_its_class(opened: Open, vectorization: str) -> None:
    config = Environment(env_id=PAYING, vectorization=vectorization)
    assert rewards(opened(config, 2), 2) == [2, 2]


@pytest.mark.parametrize("place", ["./support/paying_env.py", "paying_env.py", "/a/paying_env"])
def test_a_files_name_is_no_modules(place: str) -> None:
    with pytest.raises(UsageError) as caught:
        making.describe(Environment(env_id=f"{place}:Paying"))
    assert str(caught.value) == (
        f"--env_id={place}:Paying: {place} is the name of a file: say that of its module, "
        f"paying_env, without folders and .py, and run from its folder or put that on PYTHONPATH"
    )


def test_a_time_limit_is_a_keyword_argument(opened: Open) -> None:
    environments = opened(Environment(env_id=PAYING, env_kwargs='{"max_episode_steps": 2}'), 1)
    steps = [environments.step(np.zeros(1, np.int64)) for _ in range(2)]
    assert [bool(step.truncated[0]) for step in steps] == [False, True]


def test_what_is_no_attribute_of_the_module_is_an_id_that_it_registers(opened: Open) -> None:
    config = Environment(env_id="ps_dqn.minatar_games:MinAtar/Breakout-v1")
    assert opened(config, 1).num_actions == 3


def test_an_id_that_a_module_registers_may_look_like_a_name(opened: Open) -> None:
    config = Environment(env_id="support.paying_env:TestNamedPaying")
    assert rewards(opened(config, 2), 2) == [2, 2]


@pytest.mark.parametrize(
    ("wrappers", "reward"),
    [(DOUBLED, 4), (f"{DOUBLED},{PLUS_ONE}", 5), (f"{PLUS_ONE}, {DOUBLED}", 6)],
)
def test_wrappers_are_put_around_it_the_first_innermost(
    opened: Open, wrappers: str, reward: float
) -> None:
    config = Environment(env_id=PAYING, env_wrappers=wrappers)
    assert rewards(opened(config, 2), 2) == [reward] * 2


def test_an_own_vector_form_gives_way_to_wrappers(opened: Open) -> None:
    assert rewards(opened(Environment(env_wrappers=DOUBLED), 2), 1) == [2, 2]
    assert rewards(opened(Environment(), 2), 1) == [1, 1]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"env_id": "no.such:Env"}, "--env_id=no.such:Env: cannot be imported"),
        (
            {"env_id": "support.paying_env:Payign"},
            "--env_id=support.paying_env:Payign: module support.paying_env has no environment "
            "Payign; it has Paying",
        ),
        (
            {"env_id": "support.wrapped:Nobody"},
            "--env_id=support.wrapped:Nobody: module support.wrapped has no environment Nobody; "
            "it has none",
        ),
        ({"env_id": "support.wrapped:NOTHING"}, "has no environment NOTHING; it has none"),
        (
            {"env_id": "support.paying_env:Paying:x"},
            "--env_id=support.paying_env:Paying:x: must be package.module:EnvClass, with one colon",
        ),
        ({"env_wrappers": "support.wrapped"}, "support.wrapped must be package.module:Wrapper"),
        ({"env_wrappers": "no.such:Wrapper"}, "--env_wrappers=no.such:Wrapper: cannot be imported"),
        ({"env_wrappers": "support.wrapped:NOTHING"}, "has no NOTHING that can be called"),
        ({"env_wrappers": "support.wrapped:Nobody"}, "has no Nobody that can be called"),
    ],
)
def test_what_cannot_be_used_is_said(values: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        making.describe(Environment(**values))
    assert says in str(caught.value)


WRAPPED = f"{DOUBLED},json:dumps"


@pytest.mark.parametrize(
    ("wrappers", "vectorization", "says"),
    [
        (
            WRAPPED,
            "auto",
            f"--env_wrappers={WRAPPED}: json:dumps fails around the environment (TypeError: Object "
            f"of type Doubled is not JSON serializable)",
        ),
        (
            f"{DOUBLED},builtins:repr",
            "async",
            f"--env_wrappers={DOUBLED},builtins:repr: builtins:repr returns a str, and must return "
            f"an environment",
        ),
        (
            "support.wrapped:Leaves",
            "sync",
            "--env_wrappers=support.wrapped:Leaves: support.wrapped:Leaves fails around the "
            "environment (SystemExit: 3, at ",
        ),
    ],
)
def test_a_wrapper_that_fails_is_named(wrappers: str, vectorization: str, says: str) -> None:
    config = Environment(env_wrappers=wrappers, vectorization=vectorization)
    with pytest.raises(UsageError) as caught:
        making.describe(config)
    assert str(caught.value).startswith(says)


def test_arguments_that_nobody_said_are_not_asked_about() -> None:
    with pytest.raises(UsageError, match=r"cannot be made .*and its package installed\?$"):
        making.describe(Environment(env_id="NoSuchEnv-v7"))
    with pytest.raises(UsageError, match=r'\)\. Does it take the arguments \{"a": 1\}\?$'):
        making.describe(Environment(env_kwargs='{"a": 1}'))
    with pytest.raises(UsageError, match=r"installed\? Does it take the arguments"):
        making.describe(Environment(env_id="NoSuchEnv-v7", env_kwargs='{"a": 1}'))


def test_a_failure_of_a_wrapper_is_made_again(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_written", 0)  # others of this process have written some
    config = Environment(env_id=PAYING, env_wrappers=f"{DOUBLED},support.wrapped:Fails")
    environments = Environments(config, 1, str(tmp_path))
    environments.reset(0)
    for action in (0, 1, 2):
        step = environments.step(np.array([action]))
    environments.close()
    assert step.failed_envs.tolist() == [0]
    [file] = tmp_path.iterdir()
    assert json.loads(file.read_text())["env_wrappers"] == config.env_wrappers
    assert reproduce.main(["reproduce", str(file)]) == 0
    assert "it failed again, after 3 steps: no such way" in capsys.readouterr().out
