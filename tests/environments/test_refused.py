"""An environment that cannot be used is refused in one line that says where it failed, and why."""

import json
import math
import re
from typing import Any

import pytest

from ps_dqn.config import Environment
from ps_dqn.environments import describe_and_look
from ps_dqn.errors import UsageError

# Gymnasium warns of what is refused here.
pytestmark = pytest.mark.filterwarnings("ignore:.*WARN:UserWarning")

MISBEHAVING = "support.misbehaving_env:Misbehaving"


def refused(env_id: str = MISBEHAVING, **kwargs: Any) -> str:
    """The line that says why a first look at it is refused."""
    config = Environment(env_id=env_id, env_kwargs=json.dumps(kwargs))
    with pytest.raises(UsageError) as caught:
        describe_and_look(config, is_strict=True)
    line = str(caught.value)
    assert line.startswith(f"--env_id={env_id}: ")
    return line


def test_a_step_that_raises_is_said_with_its_place() -> None:
    assert re.search(
        r"first steps fail \(ValueError: action \d is one too many, at \S+\.py:\d+ in step\)",
        refused(how="raises", at=2),
    )


def test_a_reset_that_raises_is_said_with_its_place() -> None:
    assert re.search(r"it will not begin, at \S+\.py:\d+ in reset\)", refused(resets=1))


def test_a_constructor_that_raises_is_said_with_its_place() -> None:
    line = refused(env_id="support.locks_env:Locks", nothing=1)
    assert "cannot be made (TypeError: " in line
    assert " at " not in line.partition("(TypeError: ")[2].partition(")")[0], "it was not entered"


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("nan observation", "their observations are not finite in float32"),
        ("infinite reward", "their rewards are not finite in float32"),
        ("huge reward", "their rewards are not finite in float32"),
    ],
)
def test_an_environment_none_of_whose_steps_can_be_learned_from(how: str, why: str) -> None:
    line = refused(how=how, at=1, goes_on=True)
    assert line.endswith(f": nothing can be learned from any of its first steps (10), as {why}")


@pytest.mark.parametrize("how", ["nan observation", "infinite reward"])
def test_one_step_that_can_be_learned_from_is_enough(how: str) -> None:
    config = Environment(
        env_id=MISBEHAVING, env_kwargs=json.dumps({"how": how, "at": 2, "goes_on": True})
    )
    _, looks = describe_and_look(config, is_strict=True)
    assert len(looks.rewards) == 10


def test_episodes_of_one_step_do_not_hide_that_none_can_be_learned_from() -> None:
    """Between two of them the vector says a step that is a reset, whose numbers are finite."""
    line = refused(how="nan observation", at=1, goes_on=True, length=1)
    assert line.endswith("of its first steps (5), as their observations are not finite in float32")


def test_an_environment_that_begins_with_what_is_not_finite() -> None:
    line = refused(offset=math.nan)
    assert line.endswith("its first observation is not finite in float32")


def test_what_leaves_the_program_is_an_error_like_others() -> None:
    assert re.search(
        r"cannot be made \(SystemExit: 3, at \S+misbehaving_env\.py:\d+ in __init__\)",
        refused(how="leaves at once"),
    )
    assert re.search(
        r"first steps fail \(SystemExit: 3, at \S+misbehaving_env\.py:\d+ in step\)",
        refused(how="leaves", at=3),
    )


def test_a_module_that_leaves_the_program_cannot_be_imported() -> None:
    line = refused(env_id="support.leaving_module:Env")
    assert re.search(
        r"cannot be imported \(SystemExit: 3, at \S+leaving_module\.py:\d+ in <module>\)", line
    )
