"""Presets: flagfiles of this package, by name, of algorithms and of problems.

A problem's says which environment it is and what suits that. An algorithm's says what makes it that
algorithm, so it goes before a problem's wherever both say something, in whatever order they are
named; of one kind the later goes before the earlier. Where a pair was measured with something else,
a file in `pairs` says so. What a preset says goes before nothing that a person says; and what has
no effect beside the others is left out, as the person did not ask for it.
"""

import functools
import pathlib
from collections.abc import Iterable, Sequence

from absl import flags as absl_flags

from ps_dqn import config as configuration
from ps_dqn.config import options
from ps_dqn.flags import experiment, naming
from ps_dqn.run import paths

PRESETS = pathlib.Path(__file__).resolve().parent / "presets"
PAIRS = PRESETS / "pairs"
# The problem of the default environment; an algorithm's preset alone is meant for it.
DEFAULT_PROBLEM = "cartpole"
# Problems whose presets say an algorithm too, and where else to find each problem by itself.
WHOLE = {"atari_fast": "atari", "btr": "atari"}


def all_names() -> list[str]:
    """The presets there are."""
    return sorted(path.stem for path in PRESETS.glob("*.flags"))


def is_problem(name: str) -> bool:
    """Whether a preset says which environment it is for."""
    return "env_id" in _read(PRESETS / f"{name}.flags")


def summary(name: str) -> str:
    """What a preset's file says of itself first."""
    first = (PRESETS / f"{name}.flags").read_text(encoding="utf-8").splitlines()[0]
    return first.removeprefix("# ")


def name_of(flagfile: str) -> str:
    """The preset that a flagfile is; no text if it is none."""
    with paths.looking(f"--flagfile={flagfile}"):
        path = paths.named("--flagfile", flagfile).resolve()
    return path.stem if path.parent == PRESETS and path.suffix == ".flags" else ""


def complete(named: Iterable[str], env_id: str) -> list[str]:
    """Names of presets, one by one, with that of the default problem where it is meant.

    Args:
        named: names, comma separated.
        env_id: the environment that is acted in, beside what presets say.

    Raises:
        absl.flags.Error: there is no such preset, or two do not go together.
    """
    names = [name for names in named for name in map(str.strip, names.split(",")) if name]
    for name in names:
        if name not in all_names():
            near = naming.nearest(name, all_names())
            lists = naming.program_named("presets")
            raise absl_flags.Error(
                f"--preset={','.join(names)}: there is no preset {name}{near} {lists} lists them"
            )
    algorithms = [name for name in names if not is_problem(name)]
    whole = [name for name in names if name in WHOLE]
    if whole and algorithms:
        name, other = whole[0], algorithms[0]
        raise absl_flags.Error(
            f"--preset={','.join(names)}: {name} is an algorithm and a problem, and has no room "
            f"for {other}; --preset={other},{WHOLE[name]} is the problem with it"
        )
    is_default = env_id in _read(PRESETS / f"{DEFAULT_PROBLEM}.flags")["env_id"]
    if is_default and names and names == algorithms:
        names.append(DEFAULT_PROBLEM)
    return names


def words(names: Sequence[str], said: Sequence[str]) -> list[str]:
    """What presets stand for, as flags to be put before what a person says.

    Args:
        names: of the presets, complete.
        said: the person's flags; what is no flag of an experiment is left alone.
    """
    found: dict[str, str] = {}
    problems = [name for name in names if is_problem(name)]
    algorithms = [name for name in names if name not in problems]
    for name in [*problems, *algorithms]:
        found |= _read(PRESETS / f"{name}.flags")
    for name in algorithms:
        found |= _read(PAIRS / f"{(problems or [''])[-1]}+{name}.flags")
    while inert := _inert(found, said):
        found = {name: word for name, word in found.items() if name not in inert}
    return list(found.values())


def _read(path: pathlib.Path) -> dict[str, str]:
    """The flags of a file, each as it is written, by name; none where there is no file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    flags = [line.strip() for line in lines if line.startswith("--")]
    return {line.partition("=")[0].removeprefix("--"): line for line in flags}


def _inert(found: dict[str, str], said: Sequence[str]) -> set[str]:
    """Which of these flags have no effect beside the others, and are not what a person says."""
    try:
        values = _parsed(said)
        own = {name for name in values if values[name].present}
        values = _parsed([*found.values(), *said])
    except (absl_flags.Error, ValueError):  # the same is found again, and told of, later
        return set()
    chosen = {name: values[name].value for name in values}
    return {
        field.name
        for field in options.without_effect(configuration.fields(), chosen)
        if field.name in found and field.name not in own
    }


def _parsed(given: Sequence[str]) -> absl_flags.FlagValues:
    """An experiment's options as these words say them, until the next ones are parsed."""
    values = _options()
    values.unparse_flags()
    flags = [word.strip() for word in given if word.strip().startswith("-")]
    values(["program", *flags], known_only=True)
    return values


@functools.cache
def _options() -> absl_flags.FlagValues:
    """To define them takes longer than to parse them."""
    values = absl_flags.FlagValues()
    experiment.define_options(values)
    return values
