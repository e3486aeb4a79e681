"""The game that is played while a student learns, and the observations that it leaves.

Shapes: E environments, B observations, C values (A, or choices of branches), A actions.
"""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from ps_dqn.config import Environment
from ps_dqn.config.distillation import Distillation
from ps_dqn.distill.learning import Seen
from ps_dqn.environments import Environments
from ps_dqn.errors import UsageError
from ps_dqn.networks import heads
from ps_dqn.networks.network import QNetwork
from ps_dqn.replay import budget
from ps_dqn.worker.playing.actor import epsilon_greedy


class Played(NamedTuple):
    """One step of all environments."""

    seen: Seen  # those that were acted on, with what the teacher says
    agreed: int  # of them, where both would choose the same
    episodes: int  # that have ended


class Game:
    """Environments in which the teacher or the student acts, sometimes at random."""

    def __init__(
        self,
        config: Environment,
        most_failures: int,
        options: Distillation,
        teacher: QNetwork,
        parameters: np.ndarray,
        student: QNetwork,
    ):
        """Makes the environments and begins.

        Args:
            config: the environment.
            most_failures: of environments, as `Environments` takes it.
            options: who plays and how.
            teacher: the network that says what is right.
            parameters: of the teacher.
            student: the network that learns.

        Raises:
            UsageError: the environment cannot be made.
        """
        self._options = options
        self._environments = Environments(config, options.num_envs, most_failures=most_failures)
        environment_seed, exploration = np.random.SeedSequence(options.seed).spawn(2)
        self._environments.reset(int(environment_seed.generate_state(1)[0]) % 2**31)
        self._exploration = np.random.default_rng(exploration)
        state, weights = tf.zeros([options.num_envs, 0]), tf.constant(parameters)

        @tf.function(autograph=False)
        def ask(learned: tf.Tensor, rows: tf.Tensor, masks: tf.Tensor) -> tuple[tf.Tensor, ...]:
            cut = teacher.cut(weights)
            q_values = teacher.q_values(teacher.outputs(cut, teacher.features(cut, rows)))
            own, *_ = student.act(learned, rows, state, masks=masks)
            return q_values, heads.greedy(q_values, masks, teacher.branches), own

        self._ask = ask

    def step(self, parameters: tf.Tensor) -> Played:
        """Acts in every environment; takes the student's parameters, float32 [P].

        Raises:
            UsageError: the environments keep failing.
        """
        shown = self._environments
        masks = shown.masks
        asked = (parameters, tf.constant(shown.observations), tf.constant(masks))
        q_values, right, own = (each.numpy() for each in self._ask(*asked))
        chosen = own if self._options.played_by == "student" else right
        actions = epsilon_greedy(
            self._exploration, chosen, self._options.epsilon, shown.num_actions, masks
        )
        step = shown.step(actions)
        real = step.is_transition
        return Played(
            Seen(step.observations[real], q_values[real], masks[real]),
            int((right == own)[real].sum()),
            int((step.terminated | step.truncated).sum()),
        )

    def close(self) -> None:
        """Ends the environments."""
        self._environments.close()


class Kept:
    """The newest observations; minibatches are drawn of them, each alike."""

    def __init__(self, capacity: int, seed: int):
        """Has none.

        Args:
            capacity: observations.
            seed: of what is drawn.
        """
        self._capacity, self._count = capacity, 0
        self._arrays: list[np.ndarray] = []
        self._rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(3)[2])

    def __len__(self) -> int:
        return min(self._count, self._capacity)

    def add(self, seen: Seen) -> None:
        """Keeps further ones in the place of the oldest.

        Raises:
            UsageError: there is no memory for so many.
        """
        if not self._arrays:
            self._arrays = self._room(seen)
        places = np.arange(self._count, self._count + len(seen.rows)) % self._capacity
        for array, each in zip(self._arrays, seen, strict=True):
            array[places] = each
        self._count += len(places)

    def draw(self, shape: tuple[int, ...]) -> Seen:
        """Minibatches of such a shape."""
        places = self._rng.integers(len(self), size=shape)
        return Seen(*(tf.constant(array[places]) for array in self._arrays))

    def _room(self, seen: Seen) -> list[np.ndarray]:
        each_takes = sum(array.dtype.itemsize * math.prod(array.shape[1:]) for array in seen)
        wanted, limit = self._capacity * each_takes, budget.available()
        if wanted > limit.nbytes:
            raise UsageError(
                f"--capacity={self._capacity}: so many observations take {budget.show(wanted)}, "
                f"and there are {budget.show(limit.nbytes)} {limit.what}: keep fewer"
            )
        return [np.empty((self._capacity, *each.shape[1:]), each.dtype) for each in seen]
