"""Builds the Q-network of a configuration from its parts."""

from ps_dqn.config import Network, Value, checks
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.networks import custom, heads, precision, torsos
from ps_dqn.networks.layers import Factory
from ps_dqn.networks.network import QNetwork
from ps_dqn.networks.standardized import Standardized


def build(
    network: Network,
    value: Value,
    environment: EnvironmentSpec,
    seed: int,
    numbers: str = precision.FULL,
) -> QNetwork:
    """The Q-network of a configuration.

    Args:
        network: which one, its widths and what is built into it; see `torsos.build` and
            `custom.build`.
        value: what it says of an action's value.
        environment: shape and dtype of an observation, and A; uint8 is scaled from 0..255 to 0..1.
        seed: of the initial weights.
        numbers: in which all but its outputs compute, see `precision`; or "int8", whose weights
            are what `quantized.of_weights` makes of those in float32. What is written into files is
            to be of float32.

    Raises:
        UsageError: there is no such network, or it does not fit the environment.
    """
    checks.check_network(network, value)
    if ":" in network.network:
        whole = custom.build(network, value, environment, seed, numbers)
        standardized = Standardized(network, value, environment)
        return QNetwork(whole.encoder, None, whole, value, environment, standardized)
    factory = Factory(network, seed, is_quantized=numbers == "int8")
    with precision.computing(numbers):
        layers = torsos.build(network, environment, factory)
        for width in network.hidden_sizes[:-1]:
            layers += factory.hidden(width)
        lstm = None
        if network.recurrent_size:
            scales = value.normalize_returns == "on"
            lstm = factory.lstm(network.recurrent_size, environment.num_actions, scales)
        head = heads.make(network, value, environment, factory)
    standardized = Standardized(network, value, environment, lstm)
    return QNetwork(layers, lstm, head, value, environment, standardized)
