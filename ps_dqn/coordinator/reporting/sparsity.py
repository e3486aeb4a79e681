"""How sparse a run has left its network, for its summary."""

from typing import Any

import numpy as np

from ps_dqn.config import Config
from ps_dqn.errors import UsageError
from ps_dqn.networks.network import QNetwork
from ps_dqn.run.checkpoints import Checkpoints


def summary(config: Config, network: QNetwork, checkpoints: Checkpoints) -> dict[str, Any]:
    """What `summary.json` says of it: the sparsity of each layer and of all; nothing without.

    Args:
        config: the experiment.
        network: of the run.
        checkpoints: of the run, the newest of which is looked at.
    """
    try:
        newest = checkpoints.newest() if config.pruning.is_on else None
    except UsageError:  # it is told elsewhere that none can be read
        newest = None
    if newest is None or not newest.state.mask_number:
        return {}
    layers = by_layer(network, newest.state.mask)
    weights = {name: kernel.stop - kernel.start for name, kernel in network.kernels.items()}
    zeros = sum(share * weights[name] for name, share in layers.items())
    return {"sparsity": {"all": zeros / sum(weights.values()), "layers": layers}}


def by_layer(network: QNetwork, mask: np.ndarray) -> dict[str, float]:
    """Which share of each layer's weights a mask, float32 [P], leaves out."""
    return {name: 1.0 - float(mask[kernel].mean()) for name, kernel in network.kernels.items()}


def told(sparsity: dict[str, Any]) -> str:
    """The same for people."""
    layers = (f"{name} {share:.1%}" for name, share in sparsity["layers"].items())
    return f"{sparsity['all']:.1%} of the layers' weights are zero: {', '.join(layers)}"
