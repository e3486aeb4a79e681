"""Plays greedy episodes with a saved checkpoint: `python -m ps_dqn.evaluator RUN`.

It needs the run directory alone, no cluster, and may run beside a training that goes on.
"""

import dataclasses
import math
import pathlib
import signal
import time
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from absl import flags as absl_flags

from ps_dqn.cluster import health
from ps_dqn.config import Config
from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, experiment, run_folder
from ps_dqn.run import directory, libraries, paths, signals

FLAGS = (
    "run_dir",
    "trust_run_dir",
    "checkpoint",
    "follow",
    "episodes",
    "evaluation_seed",
    "health_port",
)
# Flags that would have no effect here, and what to say instead.
IN_VAIN = run_folder.NO_PRESET | {
    "eval_episodes": "say --episodes",
    "seed": "say --evaluation_seed",
}
# From one look for a run to the next (seconds).
PERIOD = 1.0


def main(argv: Sequence[str]) -> int:
    """Reads the command line and evaluates; returns the exit code."""
    values = _define()
    if command_line.asks_for_help(argv):
        command_line.print_help(
            values,
            "python -m ps_dqn.evaluator [RUN]",
            "Plays greedy episodes with a checkpoint of a run.",
            {"What to play.": FLAGS},
        )
        return 0
    libraries.set_up()
    try:
        argv = run_folder.named_first(argv)
        command_line.parse(values, argv)
        run_folder.refuse_in_vain(values, IN_VAIN)
        progress = _Progress()
        if values.follow:
            _begin_to_follow(values, progress)
        elif values.health_port:
            raise UsageError(
                f"--health_port={values.health_port}: has no effect without --follow; leave it out"
            )
        return _evaluate(values, run_folder.parse(values, argv), progress, argv)
    except _ToldToLeaveError:
        return signals.START_AGAIN
    except (absl_flags.Error, UsageError, health.HealthError) as error:
        command_line.refuse(error)


class _ToldToLeaveError(KeyboardInterrupt):
    """SIGTERM; like Ctrl-C it is no failure of the environment that is stepped just then."""


class _Progress:
    """What Prometheus is told; read by the health server's thread."""

    def __init__(self) -> None:
        self._last, self._evaluations = (math.nan, math.nan), 0

    def add(self, mean_return: float, env_steps: int) -> None:
        """Another checkpoint has been played."""
        self._last, self._evaluations = (mean_return, env_steps), self._evaluations + 1

    def collector(self) -> Any:
        """A Prometheus collector of it."""
        from ps_dqn.telemetry import prometheus
        from ps_dqn.telemetry.figures import EvaluatorFigures

        return prometheus.evaluator(lambda: EvaluatorFigures(*self._last, self._evaluations))


def _begin_to_follow(values: absl_flags.FlagValues, progress: _Progress) -> None:
    """Answers probes and waits for the run."""
    if not values.run_dir:
        raise UsageError("--run_dir is missing: say which run to follow; it need not be there yet")
    if values["checkpoint"].present:
        raise UsageError(
            f"--checkpoint={values.checkpoint}: has no effect with --follow, which plays every "
            f"newest one; leave it out"
        )
    if values.health_port:
        health.start(values.health_port, lambda: "", lambda: "", progress.collector())
    # What is process 1 of a container ignores the signals that it does not handle.
    signal.signal(signal.SIGTERM, _leave)
    flagfile = paths.named("--run_dir", values.run_dir) / directory.FLAGFILE
    if not flagfile.exists():
        print(f"waiting for a run in {values.run_dir}", flush=True)
    while not flagfile.exists():
        time.sleep(PERIOD)


def _leave(number: int, frame: object) -> NoReturn:
    raise _ToldToLeaveError


def _define() -> absl_flags.FlagValues:
    values = run_folder.new_flags("play")
    absl_flags.DEFINE_bool(
        "follow",
        False,
        "Wait for the run, play every newest checkpoint it leaves until it has ended, and keep "
        f"what came of it in its {directory.EVALUATIONS}.",
        flag_values=values,
    )
    run_folder.define_episodes(values)
    return values


def _evaluate(
    values: absl_flags.FlagValues, folder: pathlib.Path, progress: _Progress, argv: Sequence[str]
) -> int:
    from ps_dqn.environments import interface, overdue
    from ps_dqn.run import optional_imports, outputs, stages, terminal
    from ps_dqn.run.checkpoints import Checkpoint, Checkpoints

    written, config = _written(folder), _config(values)
    checkpoints = Checkpoints(folder / directory.CHECKPOINTS, config.run.keep_checkpoints)
    found: Iterable[Checkpoint]
    if not values.follow:
        found = [checkpoints.find(values.checkpoint)]
    else:
        path = folder / directory.EVALUATIONS
        outputs.check_file(path, f"--follow: {path}")
    console = terminal.redirect_to(folder / directory.LOGS / "evaluator.log")

    def say(line: str) -> None:
        terminal.say(console, line)

    overdue.watch(say)
    try:
        with stages.stage("importing TensorFlow", say), optional_imports.hidden():
            from ps_dqn.evaluator import checkpoint_player, following
            from ps_dqn.evaluator.score_table import ScoreTable
        table = ScoreTable(folder, say)
        if values.follow:
            period = config.run.checkpoint_period
            found = following.new_checkpoints(folder, checkpoints, table, period, say)
        plays = values.episodes, values.evaluation_seed
        player = checkpoint_player.CheckpointPlayer(config, *plays, interface.read(folder))
        for checkpoint in found:
            if written != (written := _written(folder) or written):  # it goes on with other flags
                again = _define()
                run_folder.parse(again, argv)
                config = _config(again)
                player.close()
                player = checkpoint_player.CheckpointPlayer(config, *plays, interface.read(folder))
            with stages.stage(f"playing {checkpoint.path.name}", say):
                score = player.play(checkpoint)
            if values.follow:
                table.add(score)
                progress.add(score.returns.mean(), checkpoint.state.counters.env_steps)
            say(f"{config.environment.env_id}, {score.describe()}")
    except (absl_flags.Error, UsageError) as error:  # standard error is the log by now
        say(f"error: {error}")
        return signals.WRONG_USAGE
    if why := table.close():
        say(
            f"error: {directory.EVALUATIONS} lacks what was played last ({why}): make room, and "
            f"start the evaluator again"
        )
        return signals.FAILED
    return 0


def _config(values: absl_flags.FlagValues) -> Config:
    """What is played by parsed flags."""
    config = experiment.read(values)
    run = dataclasses.replace(config.run, eval_episodes=values.episodes)
    return dataclasses.replace(config, run=run)


def _written(folder: pathlib.Path) -> list[bytes]:
    """What a run's folder says of what is played in it; nothing where it cannot be read now."""
    from ps_dqn.environments import interface  # which needs NumPy

    found = (folder / name for name in (directory.FLAGFILE, interface.FILE))
    try:
        return [path.read_bytes() for path in found if path.exists()]
    except OSError:
        return []


if __name__ == "__main__":
    command_line.run_main(main)
