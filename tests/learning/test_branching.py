"""Values of the parts of actions, against BDQ's arithmetic written out (Tavakoli et al. 2018)."""

import itertools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support.products import close

from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.learning import objectives
from ps_dqn.learning.passes import Losses, Outcomes, Pass
from ps_dqn.networks import branches

COUNTS = (2, 3, 2)
EVERY = list(itertools.product(*map(range, COUNTS)))
SPEC = EnvironmentSpec((5,), np.dtype(np.float32), len(EVERY), None, branches=COUNTS)
SEED = np.array([3, 4], np.int32)
ROWS = 6


def test_numbers_of_actions_count_the_last_part_fastest() -> None:
    numbers = tf.range(len(EVERY))
    found = tf.stack(branches.choices(numbers, COUNTS), axis=-1).numpy()
    assert [tuple(each) for each in found.tolist()] == EVERY


def test_the_greedy_action_has_the_best_choice_of_each_part() -> None:
    q_values = np.random.default_rng(0).normal(size=(40, sum(COUNTS))).astype(np.float32)
    found = branches.greedy(tf.constant(q_values), COUNTS).numpy()
    best = [tuple(int(part.argmax()) for part in np.split(row, [2, 5])) for row in q_values]
    assert [EVERY[number] for number in found] == best


@pytest.mark.parametrize("dueling", [True, False])
def test_a_network_has_values_of_all_choices(dueling: bool) -> None:
    config = Config.from_values({"branching": True, "dueling": dueling, "hidden_sizes": (8,)})
    network = networks.build(config.network, config.value, SPEC, seed=1)
    observations = np.random.default_rng(2).normal(size=(ROWS, 5)).astype(np.float32)
    parameters = tf.constant(network.initial)
    outputs = network.outputs(parameters, network.features(parameters, observations))
    assert outputs.shape == (ROWS, sum(COUNTS))
    if dueling:  # the mean of each part is the state's value
        means = [tf.reduce_mean(part, 1) for part in branches.split(outputs, COUNTS)]
        for mean in means:
            assert mean.numpy().tolist() == close(means[0].numpy().tolist())
    actions, _, _ = network.act(parameters, observations, np.zeros((ROWS, 0), np.float32))
    assert actions.numpy().tolist() == branches.greedy(outputs, COUNTS).numpy().tolist()
    assert network.as_keras()(observations).shape == (ROWS, sum(COUNTS))


class Linear:
    """A network whose outputs are its features times a number."""

    branches = COUNTS

    def outputs(self, parameters: Any, features: Any, *_: Any) -> tf.Tensor:
        return parameters[0] * features

    def q_values(self, outputs: tf.Tensor) -> tf.Tensor:
        return outputs


def compare(rng: np.random.Generator, **values: Any) -> tuple[Losses, dict[str, np.ndarray]]:
    """Losses of some transitions, and what they were made of."""
    config = Config.from_values({"branching": True, **values})
    shape = (ROWS, sum(COUNTS))
    given = {
        name: rng.normal(size=shape).astype(np.float32) for name in ("now", "next", "target_next")
    }
    given["actions"] = rng.integers(len(EVERY), size=ROWS).astype(np.int32)
    given["returns"] = rng.normal(size=ROWS).astype(np.float32)
    given["discounts"] = np.array([0.9, 0.9, 0, 0.81, 0.9, 0.9], np.float32)
    objective = objectives.make(config, Linear())  # type: ignore[arg-type]
    target = Pass(tf.constant([1.5]), None, tf.constant(given["target_next"]), SEED)
    bootstrap = objective.bootstrap(target, tf.constant(given["actions"]))
    following = tf.constant(given["next"]) if config.value.double_dqn else None
    online = Pass(tf.constant([2.0]), tf.constant(given["now"]), following, SEED)
    shown = tf.ones(ROWS)
    outcomes = Outcomes(
        *(tf.constant(given[k]) for k in ("actions", "returns", "discounts")), shown
    )
    return objective.losses(online, outcomes, bootstrap, tf.constant(0.4)), given


def parts(row: np.ndarray) -> list[list[float]]:
    return [each.tolist() for each in np.split(row.astype(float), [2, 5])]


def huber(error: float) -> float:
    return error**2 / 2 if abs(error) <= 1 else abs(error) - 0.5


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("target", ["greedy", "expected_sarsa"])
def test_each_part_moves_towards_what_all_expect_in_the_mean(double: bool, target: str) -> None:
    found, given = compare(np.random.default_rng(7), double_dqn=double, target=target)
    for i in range(ROWS):
        after = []
        for chooses, values in zip(
            parts(2 * given["next"][i]), parts(1.5 * given["target_next"][i]), strict=True
        ):
            by = chooses if double else values
            best = values[by.index(max(by))]
            mean = sum(values) / len(values)
            after.append(0.6 * best + 0.4 * mean if target == "expected_sarsa" else best)
        wanted = given["returns"][i] + given["discounts"][i] * sum(after) / 3
        taken = EVERY[given["actions"][i]]
        values = [q[a] for q, a in zip(parts(2 * given["now"][i]), taken, strict=True)]
        errors = [wanted - value for value in values]
        assert float(found.loss[i]) == close(sum(map(huber, errors)) / 3)
        assert float(found.error[i]) == close(sum(map(abs, errors)) / 3)
        assert float(found.q_value[i]) == close(sum(values) / 3)


def test_what_is_added_is_added_for_each_part() -> None:
    shown = {"demonstrations": "shown.npz", "demonstration_loss": 1.0, "demonstration_margin": 0.8}
    plain, _ = compare(np.random.default_rng(7))
    found, given = compare(np.random.default_rng(7), **shown)
    for i in range(ROWS):
        taken = EVERY[given["actions"][i]]
        added = [
            max(value + 0.8 * (choice != action) for choice, value in enumerate(q)) - q[action]
            for q, action in zip(parts(2 * given["now"][i]), taken, strict=True)
        ]
        assert float(found.loss[i] - plain.loss[i]) == close(sum(added) / 3)
