"""The command lines: every option has a flag, and presets are experiments."""

import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
from absl import flags as absl_flags
from support.command_lines import parsed
from support.option_values import (
    EXPERIMENTS,
    FIELDS,
    OPTIONS,
    beside_it,
    experiment_of,
    not_default,
)

from ps_dqn import config as configuration
from ps_dqn.config import Config
from ps_dqn.flags import command_line, experiment

PRESETS = sorted(command_line.PRESETS.glob("*.flags"))


def _config(*words: str) -> Config:
    return experiment.read(parsed(*words))


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
    value = not_default(field)
    assert value != field.default

    beside = beside_it(field, value)
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


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("--normalize_observations", "on"),
        ("--normalize_observations=true", "on"),
        ("--nonormalize_observations", "off"),
        ("--normalize_observations=auto", "auto"),
    ],
)
def test_what_was_true_or_false_is_still_understood(
    tmp_path: pathlib.Path, word: str, expected: str
) -> None:
    """As a flagfile of an older run says it, and on the command line."""
    assert _config(word).network.normalize_observations == expected
    flagfile = tmp_path / "flags.txt"
    flagfile.write_text(f"{word}\n--num_envs=8\n")
    values = parsed(f"--flagfile={flagfile}")
    assert experiment.read(values).network.normalize_observations == expected
    written = command_line.as_flagfile(values, ["normalize_observations"])
    assert written == f"--normalize_observations={expected}\n"


def test_of_a_switch_true_and_false_are_on_and_off() -> None:
    for value, expected in ((True, "on"), (False, "off"), ("auto", "auto")):
        config = Config.from_values({"normalize_observations": value})
        assert config.network.normalize_observations == expected
    with pytest.raises(absl_flags.Error, match="should be one of <auto\\|on\\|off>"):
        parsed("--normalize_observations=maybe")


def test_the_experiments_have_every_option() -> None:
    assert set().union(*map(experiment_of, EXPERIMENTS.values())) == set(FIELDS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_flagfile_round_trip(tmp_path: pathlib.Path, name: str) -> None:
    given = experiment_of(EXPERIMENTS[name])
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


def test_words_are_for_programs_that_take_them() -> None:
    values = parsed()

    words = command_line.parse(values, ["program", "a", "--n_step=2", "b"], takes_words=True)

    assert (words, values.n_step) == (["a", "b"], 2)
    with pytest.raises(absl_flags.Error, match="'a' is not a flag"):
        command_line.parse(values, ["program", "a", "--n_step=2"])


def test_a_preset_named_without_its_flag_is_told_of_it() -> None:
    with pytest.raises(absl_flags.Error, match=r"'cartpole' is not a flag: did you mean --preset"):
        command_line.parse(parsed(), ["program", "cartpole"])
