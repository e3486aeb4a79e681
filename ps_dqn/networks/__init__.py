"""Q-networks of Keras layers, used as pure functions of one flat parameter vector.

Importing this package makes their layers known to `keras.models.load_model`.
"""

from ps_dqn.networks.building import build
from ps_dqn.networks.network import QNetwork

__all__ = ["QNetwork", "build"]
