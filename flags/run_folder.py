"""The command line of what works on a run's folder: its flags over those the run was made with."""

import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from absl import flags as absl_flags

from ps_dqn.config import Config
from ps_dqn.errors import FolderError, UsageError
from ps_dqn.flags import command_line, counts, experiment, tasks
from ps_dqn.run import directory, disk, paths

if TYPE_CHECKING:
    from ps_dqn.run.checkpoints import Checkpoint

# Flags that may name a module to import, and which of their values do.
CODE: dict[str, Callable[[str], bool]] = {
    "env_module": bool,
    "env_wrappers": bool,
    "network": lambda value: ":" in value,
    "env_id": lambda value: ":" in value,
}
# Flags that a run keeps when it goes on, and why.
MASK = "its mask follows that schedule from the beginning"
KEPT = {
    "env_id": "its parameters and scores are of that environment",
    **dict.fromkeys(("pruning", "pruning_start", "pruning_end", "pruning_changes"), MASK),
    **dict.fromkeys(("sparsity", "sparsity_distribution", "rigl_fraction"), MASK),
}
# A preset is a run's own, which its flagfile has.
NO_PRESET = {"preset": "the run's own flags hold: leave it out"}


def new_flags(purpose: str) -> absl_flags.FlagValues:
    """All flags that a run's flagfile may hold, `--run_dir` and `--checkpoint`.

    Args:
        purpose: what is done with the checkpoint, for the help: "play".
    """
    values = command_line.new_flags()
    experiment.define(values)
    tasks.define_addresses(values)
    tasks.define_placement(values)
    define_folder(values, purpose)
    return values


def define_folder(values: absl_flags.FlagValues, purpose: str) -> None:
    """`--run_dir`, `--checkpoint` and whom to trust; see `new_flags`."""
    absl_flags.DEFINE_string("run_dir", "", "The run's folder.", flag_values=values)
    define_trust(values)
    absl_flags.DEFINE_enum(
        "checkpoint",
        "best",
        ["best", "newest"],
        f"Which checkpoint to {purpose}.",
        flag_values=values,
    )


def define_episodes(values: absl_flags.FlagValues) -> None:
    """How many episodes a policy is judged by, and which."""
    absl_flags.DEFINE_integer(
        "episodes", 100, "How many episodes to play (episodes).", 1, flag_values=values
    )
    absl_flags.DEFINE_integer(
        "evaluation_seed",
        1_000_003,
        "Seed of the episodes; no evaluation of a training uses these.",
        0,
        flag_values=values,
    )


def as_flagfile(
    values: absl_flags.FlagValues, also: Sequence[str] = (), without: Sequence[str] = ()
) -> str:
    """The flagfile of a run with these flags.

    Args:
        values: the flags.
        also: others that it is to have.
        without: options that it is not to have.
    """
    implied = counts.implied(values)
    placement = [name for name in tasks.PLACEMENT if name not in implied]
    options = [name for name in experiment.names() if name not in without]
    return command_line.as_flagfile(values, [*options, *placement, *also])


def check_goes_on(folder: pathlib.Path, flagfile: str) -> None:
    """Refuses flags with which the run in a folder cannot go on.

    Args:
        folder: of the run.
        flagfile: of all flags that it is to go on with.

    Raises:
        UsageError: with the flag, and what it was.
    """
    before = _by_name(_content(folder / directory.FLAGFILE))
    for name, value in _by_name(flagfile).items():
        if name in KEPT and _plain(before.get(name, value)) != _plain(value):
            raise UsageError(
                f"--{name}={value}: the run in {folder} was begun with {before[name]}, and "
                f"{KEPT[name]}: leave it out, or say another --run_dir"
            )


def _content(flagfile: pathlib.Path) -> str:
    """The text of a run's flagfile.

    Raises:
        FolderError: it cannot be read.
    """
    try:
        return flagfile.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise FolderError(f"{flagfile}: cannot be read ({disk.reason(error)})") from None


def _plain(value: str) -> str:
    """A value without the module of a class, which may be imported from elsewhere by now."""
    return value.rpartition(":")[2]


def _by_name(flagfile: str) -> dict[str, str]:
    """Values of those flags of a flagfile that have some."""
    lines = (line.removeprefix("--").partition("=") for line in flagfile.splitlines())
    return {name: value for name, _, value in lines}


