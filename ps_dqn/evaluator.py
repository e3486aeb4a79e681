"""Plays greedy episodes with a saved checkpoint: `python -m ps_dqn.evaluator --run_dir=…`.

It needs the run directory alone, no cluster, and may run beside a training that goes on.
"""

import dataclasses
import os
import pathlib
from collections.abc import Sequence

from absl import flags as absl_flags

from flags import command_line, experiment, tasks
from ps_dqn import run_directory
from ps_dqn.errors import UsageError

FLAGS = ("run_dir", "checkpoint", "episodes", "evaluation_seed")


def main(argv: Sequence[str]) -> int:
    """Reads the command line and evaluates; returns the exit code."""
    values = _define()
    if command_line.asks_for_help(argv):
        command_line.print_help(
            values,
            "python -m ps_dqn.evaluator",
            "Plays greedy episodes with a checkpoint of a run.",
            {"What to play.": FLAGS},
        )
        return 0
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        command_line.parse(values, argv)
        folder = pathlib.Path(values.run_dir)
        flagfile = folder / run_directory.FLAGFILE
        if not values.run_dir or not flagfile.exists():
            raise UsageError(f"--run_dir={values.run_dir}: is not the folder of a run")
        command_line.parse(values, [argv[0], f"--flagfile={flagfile}", *argv[1:]])
        return _evaluate(values, folder)
    except (absl_flags.Error, UsageError) as error:
        command_line.refuse(error)


def _define() -> absl_flags.FlagValues:
    values = command_line.new_flags()
    experiment.define(values)
    tasks.define_addresses(values)
    tasks.define_placement(values)
    absl_flags.DEFINE_string("run_dir", "", "The run's folder.", flag_values=values)
    absl_flags.DEFINE_enum(
        "checkpoint", "best", ["best", "newest"], "Which checkpoint to play.", flag_values=values
    )
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
    return values


def _evaluate(values: absl_flags.FlagValues, folder: pathlib.Path) -> int:
    from ps_dqn import environments, terminal
    from ps_dqn.checkpoints import Checkpoints
    from ps_dqn.experience import Evaluation

    config = experiment.read(values)
    config = dataclasses.replace(
        config, run=dataclasses.replace(config.run, eval_episodes=values.episodes)
    )
    environment = environments.describe(config.environment)
    checkpoints = Checkpoints(folder / run_directory.CHECKPOINTS, config.run.keep_checkpoints)
    checkpoint = checkpoints.best() if values.checkpoint == "best" else checkpoints.newest()
    if checkpoint is None:
        raise UsageError(f"--checkpoint={values.checkpoint}: there is none in {folder} yet")
    console = terminal.redirect_to(folder / run_directory.LOGS / "evaluator.log")

    import tensorflow as tf

    from ps_dqn import networks

    network = networks.build(config.network, config.value, environment, config.run.seed)
    parameters = tf.constant(checkpoint.state.average)

    @tf.function(autograph=False)
    def greedy(observations: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return network.act(parameters, observations, state)

    evaluation = Evaluation(config, values.episodes)
    [observations] = evaluation.begin(values.evaluation_seed)
    state, playing = tf.zeros([values.episodes, network.state_size]), values.episodes
    while playing:
        actions, state = greedy(tf.constant(observations), state)
        observations, playing = evaluation.step(actions.numpy())
    returns = evaluation.end()[1]
    counters = checkpoint.state.counters
    console.print(
        f"{config.environment.env_id}, {checkpoint.path.name} of {counters.env_steps:,} env steps: "
        f"{values.episodes} greedy episodes, mean return {returns.mean():.1f}, "
        f"median {sorted(returns)[len(returns) // 2]:.1f}, "
        f"from {returns.min():.1f} to {returns.max():.1f}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    return 0


if __name__ == "__main__":
    command_line.run_main(main)
