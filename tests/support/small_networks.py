"""Networks small enough for tests, and observations for them."""

import numpy as np

from ps_dqn import networks
from ps_dqn.config import Network, Value
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.networks.network import QNetwork

VECTOR = EnvironmentSpec((4,), np.dtype(np.float32), 3, None)
IMAGE = EnvironmentSpec((5, 4, 2), np.dtype(np.uint8), 3, None)
NUMBER = EnvironmentSpec((), np.dtype(np.float32), 3, None)
NONE = Value(value_distribution="none")
VALUES = [
    NONE,
    Value(value_distribution="c51", num_atoms=5, v_min=-2.0, v_max=2.0),
    Value(value_distribution="qr_dqn", num_quantiles=5),
    Value(value_distribution="iqn", num_policy_quantiles=5, num_cosines=4),
]


def network(
    sizes: tuple[int, ...], activation: str = "relu", layer_norm: bool = False, recurrent: int = 0
) -> Network:
    """Everything said, so that no test depends on the defaults."""
    return Network(
        network="mlp",
        hidden_sizes=sizes,
        activation=activation,
        layer_norm=layer_norm,
        recurrent_size=recurrent,
    )


def build(
    config: Network, spec: EnvironmentSpec = VECTOR, seed: int = 0, value: Value = NONE
) -> QNetwork:
    return networks.build(config, value, spec, seed)


def observations(spec: EnvironmentSpec, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    if spec.observation_dtype == np.uint8:
        return rng.integers(0, 256, (*shape, *spec.observation_shape), np.uint8)
    return rng.normal(size=(*shape, *spec.observation_shape)).astype(np.float32)


def random_vector(built: QNetwork) -> np.ndarray:
    return np.random.default_rng(2).normal(size=built.num_parameters).astype(np.float32)
