"""The losses of a student against their formulas in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from ps_dqn.config.distillation import Distillation
from ps_dqn.distill import learning, losses
from ps_dqn.distill.learning import Seen

RNG = np.random.default_rng(5)
STUDENT, TEACHER = RNG.normal(0, 3, (2, 7, 4))
ALL = np.ones((7, 0), np.bool_)
SOME = RNG.random((7, 4)) < 0.6
SOME[:, 2] = True


def softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max())
    return powers / powers.sum()


def reference(name: str, student: np.ndarray, teacher: np.ndarray, temperature: float) -> float:
    """Of one observation, in float64."""
    if name == "mse":
        return float(np.mean((teacher - student) ** 2))
    s = softmax(student)
    if name == "nll":
        return float(-np.log(s[teacher.argmax()]))
    p = softmax(teacher / temperature)
    return float(sum(each * np.log(each / other) for each, other in zip(p, s, strict=True) if each))


@pytest.mark.parametrize("masks", [ALL, SOME], ids=["all", "some"])
@pytest.mark.parametrize(
    ("name", "temperature"), [("kl", 1.0), ("kl", 0.3), ("kl", 0.01), ("mse", 1.0), ("nll", 1.0)]
)
def test_it_is_what_its_formula_says(name: str, temperature: float, masks: np.ndarray) -> None:
    arrays = (tf.constant(each, tf.float32) for each in (STUDENT, TEACHER))
    found = losses.of(name, temperature)(*arrays, tf.constant(masks)).numpy()
    rows = masks if masks.size else np.ones_like(SOME)
    wanted = [
        reference(name, student[row], teacher[row], temperature)
        for student, teacher, row in zip(STUDENT, TEACHER, rows, strict=True)
    ]
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6)


def test_a_small_temperature_leaves_the_best_action_alone() -> None:
    arrays = [tf.constant(each, tf.float32) for each in (STUDENT, TEACHER)]
    sharp = losses.kl(*arrays, tf.constant(ALL), 1e-6)
    np.testing.assert_allclose(sharp, losses.nll(*arrays, tf.constant(ALL)), rtol=1e-5)


class Values:
    """A network whose parameters are its values."""

    def __init__(self, branches: tuple[int, ...] = (), has_policy: bool = False):
        self.branches, self.has_policy = branches, has_policy

    def cut(self, parameters):
        return parameters

    def features(self, parameters, rows):
        return rows

    def outputs(self, parameters, rows):
        return tf.gather(parameters, rows)

    def q_values(self, outputs):
        return outputs


@pytest.mark.parametrize(
    ("said", "has_policy", "temperature"),
    [({}, False, 0.01), ({}, True, 1.0), ({"temperature": 0.5}, True, 0.5)],
)
def test_of_a_policy_the_probabilities_are_learned(
    said: dict[str, float], has_policy: bool, temperature: float
) -> None:
    loss = learning.make_loss(Values(has_policy=has_policy), Distillation(**said))
    arrays = [tf.constant(each, tf.float32) for each in (STUDENT, TEACHER)]
    found = loss(arrays[0], Seen(tf.range(7), arrays[1], tf.constant(ALL)))
    wanted = losses.kl(*arrays, tf.constant(ALL), temperature)
    np.testing.assert_allclose(found, np.mean(wanted), rtol=1e-6)


def test_of_several_parts_each_has_its_loss() -> None:
    rows = tf.range(7)
    loss = learning.make_loss(Values((3, 1)), Distillation(loss="nll"))
    found = loss(
        tf.constant(STUDENT, tf.float32),
        Seen(rows, tf.constant(TEACHER, tf.float32), tf.constant(ALL)),
    )
    wanted = [
        reference("nll", student[:3], teacher[:3], 1.0)  # the second has one choice: it is 0
        for student, teacher in zip(STUDENT, TEACHER, strict=True)
    ]
    assert float(found) == pytest.approx(np.mean(wanted), rel=1e-5)
