"""Options that do not go together: each combination is refused with its one line."""

import dataclasses
from typing import Any

import pytest
from support.refusals import refused

from ps_dqn import config
from ps_dqn.config import Config

ROLLOUT = {"replay": "rollout", "target_update_period": 0, "double_dqn": False, "n_step": 1}
MUNCHAUSEN = {"munchausen": True, "double_dqn": False}
CONSTANT = {"epsilon_schedule": "constant", "learning_rate_schedule": "constant"}
CHANGING = "{}_schedule=linear or cosine or exponential"
C51 = {"value_distribution": "c51"}
CUSTOM, BUILT_IN = {"network": "my:net"}, "network=mlp or nature or minatar or impala"
RECURRENT = {"recurrent_size": 8, "burn_in": 10, "sequence_length": 20}
FALLING = {"epsilon_schedule": "exponential", "learning_rate_schedule": "exponential"}
NOT_JSON = ["{", "", "{'size': 8}", '{"size": NaN}', '{"size": -Infinity}', "[" * 100_000]


def default_of(name: str) -> str:
    found = [
        field.default
        for group in config.groups()
        for field in dataclasses.fields(group.type)
        if field.name == name
    ]
    return str(found[0])


@pytest.mark.parametrize(
    ("values", "needed"),
    [
        ({"network_width": 2.0}, "network=nature or minatar or impala"),
        ({"noisy_sigma": 0.1}, "noisy=true"),
        ({"num_atoms": 21}, "value_distribution=c51 or hl_gauss"),
        ({"v_min": -1.0}, "value_distribution=c51 or hl_gauss"),
        ({"v_max": 1.0, "value_distribution": "iqn"}, "value_distribution=c51 or hl_gauss"),
        ({"hl_gauss_sigma": 0.5, "value_distribution": "c51"}, "value_distribution=hl_gauss"),
        ({"num_quantiles": 8}, "value_distribution=qr_dqn or iqn"),
        ({"num_target_quantiles": 8, "value_distribution": "qr_dqn"}, "value_distribution=iqn"),
        ({"num_policy_quantiles": 8}, "value_distribution=iqn"),
        ({"num_cosines": 8}, "value_distribution=iqn"),
        ({"munchausen_alpha": 0.5}, "munchausen=true"),
        ({"munchausen_temperature": 0.5}, "munchausen=true"),
        ({"munchausen_clip": -0.5}, "munchausen=true"),
        ({"min_replay_size": 5, **ROLLOUT}, "replay=uniform or prioritized or recent"),
        ({"priority_alpha": 0.9}, "replay=prioritized"),
        ({"priority_beta": 0.9, "replay": "recent"}, "replay=prioritized"),
        ({"priority_epsilon": 0.9}, "replay=prioritized"),
        ({"recency_eta": 0.99}, "replay=recent"),
        ({"recency_min_size": 99, "replay": "prioritized"}, "replay=recent"),
        ({"trace_lambda": 0.5}, "replay=rollout"),
        ({"sequence_length": 8}, "recurrent_size"),
        ({"sequence_period": 8}, "recurrent_size"),
        ({"burn_in": 0}, "recurrent_size"),
        ({"burn_in": 0, "recurrent_size": 8, **ROLLOUT}, "replay=uniform or prioritized or recent"),
        ({"learning_rate_end": 0.5, **CONSTANT}, CHANGING.format("learning_rate")),
        ({"learning_rate_decay_steps": 5, **CONSTANT}, CHANGING.format("learning_rate")),
        ({"epsilon_end": 0.5, **CONSTANT}, CHANGING.format("epsilon")),
        ({"epsilon_decay_steps": 5, **CONSTANT}, CHANGING.format("epsilon")),
        ({"huber_delta": 2.0, "loss": "squared"}, "loss=huber"),
        ({"huber_delta": 2.0, **C51}, "value_distribution=none or qr_dqn or iqn"),
        ({"target": "expected_sarsa", **C51}, "value_distribution=none or hl_gauss"),
        ({"target": "expected_sarsa", "munchausen": True, "double_dqn": False}, "munchausen=false"),
        ({"target": "expected_sarsa", **ROLLOUT}, "replay=uniform or prioritized or recent"),
        ({"momentum": 0.5}, "optimizer=sgd"),
        (
            {"optimizer_epsilon": 0.5, "optimizer": "sgd"},
            "optimizer=adam or adamw or radam or rmsprop or rmsprop_centered or adagrad",
        ),
        ({"target_update_period": 5, "tau": 0.5}, "tau=0.0"),
        ({"hidden_sizes": (8,), **CUSTOM}, BUILT_IN),
        ({"activation": "tanh", **CUSTOM}, BUILT_IN),
    ],
    ids=str,
)
def test_an_option_without_the_one_it_belongs_to(values: dict[str, Any], needed: str) -> None:
    name, value = next(iter(values.items()))
    said = refused(**values)
    default = default_of(name)
    whole = f"--{name}={value}: has no effect without --{needed}; leave it out"
    assert said == whole + (f" (its default is {default})" if default != "None" else "")


