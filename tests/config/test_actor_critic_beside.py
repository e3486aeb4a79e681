"""What does not go with a policy that is learned: each refused with its one line."""

from typing import Any

import pytest
from support.refusals import refused

from ps_dqn.config import Config

A3C = {
    "algorithm": "a3c",
    "replay": "rollout",
    "target_update_period": 0,
    "double_dqn": False,
    "n_step": 1,
    "epsilon_start": 0.0,
    "epsilon_end": 0.0,
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
            {**A3C, "replay": "uniform"},
            "--replay=uniform: does not go with --algorithm=a3c; it learns from the steps just "
            "made: say --replay=rollout",
        ),
        (
            {**A3C, "dueling": True},
            "--dueling=true: does not go with --algorithm=a3c; it has the value of a state: leave "
            "it out",
        ),
        (
            {**A3C, "epsilon_end": 0.05},
            "--epsilon_start=0 --epsilon_end=0.05: does not go with --algorithm=a3c; the policy "
            "explores by itself: say 0 for both",
        ),
        (
            {**A3C, "epsilon_ladder": True},
            "--epsilon_ladder=true: does not go with --algorithm=a3c; leave it out",
        ),
        (
            {**A3C, "overlap": "on"},
            "--overlap=on: does not go with --algorithm=a3c; it would learn from steps of an older "
            "policy as if they were its own: say --v_trace, or leave it out",
        ),
        (
            {**A3C, "v_trace": True},
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
            {**A3C, "rho_clip": 2.0},
            "--rho_clip=2.0: has no effect without --v_trace=true; leave it out (its default is "
            "1.0)",
        ),
        (
            {**A3C, "entropy_bonus": -1.0},
            "--entropy_bonus=-1.0: must be 0.0 or more",
        ),
        (
            {**A3C, "rmsprop_decay": 0.9},
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
    assert Config.from_values(A3C | values | sizes).value.algorithm == "a3c"
