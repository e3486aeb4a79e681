"""Shows how a run's policy plays: `python -m ps_dqn.watch RUN`.

In a window, or with --video in a film. It needs the run directory alone, and may run beside a
training that goes on.
"""

import pathlib
from collections.abc import Sequence

from absl import flags as absl_flags

from ps_dqn.cluster import lifeline
from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, experiment, run_folder
from ps_dqn.run import directory, libraries, paths

FLAGS = (
    "run_dir",
    "trust_run_dir",
    "checkpoint",
    "video",
    "preview",
    "q_values",
    "episodes",
    "episode_seed",
)

# Flags that would have no effect here, and what to say instead.
IN_VAIN = run_folder.NO_PRESET | {"seed": "say --episode_seed"}


def main(argv: Sequence[str]) -> int:
    """Reads the command line and shows episodes; returns the exit code."""
    values = _define()
    if command_line.asks_for_help(argv):
        command_line.print_help(
            values,
            "python -m ps_dqn.watch [RUN]",
            "Shows greedy episodes with a checkpoint of a run, in a window or a film.",
            {"What to show.": FLAGS},
        )
        return 0
    libraries.set_up()
    lifeline.hold_if_given()  # a film that a run makes ends with it
    try:
        argv = run_folder.named_first(argv)
        command_line.parse(values, argv)
        run_folder.refuse_in_vain(values, IN_VAIN)
        folder = run_folder.parse(values, argv)
        if values.q_values and not values.video:
            raise UsageError(
                "--q_values: needs --video=film.mp4: a window is drawn by the environment itself"
            )
        if values.preview and not values.video:
            raise UsageError("--preview: needs --video=film.mp4, which it is a small form of")
        return _show(values, folder)
    except (absl_flags.Error, UsageError) as error:
        command_line.refuse(error)


def _define() -> absl_flags.FlagValues:
    values = run_folder.new_flags("show")
    absl_flags.DEFINE_string(
        "video",
        "",
        "Write a film to this file, .mp4 or .gif, rather than open a window.",
        flag_values=values,
    )
    absl_flags.DEFINE_string(
        "preview",
        "",
        "Beside --video, write a small film to this file, .gif, which TensorBoard and web pages "
        "show as a picture.",
        flag_values=values,
    )
    absl_flags.DEFINE_bool(
        "q_values", False, "Draw the Q-values of the actions beside the film.", flag_values=values
    )
    absl_flags.DEFINE_integer(
        "episodes", 1, "How many episodes to show (episodes).", 1, flag_values=values
    )
    absl_flags.DEFINE_integer(
        "episode_seed",
        1_000_003,
        "Seed of the first episode; each one after it has the next.",
        0,
        flag_values=values,
    )
    return values


def _show(values: absl_flags.FlagValues, folder: pathlib.Path) -> int:
    from ps_dqn.environments import interface, overdue, rendering
    from ps_dqn.evaluator import film_files
    from ps_dqn.run import optional_imports, stages, terminal
    from ps_dqn.run.checkpoints import Checkpoints

    config = experiment.read(values)
    video = paths.named("--video", values.video) if values.video else None
    preview = paths.named("--preview", values.preview) if values.preview else None
    checkpoints = Checkpoints(folder / directory.CHECKPOINTS, config.run.keep_checkpoints)
    checkpoint = checkpoints.find(values.checkpoint)
    if video is None:
        rendering.require_display()
    else:
        film_files.check(video, preview)
    console = terminal.redirect_to(folder / directory.LOGS / "watch.log")

    def say(line: str) -> None:
        terminal.say(console, line)

    overdue.watch(say)
    try:
        with stages.stage("importing TensorFlow", say), optional_imports.hidden():
            from ps_dqn.evaluator import film
        viewer = film.Viewer(config, video, values.q_values, preview, interface.read(folder))
        env_steps = checkpoint.state.counters.env_steps
        say(f"{config.environment.env_id}, {checkpoint.path.name} of {env_steps:,} env steps:")
        number = 0

        def hear(episode: film.Episode) -> None:
            nonlocal number
            number += 1
            say(f"episode {number}: return {episode.episode_return:.1f}, {episode.length:,} steps")

        with stages.stage("playing", say), rendering.drawn(config.environment.env_id):
            viewer.show(checkpoint, values.episodes, values.episode_seed, hear)
    except UsageError as error:  # standard error is the log by now
        say(f"error: {error}")
        return command_line.WRONG_USAGE
    if video is not None:
        say(f"the film is {video}")
    return 0


if __name__ == "__main__":
    command_line.run_main(main)
