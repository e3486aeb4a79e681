"""How a command line is read: parsing, help by topic, and one line for each mistake."""

import contextlib
import io
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from absl import flags as absl_flags

from ps_dqn.cluster import streams
from ps_dqn.flags import naming, preset
from ps_dqn.flags.help_text import asks_for_help, print_help, show
from ps_dqn.flags.preset import PRESETS
from ps_dqn.run import paths
from ps_dqn.run.signals import FAILED, INTERRUPTED, WRONG_USAGE

__all__ = [
    "PRESETS",
    "UnknownFlagError",
    "answer",
    "as_flagfile",
    "asks_for_help",
    "new_flags",
    "parse",
    "parse_over",
    "presets",
    "print_help",
    "refuse",
    "run_main",
    "show",
]

LARGEST_FLAGFILE = 1_000_000  # bytes


class UnknownFlagError(absl_flags.UnrecognizedFlagError):
    """A flag that is none, in words for people."""

    def __init__(self, error: absl_flags.UnrecognizedFlagError, known: Iterable[str]):
        super().__init__(error.flagname, error.flagvalue)
        near = naming.nearest(error.flagname.replace("-", "_"), known, "--")
        shown = error.flagvalue if str(error.flagvalue).startswith("-") else f"--{error.flagname}"
        self.args = (f"{shown}: there is no such flag{near} --help=all lists them",)


class _Flags(absl_flags.FlagValues):
    """Knows presets; reads flagfiles itself.

    Absl would wait for some, read others without end, and take their text for the locale's.
    """

    def read_flags_from_files(self, argv: Sequence[str], force_gnu: bool = True) -> list[str]:
        """All flags of a command line, with those of its flagfiles and presets, in their order."""
        argv = _with_presets_named(argv) if "preset" in self else argv
        words = list(super().read_flags_from_files(_with_files_read(argv, []), force_gnu))
        if "preset" not in self:
            return words
        env_id = [self["env_id"].default, *_values_of("env_id", words)][-1]
        names = preset.complete(_values_of("preset", words), env_id)
        return [*preset.words(names, words), *words]


def new_flags() -> absl_flags.FlagValues:
    """An empty set of flags that knows `--flagfile`."""
    values = _Flags()
    absl_flags.DEFINE_string(
        "flagfile", "", "Read flags from this file, one --name=value a line.", flag_values=values
    )
    absl_flags.DEFINE_string(
        "undefok", "", "Flags that may be unknown, comma separated.", flag_values=values
    )
    return values


def refuse(error: object) -> NoReturn:
    """Says what is wrong in one line and leaves with the exit code for wrong usage."""
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(WRONG_USAGE)


def parse(
    values: absl_flags.FlagValues, argv: Sequence[str], takes_words: bool = False
) -> list[str]:
    """Parses a whole command line, its first word the program.

    Args:
        values: where the flags are defined.
        argv: the command line.
        takes_words: words that are no flags mean something to the program, wherever they stand.

    Returns:
        Those words.

    Raises:
        absl.flags.Error: a flag is unknown or its value cannot be read, or a word is no flag.
    """
    values.unparse_flags()
    values.set_gnu_getopt(takes_words)
    try:
        _, *words = values(list(argv))
    except absl_flags.UnrecognizedFlagError as error:
        raise UnknownFlagError(error, values) from None
    except absl_flags.IllegalFlagValueError as error:
        # The text of absl's own parser of true and false is a tuple.
        said, is_no_truth, _ = str(error).partition("('Non-boolean")
        what = f"{said}must be true or false" if is_no_truth else str(error)
        raise absl_flags.IllegalFlagValueError(what) from None
    except ValueError as error:
        raise absl_flags.Error(str(error)) from None
    if words and not takes_words:
        named = words[0] in preset.all_names() and "preset" in values
        meant = f"did you mean --preset={words[0]}?" if named else "flags look like --name=value"
        raise absl_flags.Error(f"{words[0]!r} is not a flag: {meant}")
    return words


def parse_over(flagfile: pathlib.Path, values: absl_flags.FlagValues, argv: Sequence[str]) -> None:
    """Parses a whole command line laid over a flagfile: what it says wins.

    Only what it says itself is `present` then: a run's flagfile has every flag.

    Raises:
        absl.flags.Error: the file cannot be read, or what `parse` says of its flags and these.
    """
    parse(values, argv)
    said = {name for name in values if values[name].present}
    parse(values, [argv[0], f"--flagfile={flagfile}", *argv[1:]])
    for name in set(values) - said:
        values[name].present = 0


