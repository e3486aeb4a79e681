"""What a push does to the parameters: one step of an optimizer, and the moving average after it.

Pure arithmetic of one shard, the same for TensorFlow's tensors and NumPy's arrays. Shapes: P
parameters of the shard.
"""

from collections.abc import Callable, Sequence

from ps_dqn import optimizers
from ps_dqn.config import Config, ParameterServer
from ps_dqn.config.run import MOST_WORKERS_FOR_ROOT, OUTER_ADAM_STEP, OUTER_MOMENTUM
from ps_dqn.optimizers import Array, Optimizer


def outer_momentum(config: ParameterServer) -> float:
    """The Nesterov momentum of pushed changes."""
    return OUTER_MOMENTUM if config.outer_momentum is None else config.outer_momentum


# Optimizers of pushed changes, by `--outer_optimizer`; None adds them as they are.
OUTER: dict[str, Callable[[ParameterServer], Optimizer | None]] = {
    "nesterov": lambda config: (
        optimizers.Momentum(outer_momentum(config), nesterov=True)
        if outer_momentum(config)
        else None
    ),
    # Reddi et al. 2021, arXiv:2003.00295: an adaptivity of 1e-3 and a quicker second moment.
    "adam": lambda config: optimizers.Adam(epsilon=1e-3, beta_2=0.99),
    "sgd": lambda config: None,
}


def outer_learning_rate(config: ParameterServer, num_workers: int) -> float:
    """The step size of pushed changes; momentum multiplies a lasting one by 1 / (1 - momentum)."""
    if config.outer_learning_rate is not None:
        return config.outer_learning_rate
    if config.outer_optimizer == "adam":
        return OUTER_ADAM_STEP
    step = 1.0 - outer_momentum(config) if config.outer_optimizer == "nesterov" else 1.0
    if config.is_synchronous:
        return step
    return step / (num_workers**0.5 if num_workers <= MOST_WORKERS_FOR_ROOT else num_workers)


class Rule:
    """Applies a gradient, or a change of the parameters, to a shard."""

    def __init__(self, config: Config, num_workers: int):
        """With one local update pushes are gradients, for the optimizer; with more, changes.

        Changes are the negative gradients of an outer optimizer (Douillard et al. 2023,
        arXiv:2311.08105; with workers that do not wait, Liu et al. 2024, arXiv:2401.09135).
        """
        options, learning = config.parameter_server, config.learning
        self._takes_gradients = options.local_updates == 1
        self._optimizer: Optimizer | None
        if self._takes_gradients:
            self._optimizer = optimizers.build(learning)
        else:
            self._optimizer = OUTER[options.outer_optimizer](options)
        self._outer_learning_rate = outer_learning_rate(options, num_workers)
        self._average_step = 1.0 - learning.average_decay**options.local_updates

    @property
    def num_slots(self) -> int:
        """Vectors of the shard's shape that go with the parameters."""
        return self._optimizer.num_slots if self._optimizer else 0

    def apply(
        self,
        online: Array,
        average: Array,
        slots: Sequence[Array],
        vector: Array,
        rate: Array,
        weight: Array,
        step: Array,
    ) -> tuple[Array, Array, list[Array]]:
        """One step; nothing is changed in place.

        Args:
            online: the parameters, float32 [P].
            average: their moving average, which follows, float32 [P].
            slots: `num_slots` times float32 [P].
            vector: gradient or change, float32 [P].
            rate: step size of a gradient.
            weight: what the push counts.
            step: how many steps this one makes, counted from 1, a float.

        Returns:
            Parameters, average and slots after it.
        """
        kept: list[Array] = []
        if self._optimizer is None:
            online = online + (weight * self._outer_learning_rate) * vector
        elif self._takes_gradients:
            # The step size is weighed: Adam and its like would undo a weight of the gradient.
            online, kept = self._optimizer.apply(online, slots, vector, weight * rate, step)
        else:
            gradient = -weight * vector
            online, kept = self._optimizer.apply(
                online, slots, gradient, self._outer_learning_rate, step
            )
        return online, average + self._average_step * (online - average), kept
