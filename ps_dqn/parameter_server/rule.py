"""What a push does to the parameters: one step of an optimizer, and the moving average after it.

Pure arithmetic of one shard, the same for TensorFlow's tensors and NumPy's arrays. Shapes: P
parameters of the shard.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ps_dqn import optimizers
from ps_dqn.config import Config
from ps_dqn.optimizers import Array, Optimizer
from ps_dqn.state import State

# Optimizers of pushed changes, by `--outer_optimizer`, made with a momentum.
OUTER: dict[str, Callable[[Array], Optimizer | None]] = {
    "nesterov": lambda momentum: optimizers.Momentum(momentum, nesterov=True),
    # Reddi et al. 2021, arXiv:2003.00295: an adaptivity of 1e-3 and a quicker second moment.
    "adam": lambda momentum: optimizers.Adam(epsilon=1e-3, beta_2=0.99),
    "sgd": lambda momentum: None,  # added as they are
}

# Optimizers of gradients whose slots are what another one's are.
SAME_SLOTS = {"adamw": "adam", "radam": "adam"}


class Numbers(NamedTuple):
    """What one version is made with, float32 [] each."""

    weight: Any  # what the push counts
    step_size: Any  # of a gradient, or of a change
    momentum: Any  # of changes
    average_step: Any  # how far the average follows, 0 to 1
    target_share: Any  # how far a soft target follows, 0 to 1
    step: Any  # how many versions this one makes since the slots began, counted from 1


class Rule:
    """Applies a gradient, or a change of the parameters, to a shard."""

    def __init__(self, config: Config):
        """With one local update pushes are gradients, for the optimizer; with more, changes.

        Changes are the negative gradients of an outer optimizer (Douillard et al. 2023,
        arXiv:2311.08105; with workers that do not wait, Liu et al. 2024, arXiv:2401.09135).
        """
        options, learning = config.parameter_server, config.learning
        self._takes_gradients = options.local_updates == 1
        # Whose slots they are. Another optimizer must not go on with them: a velocity has signs,
        # and whoever takes it for a mean of squares makes NaN of the parameters.
        self.slots_of = f"outer {options.outer_optimizer}"
        if self._takes_gradients:
            self.slots_of = SAME_SLOTS.get(learning.optimizer, learning.optimizer)
        self._outer = OUTER[options.outer_optimizer]
        if options.outer_momentum == 0 and options.outer_optimizer == "nesterov":
            self._outer = OUTER["sgd"]  # it is that without a momentum, and needs no slot
        self._learning = learning
        # Adam and its like would undo a weight of what they are given; so their step is weighed.
        self._weighs_step = self._takes_gradients or options.outer_optimizer == "adam"

    @property
    def num_slots(self) -> int:
        """Vectors of the shard's shape that go with the parameters."""
        optimizer = self._optimizer(0.0)
        return optimizer.num_slots if optimizer else 0

    def check(self, state: State, num_parameters: int) -> None:
        """Refuses what cannot be gone on with.

        Args:
            state: of all servers.
            num_parameters: of the network.

        Raises:
            ValueError: it is of another network or another way of applying pushes.
        """
        if len(state.online) != num_parameters:
            raise ValueError(
                f"it has {len(state.online)} parameters, this network has {num_parameters}"
            )
        if len(state.slots) != self.num_slots:
            raise ValueError(
                f"it has {len(state.slots)} optimizer slots, this run needs {self.num_slots}"
            )
        if state.slots and state.slots_of not in ("", self.slots_of):
            raise ValueError(
                f"its optimizer state is of {state.slots_of}, and these flags want {self.slots_of}"
            )

    def average_step(self, worth: float) -> float:
        """How far a version worth so many sequential updates moves the average."""
        return 1.0 - self._learning.average_decay**worth

    def apply(
        self,
        online: Array,
        average: Array,
        slots: Sequence[Array],
        vector: Array,
        numbers: Numbers,
    ) -> tuple[Array, Array, list[Array]]:
        """One step; nothing is changed in place.

        Args:
            online: the parameters, float32 [P].
            average: their moving average, which follows, float32 [P].
            slots: `num_slots` times float32 [P].
            vector: gradient or change, float32 [P].
            numbers: what it is made with.

        Returns:
            Parameters, average and slots after it.
        """
        kept: list[Array] = []
        optimizer = self._optimizer(numbers.momentum)
        if optimizer is None:
            online = online + (numbers.weight * numbers.step_size) * vector
        else:
            gradient = vector if self._takes_gradients else -vector
            step_size = numbers.step_size
            if self._weighs_step:
                step_size = numbers.weight * step_size
            else:
                gradient = numbers.weight * gradient
            online, kept = optimizer.apply(online, slots, gradient, step_size, numbers.step)
        return online, average + numbers.average_step * (online - average), kept

    def _optimizer(self, momentum: Array) -> Optimizer | None:
        """None adds changes as they are."""
        return optimizers.build(self._learning) if self._takes_gradients else self._outer(momentum)
