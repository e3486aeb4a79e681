"""Hands a run's network to other programs: `python -m ps_dqn.export RUN --format=… --output=…`.

It writes the network of a checkpoint as a Keras model, a SavedModel, for LiteRT, as ONNX or for
NumPy: from what the environment returns to the action that it is given. Or its weights alone. What
it wrote it reads again, and compares with the run's own network.
"""

import importlib.util
import pathlib
from collections.abc import Sequence

from absl import flags as absl_flags

from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, run_folder
from ps_dqn.run import directory, libraries, optional_imports, paths
from ps_dqn.run.signals import WRONG_USAGE

FLAGS = (
    *("run_dir", "trust_run_dir", "checkpoint", "format", "output"),
    *("int8", "num_observations", "observations"),
)
FORMATS = ("weights", "keras", "savedmodel", "litert", "onnx", "npz", "sparse")
# Packages of formats, as they are imported.
NEEDED = {"litert": ("ai_edge_litert",), "onnx": ("tf2onnx", "onnxruntime")}


def main(argv: Sequence[str]) -> int:
    """Reads the command line and exports; returns the exit code."""
    values = _define()
    if command_line.asks_for_help(argv):
        command_line.print_help(
            values,
            "python -m ps_dqn.export [RUN]",
            "Writes a run's network for other programs.",
            {"What to write.": FLAGS},
        )
        return 0
    libraries.set_up()
    try:
        folder = run_folder.parse(values, run_folder.named_first(argv))
        _check(values)
        return _export(values, folder)
    except (absl_flags.Error, UsageError) as error:
        command_line.refuse(error)


def _define() -> absl_flags.FlagValues:
    values = run_folder.new_flags("write")
    absl_flags.DEFINE_enum(
        "format",
        "weights",
        list(FORMATS),
        "weights: the layers' weights alone, for TensorFlow and Keras; or the whole way from raw "
        "observations to actions, as a Keras model (keras), a SavedModel for TensorFlow Serving "
        "(savedmodel), for LiteRT (litert), as ONNX (onnx), or for NumPy alone, of dense layers "
        "and convolutions over one array (npz; sparse: without the zeros of a run with --pruning).",
        flag_values=values,
    )
    absl_flags.DEFINE_string(
        "output", "", "The folder to write to; it is made if need be.", flag_values=values
    )
    absl_flags.DEFINE_enum(
        "int8",
        "none",
        ["none", "dynamic", "full"],
        "With --format=litert: weights of 8 bits (dynamic), and numbers between layers too, whose "
        "ranges are found by the observations (full). How many actions stay the same is printed.",
        flag_values=values,
    )
    absl_flags.DEFINE_integer(
        "num_observations",
        1000,
        "Observations that are played in the run's environment, to compare what was written with "
        "the run's own network (observations).",
        1,
        flag_values=values,
    )
    absl_flags.DEFINE_string(
        "observations",
        "",
        "File of observations to compare on instead, which another export has left beside its "
        "network: then the environment is not needed.",
        flag_values=values,
    )
    return values


def _check(values: absl_flags.FlagValues) -> None:
    """Refuses what cannot be written."""
    form = values.format
    if not values.output:
        raise UsageError("--output=: name the folder to write to")
    if values.int8 != "none" and form != "litert":
        raise UsageError(
            f"--int8={values.int8}: has no effect with --format={form}; leave it out, or say "
            f"--format=litert"
        )
    for name in ("observations", "num_observations"):
        if values[name].present and form == "weights":
            raise UsageError(f"--{name}={values[name].value}: has no effect with --format=weights")
    if values.observations and values["num_observations"].present:
        raise UsageError(
            f"--num_observations={values.num_observations}: has no effect with --observations, "
            f"whose file has as many as it has; leave it out"
        )
    missing = [name for name in NEEDED.get(form, ()) if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f'--format={form}: needs {" and ".join(missing)}: pip install "ps-dqn[export]"'
        )


def _export(values: absl_flags.FlagValues, folder: pathlib.Path) -> int:
    from ps_dqn.environments import overdue
    from ps_dqn.run import outputs, stages, terminal

    config, checkpoint = run_folder.of_values(values, folder)
    output = paths.named("--output", values.output)
    observations = values.observations
    given = paths.named("--observations", observations) if observations else None
    if given and not given.is_file():
        raise UsageError(f"--observations={given}: there is no such file")
    outputs.make_folder(output, f"--output={output}")
    console = terminal.redirect_to(folder / directory.LOGS / "export.log")

    def say(line: str) -> None:
        terminal.say(console, line)

    overdue.watch(say)
    try:
        with stages.stage("importing TensorFlow", say), optional_imports.hidden():
            from ps_dqn.export import exporting

        wanted = exporting.Wanted(
            values.format, values.int8, output, values.num_observations, given
        )
        return exporting.export(config, folder, checkpoint, wanted, say)
    except UsageError as error:
        say(f"error: {error}")  # standard error is the log by now
        return WRONG_USAGE


if __name__ == "__main__":
    command_line.run_main(main)
