"""What the peers that are written here compute, against other ways to it."""

import numpy as np
import pytest
from equations import Ring, epsilon, lambda_return, td_target


def test_exploration_falls_on_a_line_and_ends() -> None:
    assert epsilon(0, 1.0, 0.05, 1000) == 1.0
    assert epsilon(500, 1.0, 0.05, 1000) == pytest.approx(0.525)
    assert epsilon(5000, 1.0, 0.05, 1000) == 0.05
    shares = epsilon(np.array([0, 1000]), 1.0, 0.2, 1000, larger=np.maximum)
    np.testing.assert_allclose(shares, [1.0, 0.2])


def test_targets_have_no_future_behind_an_end() -> None:
    found = td_target(np.array([1.0, 1.0]), np.array([0.0, 1.0]), np.array([10.0, 10.0]), 0.9)
    np.testing.assert_allclose(found, [1 + 0.9 * 10, 1.0])


def returns_of_all_lengths(
    rewards: np.ndarray, done: np.ndarray, best: np.ndarray, gamma: float, trace: float
) -> np.ndarray:
    """λ-returns as they are defined: the mean of n-step returns, weighted by powers of λ."""
    steps = len(rewards)
    found = np.zeros(steps)
    for start in range(steps):
        total, discount, weight = 0.0, 1.0, 1.0
        for at in range(start, steps):
            total += discount * rewards[at]
            discount *= gamma
            n_step = total + (0.0 if done[at] else discount * best[at])
            is_last = bool(done[at]) or at == steps - 1
            found[start] += n_step * (weight if is_last else weight * (1 - trace))
            weight *= trace
            if is_last:
                break
    return found


@pytest.mark.parametrize("trace", [0.0, 0.65, 1.0])
def test_lambda_returns_are_means_of_returns_of_all_lengths(trace: float) -> None:
    rng = np.random.default_rng(3)
    rewards, best = rng.normal(size=(2, 12))
    done = (rng.random(12) < 0.2).astype(float)
    assert 0 < done.sum() < 12
    found, following = np.zeros(12), best[-1]
    for i in reversed(range(12)):
        following = found[i] = lambda_return(rewards[i], done[i], best[i], following, 0.97, trace)
    wanted = returns_of_all_lengths(rewards, done, best, 0.97, trace)
    np.testing.assert_allclose(found, wanted)


def filled(capacity: int, count: int, once: bool) -> Ring:
    """Step i leads from observation i to i + 1, pays i, and has action i % 3."""
    ring = Ring(capacity, (2,), np.float32, seed=5, once=once)
    for i in range(count):
        ring.add(np.full(2, i), i % 3, float(i), np.full(2, i + 1), i % 4 == 3)
    return ring


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("count", [7, 16, 41])
def test_a_ring_gives_transitions_that_were_made(count: int, once: bool) -> None:
    seen, actions, rewards, following, terminated = filled(16, count, once).sample(2000)
    steps = rewards.astype(int)
    np.testing.assert_array_equal(seen, np.stack([rewards, rewards], axis=1))
    np.testing.assert_array_equal(following, seen + 1)
    np.testing.assert_array_equal(actions, steps % 3)
    np.testing.assert_array_equal(terminated, steps % 4 == 3)
    # All that are kept, but the oldest where the newest one's next observation is in its place.
    oldest = max(0, count - 16) + (once and count >= 16)
    assert set(steps) == set(range(oldest, count))


def test_observations_kept_once_take_half() -> None:
    twice, once = (Ring(4, (4, 84, 84), np.uint8, 0, each) for each in (False, True))
    numbers = 8 + 4 + 4  # action, reward, terminated
    assert twice.bytes_per_transition == 2 * 4 * 84 * 84 + numbers
    assert once.bytes_per_transition == 4 * 84 * 84 + numbers
