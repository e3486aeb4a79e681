"""The parameters on the parameter servers: pull, push, target, counters, snapshot.

A network's parameters are one flat float32 vector of P numbers, cut into one shard for each
parameter server, sizes equal to within one. Beside its online shard a server holds the target's,
the moving average's, the optimizer slots' and a snapshot's, so that applying a push, moving the
target and the average and freezing a version for evaluation happen where the numbers are and cost
no network.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ps_dqn import optimizers
from ps_dqn.config import Config
from ps_dqn.state import Counters, State


class Pulled(NamedTuple):
    """What a worker has at the start of its local updates."""

    online: tf.Tensor  # float32 [P]
    target: tf.Tensor  # float32 [P]
    counters: Counters  # int64 [] each


class ParameterStore:
    """The variables on the parameter servers and the operations on them."""

    def __init__(self, config: Config, num_ps: int, num_workers: int, initial: np.ndarray):
        """Creates the variables; the cluster must be connected.

        Args:
            config: says how pushes are applied and how the target follows.
            num_ps: parameter servers to spread over.
            num_workers: workers whose changes are averaged.
            initial: the first online and target parameters, float32 [P].
        """
        shape, learning = config.parameter_server, config.learning
        self._pushes_gradients = shape.local_updates == 1
        self._applier = _applier(config)
        self._outer_learning_rate = shape.outer_learning_rate / num_workers
        self._target_period = learning.target_update_period
        self._tau = 1.0 - (1.0 - learning.tau) ** shape.local_updates
        self._average_step = 1.0 - learning.average_decay**shape.local_updates
        self._sizes = [len(part) for part in np.array_split(initial, num_ps)]
        self._devices = [f"/job:ps/replica:0/task:{i}/device:CPU:0" for i in range(num_ps)]
        zeros = np.zeros_like(initial)
        self._online = self._shards(initial, "online")
        self._target = self._shards(initial, "target")
        self._average = self._shards(initial, "average")
        self._snapshot = self._shards(initial, "snapshot")
        num_slots = self._applier.num_slots if self._applier else 0
        self._slots = [self._shards(zeros, f"slot_{i}") for i in range(num_slots)]
        with tf.device(self._devices[0]):
            self._counters = tf.Variable(np.zeros(len(Counters._fields), np.int64), name="counters")
            self._copies = tf.Variable(0, dtype=tf.int64, name="target_copies")

    def pull(self) -> Pulled:
        """In a closure: the online and target vectors and the counters."""
        counters = Counters(*tf.unstack(self._counters.read_value()))
        return Pulled(_join(self._online), _join(self._target), counters)

    def push(
        self, vector: tf.Tensor, learning_rate: tf.Tensor, moved: Sequence[tf.Tensor]
    ) -> Counters:
        """In a closure: applies a gradient or a change, moves the counters and the target.

        Args:
            vector: with `local_updates=1` the gradient, else the change of the parameters, [P].
            learning_rate: step size for gradients, float32 [].
            moved: by how much each of `Counters` moves, [] each.

        Returns:
            The counters after it, int64 [] each.
        """
        step = tf.cast(self._counters.read_value()[0] + 1, tf.float32)
        applied = []
        for shard, part in enumerate(tf.split(vector, self._sizes)):
            with tf.device(self._devices[shard]):
                applied.append(self._apply(shard, part, learning_rate, step))
        with tf.control_dependencies(applied), tf.device(self._devices[0]):
            amounts = tf.stack([tf.cast(each, tf.int64) for each in moved])
            counters = Counters(*tf.unstack(self._counters.assign_add(amounts).read_value()))
            self._move_target(counters)
            self._move(self._average, self._average_step)
        return counters

    def take_snapshot(self) -> Counters:
        """In a closure: freezes the average for an evaluation; returns the counters."""
        for shard, device in enumerate(self._devices):
            with tf.device(device):
                self._snapshot[shard].assign(self._average[shard].read_value())
        return Counters(*tf.unstack(self._counters.read_value()))

    def pull_snapshot(self) -> tf.Tensor:
        """In a closure: the parameters frozen last, float32 [P]."""
        return _join(self._snapshot)

    def snapshot(self) -> np.ndarray:
        """On the coordinator: the parameters frozen last, float32 [P]."""
        return _gather(self._snapshot)

    def counters(self) -> Counters:
        """On the coordinator: where the run is."""
        return Counters(*(int(each) for each in self._counters.numpy()))

    def state(self) -> State:
        """On the coordinator: everything, for a checkpoint."""
        return State(
            _gather(self._online),
            _gather(self._target),
            _gather(self._average),
            tuple(_gather(slot) for slot in self._slots),
            self.counters(),
        )

    def restore(self, state: State) -> None:
        """On the coordinator: puts a state back.

        Raises:
            ValueError: it is of another network or another way of applying pushes.
        """
        if len(state.online) != sum(self._sizes):
            raise ValueError(
                f"it has {len(state.online)} parameters, this network has {sum(self._sizes)}"
            )
        if len(state.slots) != len(self._slots):
            raise ValueError(
                f"it has {len(state.slots)} optimizer slots, this run needs {len(self._slots)}"
            )
        self._scatter(self._online, state.online)
        self._scatter(self._target, state.target)
        self._scatter(self._average, state.average)
        self._scatter(self._snapshot, state.average)
        for slot, vector in zip(self._slots, state.slots, strict=True):
            self._scatter(slot, vector)
        self._counters.assign(np.array(state.counters, np.int64))
        self._copies.assign(state.counters.updates // self._target_period)

    def _shards(self, vector: np.ndarray, name: str) -> list[Any]:
        shards = []
        for device, part in zip(
            self._devices, np.array_split(vector, len(self._devices)), strict=True
        ):
            with tf.device(device):
                shards.append(tf.Variable(part.astype(np.float32), name=name))
        return shards

    def _scatter(self, shards: Sequence[Any], vector: np.ndarray) -> None:
        for shard, part in zip(shards, np.array_split(vector, len(shards)), strict=True):
            shard.assign(part)

    def _apply(
        self, shard: int, part: tf.Tensor, learning_rate: tf.Tensor, step: tf.Tensor
    ) -> tf.Operation:
        online, slots = self._online[shard], [slot[shard] for slot in self._slots]
        if self._pushes_gradients:
            return self._applier.apply_fused(online, slots, part, learning_rate, step)
        if self._applier is not None:
            rate = tf.constant(self._outer_learning_rate)
            return self._applier.apply_fused(online, slots, -part, rate, step)
        return online.assign_add(self._outer_learning_rate * part, read_value=False)

    def _move(self, shards: Sequence[Any], share: float) -> None:
        """Moves a vector a share of the way to the online one, on each server by itself."""
        for shard, device in enumerate(self._devices):
            with tf.device(device):
                gap = self._online[shard].read_value() - shards[shard].read_value()
                shards[shard].assign_add(share * gap, read_value=False)

    def _move_target(self, counters: Counters) -> None:
        """Moves the target after a push, on each server by itself."""
        if self._tau:
            self._move(self._target, self._tau)
            return
        # Crossed, not equal: a push may jump over the exact number. The count of copies made is
        # kept, so a period that two workers cross together is never missed.
        copies = counters.updates // self._target_period
        due = copies > self._copies.read_value()

        def copy() -> tf.Tensor:
            self._copies.assign(copies)
            for shard, device in enumerate(self._devices):
                with tf.device(device):
                    self._target[shard].assign(self._online[shard].read_value())
            return tf.constant(True)

        tf.cond(due, copy, lambda: tf.constant(False))


def _applier(config: Config) -> Any:
    """What applies pushes on the parameter servers; None adds changes up as they are."""
    if config.parameter_server.local_updates == 1:
        return optimizers.build(config.learning)
    if config.parameter_server.outer_momentum:
        return optimizers.Momentum(config.parameter_server.outer_momentum, nesterov=True)
    return None


def _join(shards: Sequence[Any]) -> tf.Tensor:
    return tf.concat([shard.read_value() for shard in shards], axis=0)


def _gather(shards: Sequence[Any]) -> np.ndarray:
    return np.concatenate([shard.numpy() for shard in shards])
