"""Whether a network that was made for one environment fits another."""

import dataclasses

from ps_dqn.config import Environment
from ps_dqn.environments.specification import EnvironmentSpec
from ps_dqn.errors import UsageError


def check(said: str, found: EnvironmentSpec, training: EnvironmentSpec) -> None:
    """Refuses an environment that the network of training does not fit.

    Args:
        said: how errors begin: what names the environment.
        found: what a network for it must fit.
        training: what that of training was made for.

    Raises:
        UsageError: with both.
    """
    shown, before = _described(found), _described(training)
    if shown != before:
        raise UsageError(
            f"{said}: observations are {shown[0]}, {shown[1]}, and {before[0]} and {before[1]} in "
            f"training: they must be alike"
        )
    kinds, kinds_before = _kinds(found), _kinds(training)
    if kinds != kinds_before:
        raise UsageError(
            f"{said}: observations {shown[0]} are {kinds}, and {kinds_before} in training: they "
            f"must be alike"
        )
    if found.has_masks != training.has_masks:
        raise UsageError(
            f"{said}: in training or in evaluations the environment says which actions it allows, "
            f"but not in both: say --action_masks=off, or let it say so in both"
        )


def check_again(options: Environment, found: EnvironmentSpec, training: EnvironmentSpec) -> None:
    """The same of a run's environment that is made once more; masks count where they are wanted.

    Args:
        options: what was made.
        found: what it is now.
        training: what it was.

    Raises:
        UsageError: with both.
    """
    if options.action_masks == "off":
        training = dataclasses.replace(training, has_masks=False)
    kwargs = "" if options.env_kwargs == "{}" else f", made with {options.env_kwargs}"
    check(f"--env_id={options.env_id}{kwargs}", found, training)


def _described(spec: EnvironmentSpec) -> tuple[str, str]:
    # Where numbers are rounded from has no part in what a network fits.
    parts = tuple(dataclasses.replace(part, rounded_from="") for part in spec.parts)
    spec = dataclasses.replace(spec, parts=parts, rounded_from="")
    return spec.describe_observation(), spec.describe_actions()


def _kinds(spec: EnvironmentSpec) -> str:
    parts = [part.dtype.name for part in spec.parts]
    return ", ".join(parts) or spec.observation_dtype.name
