"""Returns and advantages along rollouts, against references of their definitions."""

import numpy as np
import pytest
import tensorflow as tf

from ps_dqn.learning.targets import lambda_returns
from ps_dqn.learning.v_trace import v_trace

STEPS, ENVIRONMENTS = 6, 3


class Rollout:
    """Random numbers; episodes end by themselves, are cut off, and begin with reset rows."""

    def __init__(self, seed: int = 0):
        rng = np.random.default_rng(seed)
        shape = STEPS, ENVIRONMENTS
        self.rewards, self.values, self.next_values = rng.normal(size=(3, *shape))
        self.discounts, self.continues = np.full(shape, 0.9), np.ones(shape)
        self.discounts[2, 0] = self.continues[2, 0] = 0  # terminated
        self.continues[3, 1] = 0  # cut off
        self.continues[-1] = 0
        # The value of a state is the same after one step and before the next.
        goes_on = self.continues[:-1] > 0
        self.next_values[:-1][goes_on] = self.values[1:][goes_on]
        self.ratios = np.exp(rng.normal(size=shape))

    def given(self) -> list[tf.Tensor]:
        arrays = self.rewards, self.discounts, self.values, self.next_values, self.continues
        return [tf.constant(each, tf.float32) for each in arrays]


def as_defined(
    rollout: Rollout, lam: float, rho_clip: float, trace_clip: float
) -> tuple[np.ndarray, np.ndarray]:
    """Espeholt et al. 2018, eq. 1 and section 4.2: sums of products, step by step."""
    rho = np.minimum(rho_clip, rollout.ratios)
    trace = lam * np.minimum(trace_clip, rollout.ratios)
    errors = rollout.rewards + rollout.discounts * rollout.next_values - rollout.values
    values, advantages = np.zeros((2, STEPS, ENVIRONMENTS))
    for e in range(ENVIRONMENTS):
        for s in range(STEPS):
            share, total, after = 1.0, 0.0, 0.0
            for t in range(s, STEPS):
                term = share * rho[t, e] * errors[t, e]
                total += term
                # What is after the first step, without the first step's own trace.
                if t > s and trace[s, e] > 0:
                    after += term / trace[s, e]
                if not rollout.continues[t, e]:
                    break
                share *= rollout.discounts[t, e] * trace[t, e]
            values[s, e] = rollout.values[s, e] + total
            advantages[s, e] = errors[s, e] + lam * after
    return values, advantages


@pytest.mark.parametrize("lam", [1.0, 0.7])
@pytest.mark.parametrize(("rho_clip", "trace_clip"), [(1.0, 1.0), (2.0, 0.5)])
def test_v_trace_is_as_defined(lam: float, rho_clip: float, trace_clip: float) -> None:
    rollout = Rollout()
    ratios = tf.constant(rollout.ratios, tf.float32)
    limits = tf.minimum(ratios, rho_clip), tf.minimum(ratios, trace_clip)
    found = v_trace(*rollout.given(), lam, *limits)
    returns, advantages = as_defined(rollout, lam, rho_clip, trace_clip)
    np.testing.assert_allclose(found.returns, returns, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.advantages, advantages, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lam", [0.0, 0.6, 1.0])
def test_steps_of_the_same_policy_have_lambda_returns(lam: float) -> None:
    rollout = Rollout(seed=1)
    rewards, discounts, values, next_values, continues = rollout.given()
    found = v_trace(rewards, discounts, values, next_values, continues, lam)
    wanted = lambda_returns(rewards, discounts, next_values, continues, lam)
    np.testing.assert_allclose(found.returns, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.advantages, wanted - values, rtol=1e-4, atol=1e-5)


def test_what_the_policy_would_not_do_says_nothing() -> None:
    rollout = Rollout(seed=2)
    nothing = tf.zeros([STEPS, ENVIRONMENTS])
    found = v_trace(*rollout.given(), 1.0, nothing, nothing)
    np.testing.assert_allclose(found.returns, rollout.values, rtol=1e-6)


def test_targets_have_no_gradient() -> None:
    given = Rollout().given()
    with tf.GradientTape() as tape:
        tape.watch(given[2])
        found = v_trace(*given, 0.9)
        total = tf.reduce_sum(found.returns) + tf.reduce_sum(found.advantages)
    assert tape.gradient(total, given[2]) is None
