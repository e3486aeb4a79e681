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
        same_actions: of those, where its action is worth as much as the best one, but for rounding,
            by the run's own values; with branches each part of it.
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
    return {greedy.ACTION: interface.actions.of(numbers), greedy.values_of(network): q_values}


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
    losses = _losses(interface, met, q_values, found[greedy.ACTION])
    is_same = losses <= TOLERANCE * max(largest, 1.0)
    difference = float(np.abs(found[name] - q_values).max())
    return Agreement(len(q_values), int(is_same.sum()), difference, largest)


def _losses(interface: Interface, met: Met, q_values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """How much less the chosen actions are worth than the best allowed ones; of parts, the most.

    Args:
        interface: of the run.
        met: where they were chosen.
        q_values: by the run's own network, float32 [B, C].
        chosen: the environment's own actions [B, *shape].

    Returns:
        float32 [B]; infinite where the environment has no such action.
    """
    allowed = heads.only_allowed(tf.constant(q_values), tf.constant(met.masks))
    actions, spec = interface.actions, interface.spec
    chosen = chosen.reshape(len(q_values), 1, -1)
    if spec.branches:
        parts = branches.split(allowed, spec.branches)
        tables = [values.astype(actions.dtype)[:, np.newaxis] for values in actions.values]
        places = [chosen[..., [part]] for part in range(len(parts))]
    else:
        numbers = np.arange(spec.num_actions)
        parts, places = [allowed], [chosen]
        tables = [actions.of(numbers).reshape(len(numbers), -1)]
    losses = []
    for part, table, place in zip(parts, tables, places, strict=True):
        values = part.numpy()
        own = np.where((place == table).all(axis=-1), values, -np.inf)
        losses.append(values.max(axis=1) - own.max(axis=1))
    return np.max(losses, axis=0)
