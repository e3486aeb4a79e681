"""An environment that a network of another one does not fit is refused with what both have."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from ps_dqn.config import Environment
from ps_dqn.environments import EnvironmentSpec, alike
from ps_dqn.environments.parts import Part
from ps_dqn.errors import UsageError

TRAINING = EnvironmentSpec((3,), np.dtype(np.float32), 4, None)
PARTS = (Part("a", (2,), np.dtype(np.float32)), Part("b", (), np.dtype(np.int32), (5,)))
OF_PARTS = EnvironmentSpec((12,), np.dtype(np.uint8), 4, None, parts=PARTS)


def other_part(**values: Any) -> tuple[Part, Part]:
    return dataclasses.replace(PARTS[0], **values), PARTS[1]


@pytest.mark.parametrize(
    ("training", "values", "said"),
    [
        (TRAINING, {"observation_shape": (5,)}, "observations are 5, 4 actions, and 3 and 4 act"),
        (TRAINING, {"num_actions": 2}, "observations are 3, 2 actions, and 3 and 4 actions in"),
        (TRAINING, {"branches": (2, 2)}, "4 actions (2×2), whose parts are chosen one by one"),
        (
            TRAINING,
            {"observation_dtype": np.dtype(np.uint8)},
            "observations 3 are uint8, and float32 in training: they must be alike",
        ),
        (TRAINING, {"has_masks": True}, "which actions it allows, but not in both"),
        (OF_PARTS, {"parts": other_part(name="c")}, "observations are c 2, b one of 5, 4 actions"),
        (
            OF_PARTS,
            {"parts": other_part(dtype=np.dtype(np.bool_))},
            "observations a 2, b one of 5 are bool, int32, and float32, int32 in training",
        ),
    ],
)
def test_what_a_network_does_not_fit_is_refused(
    training: EnvironmentSpec, values: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        alike.check("--flag=1", dataclasses.replace(training, **values), training)
    assert str(caught.value).startswith("--flag=1: ")
    assert said in str(caught.value)


@pytest.mark.parametrize("training", [TRAINING, OF_PARTS])
def test_what_no_network_sees_may_change(training: EnvironmentSpec) -> None:
    other = dataclasses.replace(training, reward_threshold=9.0, rounded_from="float64")
    if training.parts:
        other = dataclasses.replace(other, parts=other_part(rounded_from="int64"))
    alike.check("--flag=1", other, training)


def test_it_is_said_how_the_environment_was_made() -> None:
    larger = dataclasses.replace(TRAINING, observation_shape=(5,))
    for kwargs, said in (("{}", "--env_id=a: obs"), ('{"n": 5}', '--env_id=a, made with {"n": 5}')):
        with pytest.raises(UsageError) as caught:
            alike.check_again(Environment(env_id="a", env_kwargs=kwargs), larger, TRAINING)
        assert str(caught.value).startswith(said)


def test_masks_that_are_not_wanted_may_be_missing() -> None:
    masked = dataclasses.replace(TRAINING, has_masks=True)
    alike.check_again(Environment(action_masks="off"), TRAINING, masked)
    with pytest.raises(UsageError, match="say --action_masks=off"):
        alike.check_again(Environment(), TRAINING, masked)
