"""Returns that reach on along sequences, against their definitions in a loop.

Two sequences of four steps, two actions. The network's outputs are its features times a number.
"""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support.four_numbers import RECURRENT, STATE, one, random_sequences, squared_source
from support.products import close

from ps_dqn.config import Config
from ps_dqn.learning import objectives
from ps_dqn.learning.passes import Outcomes, Pass

LAMBDA, SEQUENCES, STEPS = 0.8, 2, 4
SEED = np.array([3, 4], np.int32)
# Step 1 of the first sequence terminates, step 2 is none; the second goes on to its end.
DISCOUNTS = np.array([[0.9, 0.0, 0.0, 0.9], [0.9, 0.9, 0.9, 0.9]], np.float32)
CONTINUES = np.array([[1, 0, 1, 0], [1, 1, 1, 0]], np.float32)


class Linear:
    def outputs(self, parameters: Any, features: Any, *_: Any) -> tf.Tensor:
        return parameters[0] * features

    def q_values(self, outputs: tf.Tensor) -> tf.Tensor:
        return outputs


def found_and_given(traces: str, double: bool, rescaled: bool) -> tuple[np.ndarray, dict]:
    """Targets [2, 4], and what they were made of."""
    rng = np.random.default_rng(4)
    shape = (SEQUENCES, STEPS, 2)
    given = {
        name: rng.normal(size=shape).astype(np.float32) for name in ("now", "next", "target_next")
    }
    given["actions"] = rng.integers(2, size=shape[:2]).astype(np.int32)
    given["returns"] = rng.normal(size=shape[:2]).astype(np.float32)
    values = {"traces": traces, "sequence_lambda": LAMBDA} if traces != "none" else {}
    config = Config.from_values(
        {
            **{"recurrent_size": 4, "n_step": 1, "double_dqn": double},
            **{"value_rescaling": rescaled, "loss": "squared"},
            **values,
        }
    )
    flat = {name: each.reshape(-1, *each.shape[2:]) for name, each in given.items()}
    objective = objectives.make(config, Linear())  # type: ignore[arg-type]
    target = Pass(tf.constant([1.0]), None, tf.constant(flat["target_next"]), SEED)
    bootstrap = objective.bootstrap(target, tf.constant(flat["actions"]))
    following = tf.constant(flat["next"]) if double else None
    online = Pass(tf.constant([1.0]), tf.constant(flat["now"]), following, SEED)
    outcomes = Outcomes(
        tf.constant(flat["actions"]),
        tf.constant(flat["returns"]),
        tf.constant(DISCOUNTS.ravel()),
        continues=tf.constant(CONTINUES) if traces != "none" else None,
    )
    losses = objective.losses(online, outcomes, bootstrap, tf.constant(0.1))
    error = np.sqrt(2 * losses.loss.numpy())  # |target - value|
    np.testing.assert_allclose(error, losses.error.numpy(), rtol=1e-5)
    chosen = losses.q_value.numpy()
    # The sign is lost: of the two values that are so far off, the reference says which.
    return np.stack([chosen - error, chosen + error]).reshape(2, SEQUENCES, STEPS), given


def unscale(y: float) -> float:
    root = (np.sqrt(1 + 4e-3 * (abs(y) + 1 + 1e-3)) - 1) / 2e-3
    return float(np.copysign(root**2 - 1, y))


def scale(x: float) -> float:
    return float(np.copysign(np.sqrt(abs(x) + 1) - 1, x) + 1e-3 * x)


def reference(given: dict, item: int, traces: str, double: bool, back: Any) -> list[float]:
    """Targets of a sequence before they are rescaled: for Retrace Munos et al.'s sum of errors."""
    values = [[back(float(q)) for q in row] for row in given["target_next"][item]]
    by = given["next"][item] if double else given["target_next"][item]
    greedy = [int(np.argmax(row)) for row in by]
    v = [row[a] for row, a in zip(values, greedy, strict=True)]
    r, d, c = given["returns"][item], DISCOUNTS[item], CONTINUES[item]
    a = given["actions"][item]
    one_step = [float(r[t] + d[t] * v[t]) for t in range(STEPS)]
    if traces == "retrace":
        found = []
        for t in range(STEPS):
            total, weight = one_step[t], 1.0
            for k in range(t + 1, STEPS):
                is_greedy = a[k] == greedy[k - 1]
                weight *= d[k - 1] * LAMBDA * is_greedy * c[k - 1]
                total += weight * (one_step[k] - values[k - 1][a[k]])
            found.append(float(total))
        return found
    lam = LAMBDA if traces == "peng" else 0.0
    found = [one_step[-1]]
    for t in reversed(range(STEPS - 1)):
        share = lam * c[t]
        found.insert(0, float(r[t] + d[t] * ((1 - share) * v[t] + share * found[0])))
    return found


@pytest.mark.parametrize("rescaled", [False, True])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("traces", ["none", "peng", "retrace"])
def test_targets_are_those_of_the_definition(traces: str, double: bool, rescaled: bool) -> None:
    back, to = (unscale, scale) if rescaled else (float, float)
    found, given = found_and_given(traces, double, rescaled)
    for item in range(SEQUENCES):
        wanted = [to(each) for each in reference(given, item, traces, double, back)]
        nearest = [
            min(found[:, item, t], key=lambda each, t=t: abs(each - wanted[t]))
            for t in range(STEPS)
        ]
        assert nearest == close(wanted)


def test_some_actions_are_greedy_and_some_are_not() -> None:
    _, given = found_and_given("retrace", double=False, rescaled=False)
    is_greedy = given["target_next"][:, :-1].argmax(-1) == given["actions"][:, 1:]
    assert 0 < is_greedy[1].mean() < 1


def test_an_episode_goes_on_where_the_next_row_is_learned_from() -> None:
    source = squared_source(STATE, **RECURRENT | {"n_step": 1, "traces": "peng"})
    batch = one(random_sequences(np.random.default_rng(7)), 0)
    weights = np.array([[0.5, 1, 0, 1], [1, 1, 1, 1], [0, 0, 1, 0.1]], np.float32)
    found = source._continues(batch._replace(weights=tf.constant(weights)))
    assert found.numpy().tolist() == [[1, 0, 1, 0], [1, 1, 1, 0], [0, 1, 1, 0]]
