"""What does not go with branches of actions, or with demonstrations."""

from typing import Any

import pytest
from support.refusals import refused

from ps_dqn.config import Config


@pytest.mark.parametrize(
    ("beside", "flag"),
    [
        ({"value_distribution": "qr_dqn"}, "--value_distribution=qr_dqn"),
        ({"munchausen": True, "double_dqn": False}, "--munchausen=true"),
        ({"value_rescaling": True}, "--value_rescaling=true"),
        ({"recurrent_size": 16}, "--recurrent_size=16"),
        ({"network": "a.module:network"}, "--network=a.module:network"),
        (
            {"replay": "rollout", "target_update_period": 0, "double_dqn": False, "n_step": 1},
            "--replay=rollout",
        ),
    ],
)
def test_branches_do_not_go_with_values_of_whole_actions(beside: dict[str, Any], flag: str) -> None:
    assert refused(branching=True, **beside) == (
        f"--branching=true: has values of the parts of actions, and {flag} goes by those of whole "
        f"actions; leave one of them out"
    )


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"demonstrations": "shown.npz", "recurrent_size": 16},
            "--demonstrations=shown.npz: has no recurrent states, with which --recurrent_size=16 "
            "begins its sequences; leave one of them out",
        ),
        (
            {"demonstrations": "shown.npz", "offline": True, "normalize_observations": True},
            "--normalize_observations=on: goes by what workers see of their environments, and "
            "with --offline they see none; leave one of them out",
        ),
        (
            {"demonstrations": "shown.npz", "batch_size": 1},
            "--batch_size=1: with --demonstrations, 2 or more: one of them and one of experience "
            "at least",
        ),
        (
            {"demonstrations": "shown.npz", "offline": True, "replay": "recent"},
            "--replay=recent: is for what workers collect, and with --offline they collect "
            "nothing; leave one of them out",
        ),
        (
            {"offline": True},
            "--offline=true: has no effect without --demonstrations; leave it out (its default is "
            "false)",
        ),
        (
            {"demonstrations": "shown.npz", "offline": True, "demonstration_share": 0.5},
            "--demonstration_share=0.5: has no effect without --offline=false; leave it out (its "
            "default is 0.25)",
        ),
    ],
)
def test_demonstrations_that_cannot_be_learned_from(values: dict[str, Any], said: str) -> None:
    assert refused(**values) == said


@pytest.mark.parametrize(
    "beside",
    [{"value_distribution": "qr_dqn"}, {"munchausen": True, "double_dqn": False}],
    ids=["quantiles", "munchausen"],
)
def test_traces_are_of_expected_returns(beside: dict[str, Any]) -> None:
    assert refused(traces="peng", recurrent_size=8, n_step=1, **beside) == (
        "--traces=peng: is for expected returns, so for --value_distribution=none or hl_gauss, "
        "without --munchausen; leave it out"
    )


def test_retrace_is_for_the_greedy_policy() -> None:
    """Of another one, what a cut trace is replaced by is not what it is compared with."""
    options: dict[str, Any] = {"recurrent_size": 8, "n_step": 1, "target": "expected_sarsa"}
    assert refused(traces="retrace", **options) == (
        "--traces=retrace: is for the greedy policy, of which --target=expected_sarsa is none: use "
        "peng, or another --target"
    )
    Config.from_values(options | {"traces": "peng"})
