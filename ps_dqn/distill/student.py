"""The experiment of a student: the teacher's, with another network."""

from collections.abc import Mapping
from typing import Any

from ps_dqn import config as configuration
from ps_dqn.config import Config, options
from ps_dqn.config.agent import NETWORKS
from ps_dqn.errors import UsageError

# Options of the network that a student may have otherwise than its teacher.
SIZES = (
    *("hidden_sizes", "network_width", "network", "activation", "layer_norm", "dueling"),
    *("spectral_norm", "pooled_size"),
)
# What a student is without unless it is said: parts of a network that help it learn from rewards,
# and the zeros of a pruned one.
_PLAIN = {"value_distribution": "none", "dueling": False, "noisy": False, "pruning": "none"}


def of(teacher: Config, said: Mapping[str, Any], seed: int) -> Config:
    """The student's experiment.

    Args:
        teacher: whose environment it acts in, and whose network it has where nothing else is said.
        said: options of `SIZES` for the student.
        seed: of its first weights.

    Raises:
        UsageError: this teacher has no such student.
    """
    check(teacher, said)
    values = {**teacher.values, **_PLAIN, **said, "seed": seed}
    fields = configuration.fields()
    while inert := [
        field for field in options.without_effect(fields, values) if field.name not in said
    ]:
        values |= {field.name: field.default for field in inert}
    return Config.from_values(values)


def check(teacher: Config, said: Mapping[str, Any]) -> None:
    """Refuses a teacher that cannot be followed, and a student of whom nothing is known.

    Raises:
        UsageError: with what to do.
    """
    network = teacher.network
    if network.recurrent_size:
        raise UsageError(
            f"--recurrent_size={network.recurrent_size}: the run's network goes by what it "
            f"remembers, and a student sees one observation at a time: distill one without an LSTM"
        )
    if ":" in network.network and "network" not in said:
        raise UsageError(
            f"--network={network.network}: the run's network is its user's own, of whose size "
            f"nothing is known: say --network={'|'.join(NETWORKS)} for the student's"
        )
    if not said:
        sizes = ",".join(map(str, network.hidden_sizes))
        raise UsageError(
            f"--hidden_sizes: say how large the student is to be, like --hidden_sizes=32 (the "
            f"run's network has {sizes})"
        )


def describe(config: Config) -> str:
    """A network for people: mlp 128,128 dueling."""
    network, value = config.network, config.value
    words = [network.network]
    if network.network_width != 1:
        words.append(f"×{network.network_width:g}")
    if ":" not in network.network:
        words.append(",".join(map(str, network.hidden_sizes)))
    words += [value.value_distribution] * (value.value_distribution != "none")
    words += [name for name in ("dueling", "noisy") if getattr(network, name)]
    return " ".join(words)


def name(said: Mapping[str, Any]) -> str:
    """What the folder of such a student is called: distilled-32."""
    words = ["distilled"]
    for option, value in said.items():
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        if isinstance(value, tuple):
            shown = "-".join(map(str, value))
        words += [shown] if option == "hidden_sizes" else [option, shown]
    return "-".join(words).replace("/", "-").replace(":", "-")
