"""Whether an exported network answers as the run's own does.

Shapes: B observations, C values (A, or choices of branches), S numbers of recurrent state.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from ps_dqn.environments.interface import Interface
from ps_dqn.export.formats import Answer, Arrays
from ps_dqn.export.observations import Met
from ps_dqn.networks import branches, heads
from ps_dqn.networks.network import QNetwork
from ps_dqn.policy import greedy

BATCH = 250
# What float32 may differ by, of the largest value: other programs add up in other orders.
TOLERANCE = 1e-4


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Of an exported network with the run's own.

    Attributes:
        observations: it was tried on.
        same_actions: of those, where both choose the same, or values are equal but for rounding.
        largest_difference: of the values, over all of them.
        largest_value: of the run's network, without its sign.
    """

    observations: int
    same_actions: int
    largest_difference: float
    largest_value: float

    @property
    def is_exact(self) -> bool:
        """Whether they differ by no more than rounding."""
        close = self.largest_difference <= TOLERANCE * max(self.largest_value, 1.0)
        return close and self.same_actions == self.observations

    def __str__(self) -> str:
        return (
            f"{self.same_actions:,} of {self.observations:,} actions as the run's own network, "
            f"values differ by {self.largest_difference:.2g} at most (they reach "
            f"{self.largest_value:.3g})"
        )


def wanted(network: QNetwork, parameters: np.ndarray, interface: Interface, met: Met) -> Arrays:
    """What the run's own network answers, as evaluations ask it, by the names of outputs."""

    @tf.function(autograph=False)
    def ask(vector: tf.Tensor, rows: tf.Tensor, states: tf.Tensor, masks: tf.Tensor) -> tuple:
        numbers, *_ = network.act(vector, rows, states, masks=masks)
        if network.state_size:
            count = tf.shape(rows)[0]
            nothing = tf.zeros([count, 1], tf.int32)
            features, _ = network.unroll(
                vector,
                rows[:, tf.newaxis],
                tf.zeros([count, 1], tf.bool),
                nothing,
                tf.cast(nothing, tf.float32),
                states,
            )
            features = features[:, 0]
        else:
            features = network.features(vector, rows)
        return numbers, network.q_values(network.outputs(vector, features))

    found = []
    for i in range(0, len(met.rows), BATCH):
        batch = (tf.constant(each[i : i + BATCH]) for each in met)
        found.append([each.numpy() for each in ask(tf.constant(parameters), *batch)])
    numbers, q_values = (np.concatenate(each) for each in zip(*found, strict=True))
    name = greedy.LOGITS if network.has_policy else greedy.Q_VALUES
    return {greedy.ACTION: interface.actions.of(numbers), name: q_values}


def answers(answer: Answer, inputs: Arrays) -> Arrays:
    """What an exported network answers, asked in batches."""
    count = len(next(iter(inputs.values())))
    found = [
        answer({name: each[i : i + BATCH] for name, each in inputs.items()})
        for i in range(0, count, BATCH)
    ]
    return {name: np.concatenate([each[name] for each in found]) for name in found[0]}


def compare(interface: Interface, met: Met, wanted: Arrays, found: Arrays) -> Agreement:
    """How far an exported network agrees.

    Args:
        interface: of the run.
        met: what both were asked of.
        wanted: what the run's network answers.
        found: what the exported one does.
    """
    name = greedy.chosen_by(wanted)
    q_values = wanted[name]
    largest = float(np.abs(q_values).max())
    count = len(q_values)
    is_same = (found[greedy.ACTION] == wanted[greedy.ACTION]).reshape(count, -1).all(axis=1)
    is_tie = _margins(interface, met, q_values) <= TOLERANCE * max(largest, 1.0)
    difference = float(np.abs(found[name] - q_values).max())
    return Agreement(count, int((is_same | is_tie).sum()), difference, largest)


def _margins(interface: Interface, met: Met, q_values: np.ndarray) -> np.ndarray:
    """How much better the best action is than the second; of parts, the least of them."""
    allowed = heads.only_allowed(tf.constant(q_values), tf.constant(met.masks))
    counts = interface.spec.branches
    parts = branches.split(allowed, counts) if counts else [allowed]
    margins = [np.full(len(q_values), np.inf)]
    for part in parts:
        best = np.sort(part.numpy(), axis=1)[:, ::-1]
        if best.shape[1] > 1:
            margins.append(best[:, 0] - best[:, 1])
    return np.min(margins, axis=0)
