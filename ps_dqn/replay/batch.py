"""What a worker hands to the update loop for one push, by shape.

Shapes: M minibatches (= local updates) of B items each; see `Transitions`, `Sequences`, `Rollout`.
"""

import numpy as np

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.replay.replay import Sequences, Transitions
from ps_dqn.replay.rollout import Rollout

Batch = Transitions | Sequences | Rollout


def zero_batch(config: Config, environment: EnvironmentSpec) -> Batch:
    """A batch of the configured kind that holds nothing: its shapes and dtypes, and zeros."""
    updates, size = config.parameter_server.local_updates, config.learning.batch_size
    shape = (updates, size)

    def observations(*leading: int) -> np.ndarray:
        return np.zeros((*leading, *environment.observation_shape), environment.observation_dtype)

    def floats(*leading: int) -> np.ndarray:
        return np.zeros(leading, np.float32)

    def whole(*leading: int) -> np.ndarray:
        return np.zeros(leading, np.int32)

    if config.replay.replay == "rollout":
        steps = (config.vector_steps_per_push, config.environment.num_envs_per_worker)
        return Rollout(
            observations(*steps),
            whole(*steps),
            floats(*steps),
            floats(*steps),
            observations(*steps),
            floats(*steps),
            floats(*steps),
            whole(*shape),
        )
    if config.network.recurrent_size:
        trained = (*shape, config.replay.sequence_length)
        rows = config.replay.burn_in + config.replay.sequence_length + config.learning.n_step
        return Sequences(
            observations(*shape, rows),
            np.zeros((*shape, rows), np.bool_),
            floats(*shape, config.state_size),
            whole(*trained),
            floats(*trained),
            floats(*trained),
            whole(*trained),
            floats(*trained),
        )
    return Transitions(
        observations(*shape),
        whole(*shape),
        floats(*shape),
        floats(*shape),
        observations(*shape),
        floats(*shape),
    )
