"""What an option is: a dataclass field that carries its flag's help, range and choices."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from ps_dqn.errors import UsageError

# How a number may change over a run.
CHANGING = ("linear", "cosine", "exponential")
SCHEDULES = ("constant", *CHANGING)

# Whether something is done: the program decides, or a person does.
SWITCH = ("auto", "on", "off")

# Environment steps: how many, or which share of the run, like 10%.
Steps: TypeAlias = int | str
_SHARE = re.compile(r"([0-9]+(\.[0-9]+)?)%")


def option(
    default: Any,
    help_text: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    finite: bool = True,
    was_bool: bool = False,
    needs: Mapping[str, tuple[Any, ...]] = MappingProxyType({}),
) -> Any:
    """A dataclass field that also carries what its flag needs.

    Args:
        default: the value when nothing is said.
        help_text: one sentence, with the unit in parentheses where there is one.
        low: the smallest value allowed, itself included.
        high: the largest value allowed, itself included.
        choices: the only values allowed, for text options.
        finite: whether infinity is refused; NaN always is.
        was_bool: it has the choices of `SWITCH`, and True and False stand for on and off: it was
            once true or false, and flagfiles of runs say so.
        needs: other options and the values of theirs with which this one has an effect; no values
            stand for any but the default.
    """
    metadata = {
        "help": help_text,
        "low": low,
        "high": high,
        "choices": choices,
        "finite": finite,
        "was_bool": was_bool,
        "needs": needs,
    }
    return dataclasses.field(default=default, metadata=metadata)


def settled(field: dataclasses.Field, value: Any) -> Any:
    """A value as an option has it: on and off for True and False of one that was a bool."""
    if field.metadata["was_bool"] and isinstance(value, bool):
        return "on" if value else "off"
    return tuple(value) if isinstance(field.default, tuple) else value


def check(field: dataclasses.Field, value: Any) -> None:
    """Refuses a value that the option does not allow.

    Raises:
        UsageError: with the flag, its value and what it must be.
    """
    low, high = field.metadata["low"], field.metadata["high"]
    choices = field.metadata["choices"]
    if choices and value not in choices:
        raise UsageError(f"--{field.name}={value}: must be one of {', '.join(choices)}")
    if value is None:
        return  # says nothing
    if isinstance(value, str) and low is not None:
        if not _is_share(value):
            raise UsageError(
                f"--{field.name}={value}: must be a whole number of environment steps, or a share "
                f"of the run above 0% and up to 100%, like 10%"
            )
        return
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, float) and not _is_allowed(field, number):
            raise UsageError(f"--{field.name}={number}: must be a finite number")
        if low is not None and number < low:
            raise UsageError(f"--{field.name}={number}: must be {low} or more")
        if high is not None and number > high:
            raise UsageError(f"--{field.name}={number}: must be {high} or less")


def check_needs(options: Sequence[tuple[dataclasses.Field, Any]]) -> None:
    """Refuses what has no effect: an option that was set, without the one it belongs to.

    Args:
        options: all there are, each with its value.

    Raises:
        UsageError: with the flag, its value, and what it needs.
    """
    defaults = {field.name: field.default for field, _ in options}
    values = {field.name: value for field, value in options}
    for field, value in options:
        if value == field.default:
            continue
        for other, wanted in unmet(field, values, defaults).items():
            if wanted == (None,):
                raise UsageError(
                    f"--{field.name}={_shown(value)}: has no effect beside "
                    f"--{other}={_shown(values[other])}; leave one of them out"
                )
            choices = " or ".join(_shown(each) for each in wanted)
            needed = f"{other}={choices}" if wanted else other
            default = _shown(field.default) if field.default not in (None, "") else ""
            raise UsageError(
                f"--{field.name}={_shown(value)}: has no effect without --{needed}; leave it out"
                + (f" (its default is {default})" if default else "")
            )


def unmet(
    field: dataclasses.Field, values: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, tuple[Any, ...]]:
    """What an option needs to have an effect and has not; see `option`."""
    return {
        other: wanted
        for other, wanted in field.metadata["needs"].items()
        if not (values[other] in wanted if wanted else values[other] != defaults[other])
    }


def without_effect(
    fields: Sequence[dataclasses.Field], values: Mapping[str, Any]
) -> list[dataclasses.Field]:
    """The options that were set and have no effect beside the others.

    Args:
        fields: all options.
        values: theirs, by name.
    """
    defaults = {field.name: field.default for field in fields}
    return [
        field
        for field in fields
        if values[field.name] != field.default and unmet(field, values, defaults)
    ]


def _is_share(text: str) -> bool:
    """Whether this is a share of the run."""
    matched = _SHARE.fullmatch(text)
    return matched is not None and 0 < float(matched[1]) <= 100


def env_steps(steps: Steps, total: int) -> int:
    """How many environment steps are meant, at least one.

    Args:
        steps: what an option says, checked.
        total: of the run.
    """
    if isinstance(steps, int):
        return steps
    return max(round(float(steps.removesuffix("%")) / 100 * total), 1)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_allowed(field: dataclasses.Field, number: float) -> bool:
    return math.isfinite(number) or (math.isinf(number) and not field.metadata["finite"])
