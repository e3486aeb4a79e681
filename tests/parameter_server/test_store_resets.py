"""Resets on the in-process cluster: what servers are given of a network, and make of it."""

import numpy as np
import pytest
from support.parameter_driver import SIZE, VECTORS, Driver, assert_agreement, initial, vectors
from support.parameter_driver import make_config as defaults

from ps_dqn.config import Config
from ps_dqn.parameter_server import resets
from ps_dqn.parameter_server.resets import Resets
from ps_dqn.state import Segment

# Of three servers of 4, 3 and 3 numbers the first two share a variable, and the last two another.
SEGMENTS = [Segment(1, 3, False), Segment(3, 6, False), Segment(6, 10, True)]


def make_config() -> Config:
    options = {"optimizer": "adam", "reset_period": 4, "average_decay": 0.8}
    return defaults(target_update_period=3, **options)


def pushed_through(driver: Driver, gradients: np.ndarray) -> dict[str, np.ndarray]:
    for gradient in gradients:
        driver.pull()
        driver.push(gradient, rate=0.1)
    state = driver.store.state()
    assert_agreement(driver.store)
    return {name: np.array(getattr(state, name)) for name in VECTORS}


@pytest.fixture(scope="module")
def whole(coordinator) -> dict[str, np.ndarray]:
    """What one server comes to."""
    driver = Driver(coordinator, make_config(), 1, segments=SEGMENTS)
    return pushed_through(driver, vectors(10))


def test_the_head_is_what_resets_draw(coordinator):
    config = make_config()
    driver = Driver(coordinator, config, 3, segments=SEGMENTS)
    found = pushed_through(driver, vectors(4))
    drawn = resets.cut(SEGMENTS, initial(), (0, SIZE))
    fresh = Resets(config, 0, SIZE, *drawn).renewing(4)(initial())
    for name in ("online", "target", "average"):
        assert found[name][6:].tolist() == fresh[6:].tolist()
        assert set(found[name][6:]) == set(initial()[6:])
        assert not set(found[name][1:6]) & set(initial()[1:6])
    assert not found["slots"].any()


def test_three_servers_hold_what_one_does(coordinator, whole):
    found = pushed_through(Driver(coordinator, make_config(), 3, segments=SEGMENTS), vectors(10))
    for name in VECTORS:
        np.testing.assert_array_equal(found[name], whole[name])


def test_others_go_on_after_a_reset(coordinator, whole):
    driver = Driver(coordinator, make_config(), 1, segments=SEGMENTS)
    pushed_through(driver, vectors(10)[:6])
    state = driver.store.state()
    assert (state.begun_at, state.counters.version) == (4, 6)
    others = Driver(coordinator, make_config(), 3, segments=SEGMENTS)
    others.store.restore(state)
    others._ticket = driver._ticket  # those before it were decided
    found = pushed_through(others, vectors(10)[6:])
    for name in VECTORS:
        np.testing.assert_array_equal(found[name], whole[name])
