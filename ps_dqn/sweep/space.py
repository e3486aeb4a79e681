"""What a sweep varies: flags, each with its values or with a range."""

import dataclasses
import itertools
import math
import random
import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ps_dqn.errors import UsageError

# Flags as words of a command line: where in the space a run is.
Point: TypeAlias = tuple[str, ...]

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(:log)?")
# What says which run it is, rather than what kind of run.
_NOT_VARIED = {"seed": "say --seeds, and --seed for the first of them", "run_dir": "it is chosen"}


@dataclasses.dataclass(frozen=True)
class Choices:
    """Some values, each as good as the others."""

    name: str
    values: tuple[str, ...]

    @property
    def ends(self) -> tuple[str, ...]:
        """What is to be checked."""
        return self.values

    def draw(self, source: random.Random) -> str:
        """One of them."""
        return source.choice(self.values)


@dataclasses.dataclass(frozen=True)
class Range:
    """All numbers from one to another, both included."""

    name: str
    low: float
    high: float
    is_log: bool = False  # as likely between 1 and 10 as between 10 and 100
    is_whole: bool = False

    @property
    def ends(self) -> tuple[str, ...]:
        """What is to be checked."""
        return self.shown(self.low), self.shown(self.high)

    def draw(self, source: random.Random) -> str:
        """One of them."""
        if self.is_log:
            value = math.exp(source.uniform(math.log(self.low), math.log(self.high)))
        elif self.is_whole:
            value = source.randint(int(self.low), int(self.high))
        else:
            value = source.uniform(self.low, self.high)
        return self.shown(value)

    def shown(self, value: float) -> str:
        """A number of it as a flag has it: whole, or of four digits that are within it."""
        if self.is_whole:
            return str(round(value))
        rounded = f"{value:.4g}"
        return rounded if self.low <= float(rounded) <= self.high else repr(value)


Dimension: TypeAlias = Choices | Range


def parse(varied: Sequence[str], whole: frozenset[str]) -> list[Dimension]:
    """What is varied.

    Args:
        varied: of each flag `name=value,value`, `name=value|value` where values have commas, or
            `name=low..high`, with `:log` behind it where magnitudes count.
        whole: names of the flags whose values are whole numbers.

    Raises:
        UsageError: with what is wrong.
    """
    found: dict[str, Dimension] = {}
    for text in varied:
        name, equals, values = text.removeprefix("--").partition("=")
        if not equals or not name or not values:
            raise UsageError(
                f"--vary={text}: must be a flag and its values, like learning_rate=0.001,0.0003, "
                f"or a range, like learning_rate=1e-4..1e-2:log"
            )
        if name in _NOT_VARIED:
            raise UsageError(f"--vary={text}: {name} is not varied so; {_NOT_VARIED[name]}")
        if name in found:
            raise UsageError(f"--vary={text}: {name} is varied already; say all values at once")
        found[name] = _dimension(text, name, values, name in whole)
    return list(found.values())


def _dimension(text: str, name: str, values: str, is_whole: bool) -> Dimension:
    match = _RANGE.fullmatch(values)
    if match is None:
        listed = values.split("|" if "|" in values else ",")
        if len(set(listed)) < len(listed):
            raise UsageError(f"--vary={text}: has a value twice")
        return Choices(name, tuple(listed))
    low, high, is_log = float(match[1]), float(match[2]), match[3] is not None
    if low >= high:
        raise UsageError(f"--vary={text}: must go from a number to a larger one")
    if is_log and low <= 0:
        raise UsageError(f"--vary={text}: has no logarithm at {low:g}; begin above 0")
    if is_whole and not (low.is_integer() and high.is_integer()):
        raise UsageError(f"--vary={text}: {name} takes whole numbers")
    return Range(name, low, high, is_log, is_whole)


def grid(space: Sequence[Dimension]) -> Iterator[Point]:
    """Every combination of values; of a range, of its ends."""
    for values in itertools.product(*(dimension.ends for dimension in space)):
        yield point(space, values)


def drawn(space: Sequence[Dimension], number: int, seed: int) -> list[Point]:
    """Combinations at random, no two alike; fewer where there are no more.

    More of them with the same seed begin with the same ones.
    """
    source, found = random.Random(seed), dict[Point, None]()
    for _ in range(100 * number):
        found[point(space, [dimension.draw(source) for dimension in space])] = None
        if len(found) == number:
            break
    return list(found)


def point(space: Sequence[Dimension], values: Sequence[str]) -> Point:
    """The words for a value of each dimension."""
    return tuple(f"--{each.name}={value}" for each, value in zip(space, values, strict=True))


def label(words: Point) -> str:
    """A point for people."""
    return ", ".join(word.removeprefix("--") for word in words) or "as they are"