@pytest.mark.parametrize(
    "values",
    [
        {"network": "impala", "network_width": 2.0},
        {"noisy": True, "noisy_sigma": 0.1},
        {"value_distribution": "c51", "num_atoms": 21, "v_min": -1.0, "v_max": 1.0},
        {"value_distribution": "qr_dqn", "num_quantiles": 8},
        {"value_distribution": "iqn", "num_quantiles": 8, "num_cosines": 8},
        {**MUNCHAUSEN, "munchausen_alpha": 0.5},
        {**MUNCHAUSEN, "value_distribution": "qr_dqn"},
        {"replay": "prioritized", "priority_alpha": 0.9},
        {"replay": "recent", "recency_eta": 0.99},
        {**ROLLOUT, "trace_lambda": 0.5},
        {**RECURRENT, "sequence_period": 8},
        {"replay_compression": "lz4", "replay_memory": "1GiB"},
        {"target_update_period": 0, "double_dqn": False},
        {"learning_rate_schedule": "exponential"},
        {"optimizer": "adagrad", "optimizer_epsilon": 0.5},
        # What fits into a memory is not known yet.
        {"replay_memory": "1GiB", "min_replay_size": 10**7},
    ],
    ids=str,
)
def test_combinations_that_work(values: dict[str, Any]) -> None:
    Config.from_values(values)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"v_min": 3.0, "v_max": 3.0, "value_distribution": "c51"},
            "--v_min=3.0: must be less than --v_max=3.0",
        ),
        (
            {"loss": "squared", "value_distribution": "qr_dqn"},
            "--loss=squared: --value_distribution=qr_dqn has a loss of its own; leave it out",
        ),
        (
            {"loss": "log_cosh", "value_distribution": "c51"},
            "--loss=log_cosh: --value_distribution=c51 has a loss of its own; leave it out",
        ),
        (
            {"value_rescaling": True, "value_distribution": "iqn"},
            "--value_rescaling=true: is for expected returns, not for --value_distribution=iqn; "
            "leave one of them out",
        ),
        (
            {**MUNCHAUSEN, "value_distribution": "c51"},
            "--munchausen=true: adds another number to each action's return, for which c51 has no "
            "common atoms; use --value_distribution=none, qr_dqn or iqn",
        ),
        (
            {"munchausen": True},
            "--double_dqn=true: has no effect with --munchausen, which bootstraps from all "
            "actions; say --double_dqn=false",
        ),
        (
            {**MUNCHAUSEN, "value_rescaling": True},
            "--value_rescaling=true: munchausen's temperature and clip are in units of the return "
            "itself; leave one of them out",
        ),
    ],
    ids=lambda each: each if isinstance(each, dict) else "",
)
def test_values_that_do_not_go_together(values: dict[str, Any], said: str) -> None:
    assert refused(**values) == said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", 0.0),
        ("learning_rate_end", 0.0),
        ("epsilon_start", 0.0),
        ("epsilon_end", 0.0),
    ],
)
def test_an_exponential_schedule_from_or_to_zero(name: str, value: float) -> None:
    assert refused(**FALLING, **{name: value}) == (
        f"--{name}={value}: must be above 0 with an exponential schedule, which never reaches 0"
    )
    for schedule in ("linear", "cosine"):
        others = dict.fromkeys(FALLING, schedule)
        Config.from_values({**others, name: value})


def test_options_of_a_target_network_that_is_not_there() -> None:
    assert refused(target_update_period=0) == (
        "--double_dqn=true: without a target network (--target_update_period=0) there is one "
        "network only; say --double_dqn=false"
    )


@pytest.mark.parametrize("environments", [{"num_envs": 4}, {"num_envs_per_worker": 4}], ids=str)
def test_steps_of_a_rollout_that_the_environments_do_not_divide(environments: Any) -> None:
    values = {"local_updates": 3, "update_period": 5, **environments}
    assert refused(**ROLLOUT, **values, batch_size=20) == (
        "--local_updates=3 times --update_period=5 is 15 environment steps a rollout, which 4 "
        "environments do not divide: change one of the three so that they do"
    )
    Config.from_values({**ROLLOUT, **values, "batch_size": 20, "local_updates": 4})


