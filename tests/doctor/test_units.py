"""Which hidden units are dormant, in networks whose units are known."""

import math
import pathlib

import numpy as np
import pytest

from ps_dqn import environments, networks
from ps_dqn.config import Config
from ps_dqn.doctor import units
from ps_dqn.run.checkpoints import Checkpoint
from ps_dqn.state import Counters, State

CARTPOLE = {"hidden_sizes": (8, 4), "layer_norm": False}


def _share(config: Config, dead: int) -> float:
    """Of a first network, so many units of whose first layer have a bias that nothing outweighs."""
    environment = environments.describe(config.environment)
    network = networks.build(config.network, config.value, environment, 0)
    weights = [each.numpy() for each in network._variables]
    first = next(each for each in weights if each.shape == (8,))
    first[:dead] = -1e9
    online = np.concatenate([each.ravel() for each in weights]).astype(np.float32)
    state = State(online, online, online, (), Counters(0, 0, 0, 0, 0))
    return units.dormant_share(config, Checkpoint(pathlib.Path("x.npz"), state, 0.0, math.nan))


@pytest.mark.parametrize("extra", [{}, {"dueling": True}, {"recurrent_size": 4}])
def test_dormant_units_are_counted(extra: dict) -> None:
    config = Config.from_values({**CARTPOLE, **extra})
    alive, ill = _share(config, 0), _share(config, 6)
    assert ill >= alive + 0.15
    assert ill < 1.0


def test_activations_are_what_they_were() -> None:
    config = Config.from_values(CARTPOLE)
    environment = environments.describe(config.environment)
    model = networks.build(config.network, config.value, environment, 0).as_keras()
    layers = [each for each in model._flatten_layers() if hasattr(each, "activation")]
    before = [each.activation for each in layers]
    with units._Activity().of(model):
        assert [each.activation for each in layers] != before
    assert [each.activation for each in layers] == before
