"""How pushes become parameters: what each counts, and the step they make together.

Pure arithmetic of one parameter server, in NumPy. Shapes: P parameters of its shard.
"""

import math
from collections.abc import Mapping

import numpy as np

from ps_dqn import optimizers
from ps_dqn.config import Config, ParameterServer
from ps_dqn.config.run import MOST_WORKERS_FOR_ROOT, OUTER_MOMENTUM

# Numbers changed at a time: what one step reads and writes stays in a core's cache.
CHUNK = 16_384


def outer_momentum(config: ParameterServer) -> float:
    """The Nesterov momentum of pushed changes."""
    return OUTER_MOMENTUM if config.outer_momentum is None else config.outer_momentum


def outer_learning_rate(config: ParameterServer, num_workers: int) -> float:
    """The step size of pushed changes; momentum multiplies a lasting one by 1 / (1 - momentum)."""
    if config.outer_learning_rate is not None:
        return config.outer_learning_rate
    step = 1.0 - outer_momentum(config)
    if config.aggregation == "sync":
        return step
    return step / (num_workers**0.5 if num_workers <= MOST_WORKERS_FOR_ROOT else num_workers)


def age_weight(age: int, decay: float, cutoff: int) -> float:
    """How much a push counts whose parameters are `age` versions old: e^(-decay·age)·g(age).

    The gate g falls along a cosine from 1 to 0 at the cut-off (Shah and Sun 2026,
    arXiv:2605.09126, there in front of an outer Adam).

    Args:
        age: versions made between its pull and its push.
        decay: per version; 0 leaves the exponential out.
        cutoff: where the gate closes; 0 leaves the gate out.
    """
    gate = 1.0
    if cutoff:
        gate = 0.5 * (1 + math.cos(math.pi * min(age / cutoff, 1.0)))
    return math.exp(-decay * age) * gate


def mean(pushes: Mapping[int, np.ndarray]) -> np.ndarray:
    """The mean of the workers' vectors, float32 [P].

    Added up in the order of the workers, not of arrival: sums of floats depend on it, and a
    synchronous run is to be the same every time.
    """
    first, *others = (pushes[worker] for worker in sorted(pushes))
    total = first.copy()
    for vector in others:
        total += vector
    total /= np.float32(len(pushes))
    return total


class Rule:
    """Applies a gradient, or a change of the parameters, to a shard."""

    def __init__(self, config: Config, num_workers: int):
        """With one local update pushes are gradients, for the optimizer; with more, changes.

        Changes are the negative gradients of an outer optimizer (Douillard et al. 2023,
        arXiv:2311.08105; with workers that do not wait, Liu et al. 2024, arXiv:2401.09135).
        """
        shape, learning = config.parameter_server, config.learning
        self._takes_gradients = shape.local_updates == 1
        self._optimizer: optimizers.Optimizer | None = None
        if self._takes_gradients:
            self._optimizer = optimizers.build(learning)
        elif momentum := outer_momentum(shape):
            self._optimizer = optimizers.Momentum(momentum, nesterov=True)
        self._outer_learning_rate = outer_learning_rate(shape, num_workers)
        self._average_step = 1.0 - learning.average_decay**shape.local_updates

    @property
    def num_slots(self) -> int:
        """Vectors of the shard's shape that go with the parameters."""
        return self._optimizer.num_slots if self._optimizer else 0

    def apply(
        self,
        online: np.ndarray,
        average: np.ndarray,
        slots: list[np.ndarray],
        vector: np.ndarray,
        rate: float,
        weight: float,
        step: int,
    ) -> None:
        """Makes one step, in place.

        Args:
            online: the parameters, float32 [P].
            average: their moving average, which follows, float32 [P].
            slots: `num_slots` times float32 [P].
            vector: gradient or change, float32 [P].
            rate: step size of a gradient.
            weight: what the push counts.
            step: how many steps this one makes, counted from 1.
        """
        for start in range(0, len(online), CHUNK):
            part = slice(start, start + CHUNK)
            self._step(online[part], [slot[part] for slot in slots], vector[part], rate, weight,
                       step)  # fmt: skip
            average[part] += self._average_step * (online[part] - average[part])

    def _step(
        self,
        online: np.ndarray,
        slots: list[np.ndarray],
        vector: np.ndarray,
        rate: float,
        weight: float,
        step: int,
    ) -> None:
        if self._optimizer is None:
            online += (weight * self._outer_learning_rate) * vector
            return
        if self._takes_gradients:
            # The step size is weighed: Adam and its like would undo a weight of the gradient.
            gradient, rate = vector, weight * rate
        else:
            gradient, rate = -weight * vector, self._outer_learning_rate
        online[:], kept = self._optimizer.apply(online, slots, gradient, rate, float(step))
        for slot, new in zip(slots, kept, strict=True):
            slot[:] = new
