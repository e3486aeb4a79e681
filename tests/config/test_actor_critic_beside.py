"""What does not go with a policy that is learned: each refused with its one line."""

from typing import Any

import pytest
from support.option_values import A3C
from support.refusals import refused

from ps_dqn.config import Config

SMALL = {
    **A3C,
    "num_envs_per_worker": 8,
    "local_updates": 1,
    "update_period": 40,
    "batch_size": 40,
}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"algorithm": "ppo"},
            "--algorithm=ppo: must be one of dqn, a3c",
        ),
        (
            {**SMALL, "replay": "uniform"},
            "--replay=uniform: does not go with --algorithm=a3c; it learns from the steps just "
            "made: say --replay=rollout",
        ),
        (
            {**SMALL, "dueling": True},
            "--dueling=true: does not go with --algorithm=a3c; it has the value of a state: leave "
            "it out",
        ),
        (
            {**SMALL, "epsilon_end": 0.05},
            "--epsilon_start=0 --epsilon_end=0.05: does not go with --algorithm=a3c; the policy "
            "explores by itself: say 0 for both",
        ),
        (
            {**SMALL, "epsilon_ladder": True},
            "--epsilon_ladder=true: does not go with --algorithm=a3c; leave it out",
        ),
        (
            {**SMALL, "overlap": "on"},
            "--overlap=on: does not go with --algorithm=a3c; it would learn from steps of an older "
            "policy as if they were its own: say --v_trace, or leave it out",
        ),
        (
            {**SMALL, "v_trace": True},
            "--v_trace=true: does not go with --algorithm=a3c; every step is of the policy that "
            "learns from it, so it has no effect: say --overlap=on or a larger --local_updates, or "
            "leave it out",
        ),
        (
            {"v_trace": True},
            "--v_trace=true: has no effect without --algorithm=a3c; leave it out (its default is "
            "false)",
        ),
        (
            {**SMALL, "rho_clip": 2.0},
            "--rho_clip=2.0: has no effect without --v_trace=true; leave it out (its default is "
            "1.0)",
        ),
        (
            {**SMALL, "entropy_bonus": -1.0},
            "--entropy_bonus=-1.0: must be 0.0 or more",
        ),
        (
            {**SMALL, "rmsprop_decay": 0.9},
            "--rmsprop_decay=0.9: has no effect without --optimizer=rmsprop or rmsprop_centered; "
            "leave it out (its default is 0.95)",
        ),
    ],
)
def test_what_has_no_sense_beside_a_policy_is_refused(values: dict[str, Any], said: str) -> None:
    assert refused(**values) == said


@pytest.mark.parametrize(
    "values",
    [{}, {"overlap": "on", "v_trace": True}, {"local_updates": 2, "v_trace": True}],
    ids=["as it is", "older steps", "several updates"],
)
def test_the_rest_goes_together(values: dict[str, Any]) -> None:
    sizes = {"update_period": 20, "batch_size": 20} if "local_updates" in values else {}
    assert Config.from_values(SMALL | values | sizes).value.algorithm == "a3c"