def refuse_in_vain(values: absl_flags.FlagValues, in_vain: Mapping[str, str]) -> None:
    """Refuses flags that would have no effect, of a parsed command line.

    Args:
        values: its flags.
        in_vain: names of such flags, and what to do instead.

    Raises:
        UsageError: one is said.
    """
    for name, instead in in_vain.items():
        if values[name].present:
            said = values[name].value
            said = ",".join(said) if isinstance(said, list) else said
            raise UsageError(f"--{name}={said}: has no effect here; {instead}")


def parse(values: absl_flags.FlagValues, argv: Sequence[str]) -> pathlib.Path:
    """Parses a command line over the run's flagfile; the run's folder.

    Raises:
        absl.flags.Error: a flag is unknown or its value cannot be read.
        UsageError: there is no run that can be looked at, or `--env_kwargs` would have no effect on
            its evaluations.
    """
    command_line.parse(values, argv)
    folder = paths.named("--run_dir", values.run_dir)
    flagfile = folder / directory.FLAGFILE
    if not values.run_dir or not flagfile.exists():
        raise UsageError(f"--run_dir={values.run_dir}: is not the folder of a run")
    parse_over(folder, values, argv)
    if values["env_kwargs"].present and values.eval_env_kwargs:
        raise UsageError(
            f"--env_kwargs={values.env_kwargs}: has no effect, as evaluations of this run have "
            f"--eval_env_kwargs={values.eval_env_kwargs}: say that instead"
        )
    return folder


def named_first(argv: Sequence[str]) -> list[str]:
    """A command line whose first word may be the run's folder, without a flag.

    Raises:
        UsageError: the folder is said twice.
    """
    if len(argv) < 2 or argv[1].startswith("-"):
        return list(argv)
    if any(word.lstrip("-").partition("=")[0] == "run_dir" for word in argv[2:]):
        raise UsageError(f"--run_dir: the run's folder is said twice, as {argv[1]!r} too")
    return [argv[0], f"--run_dir={argv[1]}", *argv[2:]]


def read(
    folder: pathlib.Path, checkpoint: str = "best", trust: bool = False
) -> tuple[Config, "Checkpoint"]:
    """The experiment of a run's folder and one of its checkpoints, without a command line.

    Args:
        folder: of the run.
        checkpoint: "best" or "newest".
        trust: import what the folder's flags name although it is another user's.

    Raises:
        UsageError: there is no run or no such checkpoint, or the folder is another user's and
            would have their code run.
    """
    values = new_flags("read")
    words = [f"--run_dir={folder}", f"--checkpoint={checkpoint}", f"--trust_run_dir={trust}"]
    try:
        found = parse(values, ["read", *words])
    except absl_flags.Error as error:
        raise UsageError(str(error)) from None
    return of_values(values, found)


def of_values(values: absl_flags.FlagValues, folder: pathlib.Path) -> tuple[Config, "Checkpoint"]:
    """The experiment of parsed flags, and the checkpoint that `--checkpoint` names.

    Raises:
        UsageError: a value does not go with another, or there is no such checkpoint.
    """
    from ps_dqn.run.checkpoints import Checkpoints  # which needs NumPy

    config = experiment.read(values)
    checkpoints = Checkpoints(folder / directory.CHECKPOINTS, config.run.keep_checkpoints)
    return config, checkpoints.find(values.checkpoint)


def define_trust(values: absl_flags.FlagValues) -> None:
    """The flag that lets a run's folder of another user's name what is imported."""
    absl_flags.DEFINE_bool(
        "trust_run_dir",
        False,
        "Import what the flags in --run_dir name (--env_module, --env_wrappers, --network, and "
        "--env_id with a module) although the folder is another user's.",
        flag_values=values,
    )


def parse_over(folder: pathlib.Path, values: absl_flags.FlagValues, argv: Sequence[str]) -> None:
    """Parses a command line over the flagfile in a run's folder.

    Raises:
        absl.flags.Error: a flag is unknown or its value cannot be read.
        FolderError: the flagfile cannot be read, whatever is in it.
        UsageError: the folder is another user's, and would have their code run.
    """
    flagfile = folder / directory.FLAGFILE
    _content(flagfile)  # or it is said that the folder is at fault, and not the flags
    said = {name: values[name].value for name in CODE}
    is_trusted = values.trust_run_dir  # by this command line; the folder cannot say so itself
    command_line.parse_over(flagfile, values, argv)
    for name, names_code in CODE.items():
        value = str(values[name].value)
        if value == said[name] or not names_code(value) or is_trusted:
            continue
        if flagfile.stat().st_uid != os.getuid():
            raise UsageError(
                f"--{name}={value}: is said by {flagfile}, which another user has written, and "
                f"would run their code: say it again on the command line, or --trust_run_dir"
            )