def presets(values: absl_flags.FlagValues) -> list[str]:
    """The presets that a parsed command line begins with, one by one."""
    return preset.complete(values.preset or [], values.env_id)


def as_flagfile(values: absl_flags.FlagValues, names: Sequence[str]) -> str:
    """The current values of some flags as a flagfile."""
    lines = [values[name].serialize() for name in names if values[name].value is not None]
    # A flagfile has one flag a line, so a value of several lines (JSON) is put on one.
    return "".join(" ".join(line.splitlines()) + "\n" for line in lines if line)


def run_main(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Calls an entry point with this process's command line and leaves with its exit code.

    TensorFlow's destructors may wait for tasks that are gone, so none is run.
    """
    streams.begin()
    code = 0
    try:
        code = main(sys.argv)
        sys.stdout.flush()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else FAILED
    except KeyboardInterrupt:
        code = INTERRUPTED
    except streams.NoReaderError:
        pass  # they have read what they wanted
    except streams.OutputError as error:
        print(f"error: standard output: cannot be written ({error.strerror})", file=sys.stderr)
        code = FAILED
    except Exception:
        sys.excepthook(*sys.exc_info())
        code = FAILED
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # a log on a disk that is full
            stream.flush()
    os._exit(code)


def answer(text: str) -> NoReturn:
    """Prints a text and leaves, as a program does that has no more to say."""

    def say(_: Sequence[str]) -> int:
        show(text)
        return 0

    run_main(say)


def _values_of(flag: str, words: Sequence[str]) -> list[str]:
    """What a command line or a flagfile says of a flag, each time it does."""
    found, words = [], [word.strip() for word in words]
    for word, following in zip(words, [*words[1:], ""], strict=False):
        name, equals, value = word.partition("=")
        if name in (f"--{flag}", f"-{flag}"):
            found.append(value if equals else following)
    return [value for value in found if value]


def _with_presets_named(argv: Sequence[str]) -> list[str]:
    """The same, with presets by their names where it has their flagfiles."""

    def named(flagfile: str) -> list[str]:
        found = preset.name_of(flagfile)
        return [f"--preset={found}" if found else f"--flagfile={flagfile}"]

    return _replaced(argv, named)


def _with_files_read(words: Sequence[str], including: Sequence[pathlib.Path]) -> list[str]:
    """The same, with the flags of its flagfiles in their places; see `_flags_in`."""
    return _replaced(words, lambda name: _flags_in(paths.named("--flagfile", name), including))


def _replaced(words: Sequence[str], of_file: Callable[[str], list[str]]) -> list[str]:
    """The same, with what is made of a flagfile's name in the place of each."""
    found, left = [], iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        is_file = name in ("--flagfile", "-flagfile")
        value = next(left, "") if is_file and not equals else value
        found += of_file(value) if is_file and value else [word]
    return found


def _flags_in(path: pathlib.Path, including: Sequence[pathlib.Path]) -> list[str]:
    """The flags of a file, with those of the files that it includes.

    Raises:
        absl.flags.Error: it cannot be read, or one of those cannot; with the file's name.
    """
    if path in including:
        raise absl_flags.Error(f"--flagfile={path}: includes itself")
    try:
        if path.exists() and not path.is_file():
            raise absl_flags.Error(f"--flagfile={path}: is not a file")
        with path.open("rb") as file:
            content = file.read(LARGEST_FLAGFILE + 1)
    except OSError as error:
        raise absl_flags.Error(f"--flagfile={path}: cannot be read ({error.strerror})") from None
    if len(content) > LARGEST_FLAGFILE:
        raise absl_flags.Error(f"--flagfile={path}: is above {LARGEST_FLAGFILE:,} bytes")
    try:
        lines = [line.strip() for line in io.StringIO(content.decode(), newline=None)]
    except UnicodeDecodeError as error:
        raise absl_flags.Error(
            f"--flagfile={path}: is not text in UTF-8 ({error.reason})"
        ) from None
    flags = [line for line in lines if line and not line.startswith(("#", "//"))]
    if not flags:
        raise absl_flags.Error(f"--flagfile={path}: has no flag in it")
    return _with_files_read(flags, [*including, path])