def test_steps_of_a_push_need_not_be_whole_where_experience_is_kept() -> None:
    values = {"local_updates": 3, "update_period": 0.5, "num_envs_per_worker": 4}
    assert Config.from_values(values).parameter_server.update_period == 0.5
    assert refused(update_period=0.0) == "--update_period=0.0: must be 0.001 or more"


@pytest.mark.parametrize(
    ("values", "what_to_do"),
    [
        (
            {"target_update_period": 128},
            "it has no target network: say --target_update_period=0",
        ),
        ({"n_step": 3}, "its returns are λ-returns: say --n_step=1"),
        ({"value_distribution": "c51"}, "it learns expected returns: leave it out"),
        ({"munchausen": True}, "it has no target policy: leave it out"),
        ({"value_rescaling": True}, "leave it out"),
        ({"replay_memory": "1GiB"}, "it keeps nothing: leave it out"),
        ({"replay_files": True}, "it keeps nothing: leave it out"),
        ({"replay_compression": "lz4"}, "it keeps nothing: leave it out"),
    ],
    ids=str,
)
def test_what_does_not_go_with_rollouts(values: dict[str, Any], what_to_do: str) -> None:
    [(name, value)] = values.items()
    shown = "true" if value is True else value
    expected = f"--{name}={shown}: does not go with --replay=rollout; {what_to_do}"
    assert refused(**{**ROLLOUT, **values}) == expected


def test_steps_of_a_rollout_that_are_not_learned_from_equally_often() -> None:
    assert refused(**ROLLOUT, batch_size=12, update_period=8) == (
        "--batch_size=12: with --replay=rollout, a multiple of --update_period=8 (each step is "
        "learned from batch_size / update_period times)"
    )
    Config.from_values({**ROLLOUT, "batch_size": 16, "update_period": 8})


def test_minibatches_of_parts_of_sequences() -> None:
    values = {"recurrent_size": 8, "num_envs": 4, "local_updates": 6, "update_period": 2}
    assert refused(**ROLLOUT, **values, batch_size=4) == (
        "--batch_size=4: with --replay=rollout and --recurrent_size=8, a multiple of the 3 steps "
        "that each of 4 environments makes in a rollout (--local_updates=6 times "
        "--update_period=2), for these are learned from as a whole"
    )
    Config.from_values({**ROLLOUT, **values, "batch_size": 6})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"replay_compression": "lz4"},
            "--replay_compression=lz4: how many transitions fit is not known beforehand, so say "
            "how much memory they may use, like --replay_memory=2GiB",
        ),
        (
            {"min_replay_size": 5001, "replay_capacity": 5000},
            "--min_replay_size=5001: must not exceed --replay_capacity=5000",
        ),
        (
            {"min_replay_size": 50_001},
            "--min_replay_size=50001: must not exceed --replay_capacity=50000",
        ),
        (
            # 64 environments of 5 + 2 rows each.
            {"replay_capacity": 447, "min_replay_size": 1},
            "--replay_capacity=447: 64 environments with --n_step=5 need 448 or more",
        ),
        (
            # 10 + 19 + 5 rows after the first of a sequence, 3 frames before it, 9 rows to where
            # one begins, and 2 more.
            {"replay_capacity": 3071, "frame_stack": 4, **RECURRENT},
            "--replay_capacity=3071: 64 environments with --n_step=5, --frame_stack=4, "
            "--burn_in=10, --sequence_length=20, --sequence_period=10 need 3072 or more",
        ),
        (
            # 10 rows each, the newest 5 of which cannot be drawn.
            {"replay_capacity": 640, "min_replay_size": 321},
            "--min_replay_size=321: 64 environments with --replay_capacity=640 and --n_step=5 "
            "offer 320 at most",
        ),
    ],
    ids=lambda each: each if isinstance(each, dict) else "",
)
def test_replay_that_cannot_be(values: dict[str, Any], said: str) -> None:
    assert refused(**values) == said


@pytest.mark.parametrize("text", NOT_JSON, ids=lambda text: text[:20])
def test_environment_arguments_that_are_not_json(text: str) -> None:
    assert refused(env_kwargs=text).startswith(f"--env_kwargs={text[:200]}: not JSON (")


def test_environment_arguments_without_names() -> None:
    said = '--env_kwargs=[1]: must be a JSON object, like {"size": 8}'
    assert refused(env_kwargs="[1]") == said


def test_recent_experience_needs_several_minibatches_a_push() -> None:
    values = {"replay": "recent", "num_envs_per_worker": 1}
    assert refused(**values, local_updates=7) == (
        "--local_updates=7: with --replay=recent, 8 or more: its window narrows from minibatch to "
        "minibatch of a push"
    )
    Config.from_values({**values, "local_updates": 8})
