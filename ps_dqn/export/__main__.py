"""Hands a run's network to TensorFlow: `python -m ps_dqn.export --run_dir=… --output=…`.

It writes the weights of a checkpoint as a `tf.train.Checkpoint` with the layers' names and as
Keras's `.weights.h5`. It needs the run directory alone.
"""

import os
import pathlib
from collections.abc import Sequence

from absl import flags as absl_flags

from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, experiment, run_folder
from ps_dqn.run import directory

FLAGS = ("run_dir", "trust_run_dir", "checkpoint", "output")


def main(argv: Sequence[str]) -> int:
    """Reads the command line and exports; returns the exit code."""
    values = _define()
    if command_line.asks_for_help(argv):
        command_line.print_help(
            values,
            "python -m ps_dqn.export",
            "Writes a run's network as a tf.train.Checkpoint and as Keras weights.",
            {"What to write.": FLAGS},
        )
        return 0
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        folder = run_folder.parse(values, argv)
        if not values.output:
            raise UsageError("--output=: name the folder to write to")
        return _export(values, folder)
    except (absl_flags.Error, UsageError) as error:
        command_line.refuse(error)


def _define() -> absl_flags.FlagValues:
    values = run_folder.new_flags("write")
    absl_flags.DEFINE_string(
        "output", "", "The folder to write to; it is made if need be.", flag_values=values
    )
    return values


def _export(values: absl_flags.FlagValues, folder: pathlib.Path) -> int:
    from ps_dqn.run import terminal
    from ps_dqn.run.checkpoints import Checkpoints

    config, output = experiment.read(values), pathlib.Path(values.output)
    checkpoints = Checkpoints(folder / directory.CHECKPOINTS, config.run.keep_checkpoints)
    checkpoint = checkpoints.find(values.checkpoint)
    try:
        output.mkdir(parents=True, exist_ok=True)
        console = terminal.redirect_to(folder / directory.LOGS / "export.log")
    except OSError as error:
        raise UsageError(f"--output={output}: {error.filename}: {error.strerror}") from None
    from ps_dqn import environments, networks
    from ps_dqn.networks import weights

    environment = environments.describe(config.environment)
    network = networks.build(config.network, config.value, environment, config.run.seed)
    network.assign(checkpoint.state.average)
    files = weights.save(network.as_keras(), output)
    env_steps = checkpoint.state.counters.env_steps
    terminal.say(console, f"{checkpoint.path.name} of {env_steps:,} env steps, its average:")
    for path in files:
        terminal.say(console, f"  {path}")
    return 0


if __name__ == "__main__":
    command_line.run_main(main)
