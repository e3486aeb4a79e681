"""The flags that say which run on Kubernetes is meant, and what is asked of one that is there."""

from collections.abc import Sequence

from absl import flags as absl_flags

from ps_dqn.config import checks
from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, experiment
from ps_dqn.kubernetes import names
from ps_dqn.kubernetes.names import Place

# What is asked of a run that is there, and the flags of that.
PLACE = ("name", "namespace", "context")
# How many pods of each kind are launched. Other programs call these counts --num_….
COUNTS = ("workers", "ps", "replay_servers")
COMMANDS = {
    "status": ("Shows how the roles of a run on Kubernetes are.", PLACE),
    "logs": ("Shows what a role of a run says.", (*PLACE, "role", "follow", "tail")),
    "stop": (
        "Deletes what was launched of a run; the volume with its results is kept.",
        (*PLACE, "delete_data"),
    ),
    "resize": (
        "Changes the number of workers of a run, which goes on with those.",
        (*PLACE, "workers", "output"),
    ),
}


def define(command: str) -> absl_flags.FlagValues:
    """The flags of one of `COMMANDS`."""
    values = absl_flags.FlagValues()
    define_place(values)
    if command == "logs":
        absl_flags.DEFINE_enum(
            "role", "coordinator", [*names.ROLES], "Whose logs.", flag_values=values
        )
        absl_flags.DEFINE_bool("follow", True, "Wait for what comes.", flag_values=values)
        absl_flags.DEFINE_integer(
            "tail", 100, "How much of what was said before (lines).", 0, flag_values=values
        )
    elif command == "stop":
        absl_flags.DEFINE_bool(
            "delete_data",
            False,
            "Delete the volume too: checkpoints, metrics and logs.",
            flag_values=values,
        )
    elif command == "resize":
        absl_flags.DEFINE_integer("workers", None, "Workers (pods).", 1, flag_values=values)
        absl_flags.DEFINE_string(
            "output",
            "",
            "Folder of the run's overlay, which is changed too, where it is here. Default: "
            "launch/ and the name.",
            flag_values=values,
        )
    return values


def define_place(values: absl_flags.FlagValues) -> None:
    """The flags that say which run, and where it is."""
    strings = {
        "name": ("", "What the run is called: its objects begin with it, its folder is named so."),
        "namespace": (
            "ps-dqn",
            "Kubernetes namespace, which must be there; it may have more runs.",
        ),
        "context": ("", "kubectl's context. Default: its present one."),
    }
    for name, (default, text) in strings.items():
        absl_flags.DEFINE_string(name, default, text, flag_values=values)


def read_place(values: absl_flags.FlagValues) -> Place:
    """The run that is meant.

    Raises:
        UsageError: it has no name, or one that Kubernetes would not take.
    """
    if not values.name:
        raise UsageError(f"--name is missing; it says: {values['name'].help}")
    place = Place(values.name, values.namespace, values.context)
    names.check(place)
    return place


def read_experiment(words: Sequence[str], workers: int, where: str) -> absl_flags.FlagValues:
    """The flags of an experiment, if the coordinator would take it with so many workers.

    Args:
        words: its flags.
        workers: how many there are to be.
        where: where the flags are, for people, or no text.

    Raises:
        UsageError: with what the coordinator would say.
    """
    values = command_line.new_flags()
    experiment.define(values)
    try:
        command_line.parse(values, ["experiment", *words])
        config = experiment.read(values)
        topology = config.topology
        topology.check_learners(workers)
        of_all = topology.num_workers if topology.is_shared else workers
        checks.check_workers(config, of_all, is_remote=True)
        config.shared_by(of_all)
    except absl_flags.UnrecognizedFlagError as error:
        unknown = command_line.UnknownFlagError(error, [*values, *COUNTS])
        raise UsageError(
            f"{where}may have the experiment's flags alone, as the manifests say where tasks and "
            f"files are: {unknown}"
        ) from None
    except (absl_flags.Error, UsageError) as error:
        said = str(error).replace("--num_workers=", "--workers=")
        raise UsageError(said if said.startswith(where) else f"{where}{said}") from None
    return values
