"""Distills a run's network into a smaller one: `python -m ps_dqn.distill RUN --hidden_sizes=32`.

The smaller network, the student, learns to act as the run's best checkpoint does, the teacher, in
observations of the game that one of them plays. What comes of it is the folder of a run.
"""

import contextlib
import dataclasses
import pathlib
import shutil
import time
from collections.abc import Sequence
from typing import Any

from absl import flags as absl_flags
from rich.console import Console

from ps_dqn.config import Group, Network
from ps_dqn.config.distillation import Distillation
from ps_dqn.distill import student
from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, experiment, run_folder
from ps_dqn.run import directory, libraries, lock, optional_imports, paths, stages, terminal
from ps_dqn.run.signals import WRONG_USAGE, Signals

LEARNING = tuple(field.name for field in dataclasses.fields(Distillation))
TOPICS = {
    "What to distill.": ("run_dir", "trust_run_dir", "checkpoint", "output"),
    "The student's network; it is as the run's where nothing is said.": student.SIZES,
    "How it learns.": LEARNING,
    "How both are judged.": ("episodes", "evaluation_seed"),
}
# Flags of which folder, which the run's own are read with.
_FOLDER = ("run_dir", "trust_run_dir", "checkpoint")


def main(argv: Sequence[str]) -> int:
    """Reads the command line and distills; returns the exit code."""
    values = _define()
    if command_line.asks_for_help(argv):
        command_line.print_help(
            values,
            "python -m ps_dqn.distill [RUN]",
            "Makes a smaller network that acts as a run's does; what comes of it is a run, too.",
            TOPICS,
        )
        return 0
    libraries.set_up()
    try:
        command_line.parse(values, run_folder.named_first(argv))
        return _distill(values)
    except (absl_flags.Error, UsageError) as error:
        command_line.refuse(error)


def _define() -> absl_flags.FlagValues:
    values = command_line.new_flags()
    run_folder.define_folder(values, "learn from")
    absl_flags.DEFINE_string(
        "output",
        "",
        "Folder of the student's run. Default: one in the run's folder that is named by the "
        "student, like distilled-32.",
        flag_values=values,
    )
    experiment.define_topic(values, Group("network", Network), student.SIZES)
    for name in student.SIZES:
        values.set_default(name, None)
        values[name].default_as_str = "the run's"
    values.set_default("dueling", False)  # which is not the run's
    experiment.define_topic(values, Group("distillation", Distillation))
    run_folder.define_episodes(values)
    return values


def _distill(values: absl_flags.FlagValues) -> int:
    options = Distillation(**{name: values[name].value for name in LEARNING})
    said = {name: _value(values[name].value) for name in student.SIZES if values[name].present}
    runs = run_folder.new_flags("learn from")
    words = [f"--{name}={values[name].value}" for name in _FOLDER]
    folder = run_folder.parse(runs, ["distill", *words])
    teacher, checkpoint = run_folder.of_values(runs, folder)
    config = student.of(teacher, said, options.seed)
    experiment.assign(runs, config)
    flagfile = f"{directory.DISTILLED}{folder.absolute()}\n{run_folder.as_flagfile(runs)}"
    output = paths.named("--output", values.output or folder / student.name(said))
    is_new = _take(output)
    console = terminal.redirect_to(folder / directory.LOGS / "distill.log")
    is_whole = False
    try:
        signals = _Signals(console)
        from ps_dqn.environments import overdue

        overdue.watch(signals.say)
        importing = stages.stage("importing TensorFlow", signals.say)
        with importing, optional_imports.hidden():
            from ps_dqn.distill import distilling
            from ps_dqn.distill.plan import Plan
        plan = Plan(
            *(folder, teacher, checkpoint, config, options, values.episodes),
            *(values.evaluation_seed, output, flagfile, console),
        )
        distilling.distill(plan, signals.check)
        is_whole = True
        return 0
    except (Exception, SystemExit) as error:
        if signals.code is not None:  # whatever came of it: an import makes an error of its own
            signals.say("stopped before the student had learned: nothing is left of it")
            return signals.code
        if not isinstance(error, UsageError):
            raise
        signals.say(f"error: {error}")  # standard error is the log by now
        return WRONG_USAGE
    finally:
        if not is_whole:
            _leave(output, is_new)


class _Signals:
    """SIGINT and SIGTERM end it, wherever it is."""

    def __init__(self, console: Console):
        self._console = console
        self._signals = Signals(self.say, time.monotonic, lambda: False, lambda: "")

    def say(self, line: str) -> None:
        """A line for people."""
        terminal.say(self._console, line)

    @property
    def code(self) -> int | None:
        """The exit code of a signal that came, if one did."""
        return self._signals.told_code

    def check(self) -> None:
        """Ends it where a signal came while Python could not say so.

        Raises:
            SystemExit: one came.
        """
        if self.code is not None:
            raise SystemExit(self.code)


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _take(output: pathlib.Path) -> bool:
    """Keeps the folder of the student to this process; whether it was not there.

    Raises:
        UsageError: something is in it, or it cannot be written.
    """
    is_new = not output.exists()
    try:
        output.mkdir(parents=True, exist_ok=True)
        if any(path.name != lock.LOCK for path in output.iterdir()):
            raise UsageError(f"--output={output}: is there already: remove it, or say another one")
        lock.hold(output, "--output")
    except OSError as error:
        raise UsageError(f"--output={output}: cannot be written ({error.strerror})") from None
    return is_new


def _leave(output: pathlib.Path, is_new: bool) -> None:
    """Removes what is not whole."""
    for path in output.iterdir():
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
    if is_new:
        with contextlib.suppress(OSError):
            output.rmdir()


if __name__ == "__main__":
    command_line.run_main(main)
