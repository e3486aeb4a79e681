"""How many tasks `python -m ps_dqn.launch k8s` starts of each kind, by its flags."""

from absl import flags as absl_flags

from ps_dqn.errors import UsageError
from ps_dqn.kubernetes.names import COMPONENTS
from ps_dqn.kubernetes.plan import Experiment, ExtraRole


def check(values: absl_flags.FlagValues, run: Experiment) -> None:
    """Refuses flags that say too little, or what this run has not.

    Raises:
        UsageError: with the flag and what to do.
    """
    if run.has_servers:
        check_count(values, "ps")
    else:
        _check_without_servers(values)


def extra_roles(values: absl_flags.FlagValues, run: Experiment) -> tuple[ExtraRole, ...]:
    """The tasks of the run beside workers and parameter servers, if it has any.

    Raises:
        UsageError: with the flag and what to do.
    """
    wanted = values.replay_servers
    if run.topology != "apex" and wanted is not None:
        raise UsageError(
            f"--replay_servers={wanted}: has no effect without --topology=apex; leave it out"
        )
    found = {
        "apex": (
            ExtraRole("ape-x", "replay-server", wanted or 1),
            ExtraRole("ape-x", "actor", run.num_actors),
        ),
        "seed": (ExtraRole("seed", "actor", run.num_actors),),
    }.get(run.topology, ())
    if found and (values.overlay in COMPONENTS or values.tls_image):
        flag = "tls_image" if values.tls_image else "overlay"
        raise UsageError(
            f"--topology={run.topology}: not with --{flag}={values[flag].value}, which gives the "
            f"tasks addresses of its own and knows no {found[0].role.replace('-', ' ')}s; take "
            f"another overlay, without TLS"
        )
    return found


def check_count(values: absl_flags.FlagValues, name: str) -> None:
    """Refuses a command line that does not say how many tasks of a kind there are to be.

    Raises:
        UsageError: with the flag and what it says.
    """
    if not values[name].value:
        raise UsageError(f"--{name} is missing; it says: {values[name].help}")


def _check_without_servers(values: absl_flags.FlagValues) -> None:
    """Refuses what does not go with workers that hold the parameters themselves."""
    unmet = {
        f"--ps={values.ps}": (values.ps is None, "there are no parameter servers: leave it out"),
        f"--tls_image={values.tls_image}": (
            not values.tls_image,
            "what workers say to each other would not be encrypted: take a network plugin that "
            "encrypts",
        ),
        f"--overlay={values.overlay}": (
            values.overlay not in COMPONENTS,
            "take another one",
        ),
    }
    for name in ("cpu", "memory"):
        for word in values[name].value:
            is_theirs = word.strip().startswith("parameter-server=")
            unmet[f"--{name}={word}"] = not is_theirs, "there are no parameter servers"
    for flag, (is_met, what_to_do) in unmet.items():
        if not is_met:
            raise UsageError(f"{flag}: does not go with --strategy=all_reduce; {what_to_do}")
