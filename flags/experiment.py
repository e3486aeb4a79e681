"""The flags of an experiment, generated from `ps_dqn.config`."""

import dataclasses
from collections.abc import Container
from typing import Any

from absl import flags as absl_flags

from ps_dqn import config as configuration
from ps_dqn.config import Config, options


def define(values: absl_flags.FlagValues) -> None:
    """Defines one flag for each option, and the one that names presets of them."""
    define_options(values)
    absl_flags.DEFINE_multi_string(
        "preset",
        None,
        "Begin with these presets, comma separated, like rainbow,lunarlander: an algorithm's, a "
        "problem's or both. Other flags go before them, wherever they stand.",
        flag_values=values,
    )


def define_options(values: absl_flags.FlagValues) -> None:
    """Defines one flag for each option, named as the option is."""
    for group in configuration.groups():
        define_topic(values, group)


def define_topic(
    values: absl_flags.FlagValues, group: configuration.Group, names: Container[str] | None = None
) -> None:
    """Defines one flag for each option of a topic.

    Args:
        values: where.
        group: the topic.
        names: of the options that are wanted; None: all are.
    """
    for field in dataclasses.fields(group.type):
        if names is None or field.name in names:
            _define_one(values, group, field)


def define_num_actors(values: absl_flags.FlagValues) -> None:
    """Defines how many addresses --actor_hosts with {} means, for tasks without an experiment."""
    [group] = [each for each in configuration.groups() if each.name == "topology"]
    define_topic(values, group, names=("num_actors",))


def read(values: absl_flags.FlagValues) -> Config:
    """The configuration that parsed flags give.

    Raises:
        UsageError: a value is out of range or does not go with another.
    """
    given = {name: values[name].value for name in names()}
    given["hidden_sizes"] = tuple(int(width) for width in given["hidden_sizes"])
    return Config.from_values(given)


def assign(values: absl_flags.FlagValues, config: Config) -> None:
    """Gives parsed flags the values of a configuration."""
    for name, value in config.values.items():
        values[name].value = list(value) if isinstance(value, tuple) else value


def names() -> list[str]:
    """The names of all options, which are those of their flags."""
    return [field.name for field in configuration.fields()]


def topics() -> dict[str, list[str]]:
    """The topics' titles and the names of their flags, in the order people see them."""
    return {
        _title(group): [field.name for field in dataclasses.fields(group.type)]
        for group in configuration.groups()
    }


def topic_words() -> dict[str, str]:
    """What each topic is asked for by, and its title."""
    return {group.name: _title(group) for group in configuration.groups()}


def _title(group: configuration.Group) -> str:
    return (group.type.__doc__ or "").strip()


def _define_one(
    values: absl_flags.FlagValues, group: configuration.Group, field: dataclasses.Field
) -> None:
    type_, default, text = (
        configuration.option_type(group, field),
        field.default,
        field.metadata["help"],
    )
    choices = field.metadata["choices"]
    define: Any
    if field.metadata["was_bool"]:
        absl_flags.DEFINE_flag(_Switch(field.name, default, list(choices), text), values)
        return
    if choices:
        absl_flags.DEFINE_enum(field.name, default, list(choices), text, flag_values=values)
        return
    if type_ is bool:
        define = absl_flags.DEFINE_bool
    elif type_ is int:
        define = absl_flags.DEFINE_integer
    elif type_ is float:
        define = absl_flags.DEFINE_float
    elif type_ is str:
        define = absl_flags.DEFINE_string
    elif type_ == options.Steps:
        define = _define_steps
    else:
        define = _define_widths
    define(field.name, default, text, flag_values=values)


class _OnOrOff(absl_flags.EnumParser):
    """One of the choices; true and false stand for on and off."""

    def parse(self, argument: str) -> str:
        """What was said."""
        said = {"true": "on", "false": "off"}.get(str(argument).lower(), argument)
        return str(super().parse(said))


class _Switch(absl_flags.Flag):
    """A flag of choices that was true or false once: --name and --noname are understood."""

    def __init__(self, name: str, default: Any, choices: list[str], text: str):
        serializer = absl_flags.ArgumentSerializer()
        super().__init__(_OnOrOff(choices), serializer, name, default, text, boolean=True)

    def serialize(self) -> str:
        """As a flagfile has it."""
        return f"--{self.name}={self.value}"


class _Steps(absl_flags.ArgumentParser):
    """Environment steps, or a share of the run."""

    syntactic_help = "a number of environment steps, or a share of the run like 10%"

    def parse(self, argument: Any) -> options.Steps:
        """Whether it is a share that can be is the configuration's to say."""
        try:
            return int(argument)
        except ValueError:
            return str(argument)


def _define_steps(
    name: str, default: options.Steps, text: str, flag_values: absl_flags.FlagValues
) -> None:
    serializer = absl_flags.ArgumentSerializer()
    absl_flags.DEFINE(_Steps(), name, default, text, flag_values, serializer)


class _Widths(absl_flags.ListParser):
    """Whole numbers, comma separated."""

    def parse(self, argument: Any) -> list[int]:
        try:
            return [int(each) for each in super().parse(argument)]
        except ValueError:
            raise ValueError("must be whole numbers, comma separated, like 128,128") from None


def _define_widths(
    name: str, default: tuple[int, ...], text: str, flag_values: absl_flags.FlagValues
) -> None:
    absl_flags.DEFINE(
        _Widths(),
        name,
        list(default),
        text,
        flag_values,
        absl_flags.CsvListSerializer(","),
    )
