"""The command lines: every option has a flag, and presets are experiments."""

import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
from absl import flags as absl_flags
from support.command_lines import parsed

from flags import command_line, experiment
from ps_dqn import config as configuration
from ps_dqn.config import Config

PRESETS = sorted(command_line.PRESETS.glob("*.flags"))
OPTIONS: list[tuple[configuration.Group, dataclasses.Field]] = [
    (group, field) for group in configuration.groups() for field in dataclasses.fields(group.type)
]
FIELDS = {field.name: field for _, field in OPTIONS}
DEFAULTS = {name: field.default for name, field in FIELDS.items()}

# Where a good value that is not the default cannot be worked out from the default.
NOT_DEFAULT: dict[str, Any] = {
    "pushes_per_closure": 9,
    "env_id": "Acrobot-v1",
    "env_module": "json",
    "env_kwargs": '{"name": "a b, c"}',
    "env_wrappers": "my.module:Wrapper,another:wrap",
    "eval_env_kwargs": '{"name": "d"}',
    "num_envs_per_worker": 16,
    "network": "impala",
    "hidden_sizes": (7, 5),
    "optimizer": "sgd",
    "learning_rate_schedule": "exponential",
    "epsilon_schedule": "cosine",
    "replay_capacity": 60_000,
    "replay_memory": "500MB",
    "recency_eta": 0.95,
    "target_return": -12.5,
    "max_staleness": 3,
    "outer_learning_rate": 0.7,
    "outer_momentum": 0.25,
    "worker_timeout": 33.0,
    "ps_recovery_timeout": 44.0,
    "snapshot_period": 3.5,
    "min_workers": 3,
}
# What a choice goes with, beside what its option needs to have an effect.
GOES_WITH: dict[tuple[str, Any], dict[str, Any]] = {
    ("munchausen", True): {"double_dqn": False},
    ("replay_compression", "lz4"): {"replay_memory": "1GiB"},
    ("replay", "rollout"): {"target_update_period": 0, "double_dqn": False, "n_step": 1},
}
NOT_NORMALIZED = {"normalize_observations": False, "normalize_returns": False}
# Together, these experiments have every option with a value that is not its default: what each
# says first, for there are options that do not go together.
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "synchronous": {
        "aggregation": "sync",
        "num_envs_per_worker": None,
        "pull_wire_dtype": "float32",  # which means travel in
        "replay": "recent",
        "munchausen": False,
        "value_distribution": "none",
    },
    "robust": {
        **NOT_NORMALIZED,
        "aggregation": "trimmed_mean",
        "outer_optimizer": "nesterov",
        "vectorization": "async",
        "munchausen": False,
        "value_distribution": "none",
    },
    "munchausen": {
        **NOT_NORMALIZED,
        "aggregation": "async",
        "loss": "huber",
        "value_rescaling": False,
        "value_distribution": "iqn",
    },
    "categorical": {
        **NOT_NORMALIZED,
        "loss": "huber",
        "optimizer": "rmsprop",
        "value_rescaling": False,
        "value_distribution": "c51",
        "munchausen": False,
    },
    "histogram": {
        **NOT_NORMALIZED,
        "loss": "huber",
        "optimizer": "adamw",
        "value_distribution": "hl_gauss",
        "munchausen": False,
    },
    "rollout": {
        **NOT_NORMALIZED,
        "replay": "rollout",
        "overlap": "auto",
        "target_update_period": 0,
        "n_step": 1,
        "tau": 0.0,
        "value_distribution": "none",
        "munchausen": False,
        "value_rescaling": False,
        "recurrent_size": 0,
        "replay_capacity": None,
        "replay_memory": "",
        "replay_compression": "none",
        "replay_files": False,
    },
}


def _config(*words: str) -> Config:
    return experiment.read(parsed(*words))


def _not_default(field: dataclasses.Field) -> Any:
    """A valid value, so that the defaults of the other options still go with it."""
    if field.name in NOT_DEFAULT:
        return NOT_DEFAULT[field.name]
    if field.metadata["choices"]:
        return next(each for each in field.metadata["choices"] if each != field.default)
    if isinstance(field.default, bool):
        return not field.default
    if isinstance(field.default, int):
        return 2 * field.default or 1
    assert isinstance(field.default, float), f"say a value for {field.name} in NOT_DEFAULT"
    return field.default / 2 or 0.5


def _word(name: str, value: Any) -> str:
    """The flag as a person writes it."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no{name}"
    if isinstance(value, tuple):
        value = ",".join(str(each) for each in value)
    return f"--{name}={value}"


def _flat(config: Config) -> dict[str, Any]:
    groups = dataclasses.asdict(config).values()
    return {name: value for group in groups for name, value in group.items()}


def _has_effect(field: dataclasses.Field, values: dict[str, Any]) -> bool:
    """Whether what an option belongs to is there, in an experiment's values."""
    return all(
        values[other] in wanted if wanted else values[other] != DEFAULTS[other]
        for other, wanted in field.metadata["needs"].items()
    )


