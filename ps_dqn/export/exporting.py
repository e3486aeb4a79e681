"""Exports a run's network: writes a format, reads it again and compares it with the run's."""

import dataclasses
import pathlib
from collections.abc import Callable

from ps_dqn.config import Config
from ps_dqn.environments.interface import Interface
from ps_dqn.errors import UsageError
from ps_dqn.export import agreement, formats, metadata, numpy_file, observations
from ps_dqn.networks import weights
from ps_dqn.networks.network import QNetwork
from ps_dqn.policy import greedy, loading
from ps_dqn.run.checkpoints import Checkpoint
from ps_dqn.run.signals import FAILED

Say = Callable[[str], None]
MET = "observations.npz"


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What to write.

    Attributes:
        form: name of a format, or "weights".
        int8: "none", "dynamic" or "full".
        output: the folder, which exists.
        num_observations: to compare with the run's network on.
        observations: file that has them; none: they are played.
    """

    form: str
    int8: str
    output: pathlib.Path
    num_observations: int
    observations: pathlib.Path | None


def export(
    config: Config, folder: pathlib.Path, checkpoint: Checkpoint, wanted: Wanted, say: Say
) -> int:
    """Exports a checkpoint of the run in a folder; returns the exit code.

    Raises:
        UsageError: the checkpoint is of another network, or there are no observations.
    """
    interface = loading.interface_of(config, folder)
    network = loading.network_of(config, interface, checkpoint)
    env_steps = checkpoint.state.counters.env_steps
    say(f"{checkpoint.path.name} of {env_steps:,} env steps, its average:")
    if wanted.form == "weights":
        for path in weights.save(network.as_keras(), wanted.output):
            say(f"  {path}")
        return 0
    return _export(config, network, interface, checkpoint, wanted, say)


def _export(
    config: Config,
    network: QNetwork,
    interface: Interface,
    checkpoint: Checkpoint,
    wanted: Wanted,
    say: Say,
) -> int:
    form, output, parameters = formats.FORMATS[wanted.form], wanted.output, checkpoint.state.average
    if wanted.form in formats.OF_NUMPY:
        numpy_file.check(network, interface, wanted.form)
    if wanted.observations:
        met = observations.read(wanted.observations, interface)
        say(f"  {len(met.rows):,} observations of {wanted.observations}")
    else:
        try:
            met = observations.play(config, interface, network, parameters, wanted.num_observations)
        except UsageError as error:
            flag = f"{observations.FLAG}=FILE.npz"
            raise UsageError(f"{error}; or say {flag}, saved by another export") from None
        say(f"  {len(met.rows):,} observations played in {interface.env_id}")
    model = greedy.greedy_network(network, interface)
    inputs, path = greedy.inputs_of(interface, *met), output / form.file
    form.write(formats.Made(network, interface, model, inputs, wanted.int8), path)
    say(f"  {path}")
    answers = agreement.wanted(network, parameters, interface, met)
    found = agreement.answers(form.read(path), inputs)
    agreed = agreement.compare(interface, met, answers, found)
    say(f"  read again: {agreed}")
    if wanted.int8 == "none" and not agreed.is_exact:
        say(f"error: {path} does not answer as the run's network does: do not use it")
        return FAILED
    observations.save(output / MET, inputs, answers)
    checked = {"int8": wanted.int8, "agreement": dataclasses.asdict(agreed)}
    source = loading.source_of(checkpoint)
    values = metadata.describe(wanted.form, [path, output / MET], interface, source, model, checked)
    for written in (output / MET, metadata.write(output, values)):
        say(f"  {written}")
    return 0
