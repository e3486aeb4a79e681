"""What is added for the actions that were not taken, with its arithmetic written out."""

import math
from typing import Any

import pytest
import tensorflow as tf
from support.products import ACTIONS, ANY, NOW, ONLINE, ask, close

from ps_dqn.config import Config, Demonstrations
from ps_dqn.learning import penalties
from ps_dqn.learning.passes import Outcomes

Q_VALUES = [[1.0, 2.0, 0.5], [0.3, -1.0, 0.9], [4.0, 4.0, 4.0]]
TAKEN = [1, 0, 2]
SHOWN = {"demonstrations": "shown.npz"}


def outcomes(demonstrated: list[float] | None = None) -> Outcomes:
    nothing = tf.zeros([3])
    shown = None if demonstrated is None else tf.constant(demonstrated)
    return Outcomes(tf.constant(TAKEN), nothing, nothing, shown)


def test_the_demonstrated_action_is_to_be_the_best_by_a_margin() -> None:
    found = penalties.large_margin(tf.constant(Q_VALUES), tf.constant(TAKEN), 0.8)
    # max(1.8, 2, 1.3) - 2; max(0.3, -0.2, 1.7) - 0.3; 4.8 - 4.
    assert found.numpy().tolist() == close([0.0, 1.4, 0.8])


def test_the_conservative_one_is_the_softmax_cross_entropy_of_what_was_done() -> None:
    found = penalties.conservative(tf.constant(Q_VALUES), tf.constant(TAKEN))
    wanted = [
        math.log(sum(math.exp(each) for each in row)) - row[action]
        for row, action in zip(Q_VALUES, TAKEN, strict=True)
    ]
    assert found.numpy().tolist() == close(wanted)


def test_margins_are_for_demonstrations_and_the_conservative_term_for_all() -> None:
    options = Demonstrations(demonstration_loss=0.5, demonstration_margin=0.8, cql_alpha=2.0)
    penalty = penalties.make(options)
    assert penalty is not None
    found = penalty(tf.constant(Q_VALUES), outcomes([1.0, 0.0, 1.0])).numpy()
    conservative = penalties.conservative(tf.constant(Q_VALUES), tf.constant(TAKEN)).numpy()
    assert (found - 2 * conservative).tolist() == close([0, 0, 0.5 * 0.8])


def test_nothing_is_added_by_default() -> None:
    assert penalties.make(Demonstrations()) is None


def test_actions_that_are_not_allowed_count_for_nothing() -> None:
    lowest = float(tf.float32.min)
    allowed = tf.constant([[0.3, lowest, 0.9]])
    actions = tf.constant([0])
    assert penalties.large_margin(allowed, actions, 0.8).numpy().tolist() == close([1.4])
    alone = math.log(math.exp(0.3) + math.exp(0.9)) - 0.3
    assert penalties.conservative(allowed, actions).numpy().tolist() == close([alone])


@pytest.mark.parametrize("values", ANY.values(), ids=ANY)
def test_every_objective_adds_it_to_its_loss_and_to_nothing_else(values: dict[str, Any]) -> None:
    parameters = tf.constant(ONLINE)
    options = {"double_dqn": False, **values}
    plain, _, _ = ask(Config.from_values(options), parameters)
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        found, _, network = ask(Config.from_values({**options, "cql_alpha": 1.5}), parameters)
        total = tf.reduce_sum(found.loss)
    seed_and_taus = network.calls[-1]  # of the online network
    taus = seed_and_taus.get("taus")
    outputs = network.outputs(
        parameters, tf.constant(NOW), tf.zeros(2), None if taus is None else tf.constant(taus)
    )
    added = penalties.conservative(network.q_values(outputs), tf.constant(ACTIONS))
    assert (found.loss - plain.loss).numpy().tolist() == close((1.5 * added).numpy().tolist())
    assert found.error.numpy().tolist() == plain.error.numpy().tolist()
    assert found.q_value.numpy().tolist() == plain.q_value.numpy().tolist()
    assert float(tf.reduce_sum(tf.abs(tape.gradient(total, parameters)))) > 0
