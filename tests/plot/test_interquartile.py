"""Interquartile means and their intervals, against SciPy's."""

import numpy as np
import pytest
from scipy import stats

from ps_dqn.plot import interquartile


@pytest.mark.parametrize("runs", [1, 2, 3, 4, 5, 8, 11])
def test_the_mean_is_the_trimmed_one(runs: int) -> None:
    scores = np.random.default_rng(runs).normal(size=(runs, 6))
    np.testing.assert_allclose(interquartile.mean(scores), stats.trim_mean(scores, 0.25, axis=0))


def test_one_run_that_failed_does_not_decide() -> None:
    assert interquartile.mean(np.array([500.0, 490.0, 495.0, 9.0])) == 492.5


def test_intervals_are_those_of_the_percentile_bootstrap() -> None:
    scores = np.random.default_rng(1).normal(100.0, 10.0, size=(12, 2))

    low, high = interquartile.interval(scores)

    for i in range(2):
        wanted = stats.bootstrap(
            (scores[:, i],),
            lambda drawn, axis: stats.trim_mean(drawn, 0.25, axis=axis),
            n_resamples=20_000,
            method="percentile",
            rng=np.random.default_rng(2),
        ).confidence_interval
        # As near as 2,000 resamples come.
        assert low[i] == pytest.approx(wanted.low, abs=0.5)
        assert high[i] == pytest.approx(wanted.high, abs=0.5)


def test_intervals_hold_what_they_promise() -> None:
    # Of 100 experiments with ten runs, some 95 have the true mean within their interval.
    random = np.random.default_rng(3)
    low, high = interquartile.interval(random.normal(size=(10, 100)))
    assert 85 <= np.sum((low < 0) & (high > 0)) <= 99


def test_one_run_says_nothing_of_others() -> None:
    low, high = interquartile.interval(np.ones((1, 3)))
    assert np.isnan(low).all()
    assert np.isnan(high).all()


def test_environments_keep_their_weight() -> None:
    # Two environments, one of which is all 0 and the other all 1: nothing is uncertain. Were all
    # runs drawn from one pot, the interval would be wide.
    mean, low, high = interquartile.over_strata([np.zeros(4), np.ones(4)])
    assert (mean, low, high) == (0.5, 0.5, 0.5)


def test_several_environments_say_more_than_one() -> None:
    random = np.random.default_rng(5)
    one, others = random.normal(size=(6,)), [random.normal(size=(6,)) for _ in range(5)]
    mean, low, high = interquartile.over_strata([one, *others])
    assert mean == pytest.approx(stats.trim_mean(np.concatenate([one, *others]), 0.25))
    _, low_of_one, high_of_one = interquartile.over_strata([one])
    assert low < mean < high
    assert high - low < high_of_one - low_of_one
    # Of one stratum it is the plain bootstrap.
    alone = interquartile.interval(one[:, np.newaxis])
    assert (low_of_one, high_of_one) == (alone[0][0], alone[1][0])
