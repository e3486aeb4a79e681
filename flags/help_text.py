"""What `--help` prints: the flags by topic."""

import contextlib
import os
import textwrap
from collections.abc import Mapping, Sequence

from absl import flags as absl_flags

from ps_dqn.flags import naming

ALL = "all"
_PLAIN = ("--help", "-h", "-help")
_INDENT = " " * 6
# What absl puts behind the help of flags that may be said several times.
_REPEATED = ";\n    repeat this option to specify a list of values"


def asks_for_help(argv: Sequence[str]) -> bool:
    """Whether a person asks what the flags are."""
    return _asked_for(argv) is not None


def print_help(
    values: absl_flags.FlagValues,
    program: str,
    summary: str,
    topics: Mapping[str, Sequence[str]],
    argv: Sequence[str] = (),
    first: Sequence[str] = (),
    words: Mapping[str, str] | None = None,
) -> None:
    """Prints the flags by topic: all, or those that are asked for.

    Args:
        values: where the flags are defined.
        program: how it is called as a module.
        summary: one line that says what it does.
        topics: a title and the names of its flags.
        argv: the command line, which may ask for a topic or a flag: `--help=replay`.
        first: flags that are shown where nothing more is asked for; none: all are.
        words: what topics are asked for by, and their titles.

    Raises:
        absl.flags.Error: there is nothing of the name that is asked for.
    """
    words = words or {}
    asked = _asked_for(argv) or ("" if first else ALL)
    lines = [f"{naming.this_program(program)} [--flag=value …]", "", summary, ""]
    if not asked:
        lines += [*_flags(values, first), "", *_more(words)]
    elif asked == ALL:
        for title, names in topics.items():
            lines += [title, *_flags(values, names), ""]
    elif asked in words:
        lines += [words[asked], *_flags(values, topics[words[asked]])]
    elif asked in {name for names in topics.values() for name in names}:
        lines += _flags(values, [asked])
    else:
        known = [*words, *(name for names in topics.values() for name in names)]
        near = naming.nearest(asked, known)
        raise absl_flags.Error(
            f"--help={asked}: there is no such topic or flag{near} --help lists the topics"
        )
    show("\n".join(lines).rstrip("\n"))


def show(text: str) -> None:
    """Prints a text for a reader who need not read all of it, as `head` does."""
    with contextlib.suppress(BrokenPipeError):
        print(text, flush=True)


def _asked_for(argv: Sequence[str]) -> str | None:
    """The topic or flag that a person asks for; no text: none in particular; None: no help."""
    for word in argv[1:]:
        name, equals, topic = word.partition("=")
        if name in _PLAIN:
            return topic.lstrip("-") if equals else ""
        if word == "--helpfull":
            return ALL
    return None


def _flags(values: absl_flags.FlagValues, names: Sequence[str]) -> list[str]:
    lines, width = [], min(100, _columns())
    for name in names:
        flag = values[name]
        default = (flag.default_as_str or "none").strip("'") or "none"
        choices = getattr(flag.parser, "enum_values", None)
        shown = f"--[no]{name}" if flag.boolean else f"--{name}"
        detail = f" [{'|'.join(choices)}]" if choices else ""
        lines.append(f"  {shown}{detail} (default {default})")
        text = flag.help.removeprefix(f"<{'|'.join(choices)}>: ") if choices else flag.help
        text = text.removesuffix(_REPEATED)
        lines.append(textwrap.fill(text, width, initial_indent=_INDENT, subsequent_indent=_INDENT))
    return lines


def _more(words: Mapping[str, str]) -> list[str]:
    """How to ask for what is not shown."""
    width = max(map(len, words))
    return [
        "These are the ones to reach for first. --help=all shows all flags, --help=seed one, and "
        "--help=TOPIC",
        "those of a topic:",
        *(f"  {word:{width}}  {title}" for word, title in words.items()),
    ]


def _columns() -> int:
    try:
        return os.get_terminal_size().columns
    except OSError:
        return 100