def _beside(field: dataclasses.Field, value: Any) -> dict[str, Any]:
    """Other options that this one needs, in the order in which they ask for each other."""
    found: dict[str, Any] = {}
    if not _has_effect(field, DEFAULTS):
        for other, wanted in field.metadata["needs"].items():
            found[other] = wanted[0] if wanted else _not_default(FIELDS[other])
    for each in [(field.name, value), *found.items()]:
        found |= GOES_WITH.get(each, {})
    return found


def _experiment(chosen: dict[str, Any]) -> dict[str, Any]:
    """Every option that goes with what is chosen, with a value that is not its default."""
    values = {name: _not_default(field) for name, field in FIELDS.items()} | chosen
    kept = {name for name, field in FIELDS.items() if _has_effect(field, values)}
    return {
        name: value for name, value in values.items() if name in kept and value != DEFAULTS[name]
    }


def test_flags_have_the_defaults_of_the_config() -> None:
    assert _config() == Config()


def test_every_option_has_one_flag_with_its_help() -> None:
    values = parsed()

    names = [name for names in experiment.topics().values() for name in names]
    assert sorted(names) == sorted(_flat(Config()))
    for _, field in OPTIONS:
        assert values[field.name].help.endswith(field.metadata["help"])


@pytest.mark.parametrize(("group", "field"), OPTIONS, ids=[field.name for _, field in OPTIONS])
def test_option_arrives_in_the_config(group: configuration.Group, field: dataclasses.Field) -> None:
    value = _not_default(field)
    assert value != field.default

    beside = _beside(field, value)
    config = _config(_word(field.name, value), *(_word(*each) for each in beside.items()))

    given = getattr(getattr(config, group.name), field.name)
    assert given == value
    assert type(given) is type(value)
    # And nothing else changes.
    assert _flat(config) == {**_flat(Config()), **beside, field.name: value}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--gamma=0.5", "--gamma=0.6"), 0.6),
        (("--gamma", "0.5"), 0.5),
        (("--gamma=1",), 1.0),
        (("--gamma=1e-3",), 0.001),
    ],
)
def test_ways_to_write_a_number(words: Sequence[str], expected: float) -> None:
    assert _config(*words).learning.gamma == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), None),
        (("--target_return=inf",), float("inf")),
        (("--target_return=0",), 0.0),  # 0 is a target, not "none"
    ],
)
def test_target_return(words: Sequence[str], expected: float | None) -> None:
    assert _config(*words).run.target_return == expected


def test_the_experiments_have_every_option() -> None:
    assert set().union(*map(_experiment, EXPERIMENTS.values())) == set(FIELDS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_flagfile_round_trip(tmp_path: pathlib.Path, name: str) -> None:
    given = _experiment(EXPERIMENTS[name])
    values = parsed(*(_word(*each) for each in given.items()))
    path = tmp_path / "flags.txt"

    path.write_text(command_line.as_flagfile(values, list(given)))

    assert _flat(_config(f"--flagfile={path}")) == _flat(Config()) | given


def test_flagfile_round_trip_of_the_defaults(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "flags.txt"
    path.write_text(command_line.as_flagfile(parsed(), list(_flat(Config()))))

    assert _config(f"--flagfile={path}") == Config()


def test_flagfile_round_trip_of_json_on_several_lines(tmp_path: pathlib.Path) -> None:
    # What --env_kwargs="$(cat kwargs.json)" gives.
    kwargs = {"goal_velocity": 0.1, "maps": ["a", "b"]}
    values = parsed(f"--env_kwargs={json.dumps(kwargs, indent=2)}")
    path = tmp_path / "flags.txt"

    path.write_text(command_line.as_flagfile(values, ["env_kwargs"]))

    read = _config(f"--flagfile={path}").environment.env_kwargs
    assert json.loads(read) == kwargs


def test_flags_after_a_flagfile_override_it(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "some.flags"
    path.write_text("# A comment.\n--gamma=0.5\n\n--n_step=7\n--nodouble_dqn\n")

    config = _config(f"--flagfile={path}", "--n_step=2")

    assert config.learning == configuration.Learning(gamma=0.5, n_step=2)
    assert config.value == configuration.Value(double_dqn=False)


def test_a_command_line_is_laid_over_a_flagfile(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "flags.txt"
    path.write_text("--gamma=0.5\n--n_step=7\n")
    values = parsed("--n_step=2", "--seed=9")

    command_line.parse_over(path, values, ["program", "--n_step=2", "--batch_size=32"])

    # Of the parse before, nothing is left.
    assert experiment.read(values) == Config.from_values(
        {"gamma": 0.5, "n_step": 2, "batch_size": 32}
    )


def test_a_command_line_is_not_laid_over_a_flagfile_that_is_not_there(
    tmp_path: pathlib.Path,
) -> None:
    with pytest.raises(absl_flags.Error, match=r"gone\.flags"):
        command_line.parse_over(tmp_path / "gone.flags", parsed(), ["program"])


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_presets_are_experiments_of_their_own(path: pathlib.Path) -> None:
    assert _config(f"--flagfile={path}") != Config()
