"""Pushes whose worker died on the way: completed once, by whoever comes next."""

import numpy as np
import pytest
from support.parameter_driver import Driver, assert_agreement, initial, make_config, vectors

from ps_dqn.wire.messages import Kind


def half_made_push(driver: Driver, vector: np.ndarray):
    """A worker dies after the first server has decided its push: the others do not know."""
    packed = driver.pack(vector, 1.0, env_steps=4)
    assert driver.decide(packed, driver.stage(packed)).kind == Kind.APPLIED
    return packed


def catch_up(driver: Driver) -> None:
    driver.store.catch_up()


def freeze(driver: Driver) -> None:
    driver.run(driver.freeze)


def make_checkpoint(driver: Driver) -> None:
    driver.store.state()


@pytest.mark.parametrize("complete", [catch_up, freeze, make_checkpoint])
def test_a_half_made_push_is_completed_by_whoever_comes_next(coordinator, complete):
    config = make_config(optimizer="sgd", momentum=0.0)
    driver = Driver(coordinator, config, num_ps=3)
    one, other = vectors(2)
    half_made_push(driver, one)
    half_made_push(driver, other)
    first, second, third = (tally["entries"] for tally in driver.store.tallies())
    assert (first, second, third) == (2, 0, 0)
    before, applied = initial(), initial() - one - other
    torn = np.concatenate([applied[:4], before[4:]])
    np.testing.assert_allclose(driver.pull().online, torn, atol=1e-6)
    complete(driver)
    tally = assert_agreement(driver.store)
    assert (tally["applied"], tally["version"], tally["env_steps"]) == (2, 2, 8)
    np.testing.assert_allclose(driver.pull().online, applied, atol=1e-6)
    np.testing.assert_allclose(driver.store.state().online, applied, atol=1e-6)


def test_the_next_push_brings_what_others_lack_in_order(coordinator):
    # With Adam the order of pushes matters.
    config = make_config(optimizer="adam")
    gradients = vectors(3)
    whole = Driver(coordinator, config, num_ps=3)
    for gradient in gradients:
        whole.push(gradient, 1.0)
    expected = whole.pull().online
    driver = Driver(coordinator, config, num_ps=3)
    for gradient in gradients[:2]:
        half_made_push(driver, gradient)
    driver.push(gradients[2], 1.0)
    assert assert_agreement(driver.store)["version"] == 3
    np.testing.assert_array_equal(driver.pull().online, expected)


@pytest.mark.parametrize("calls", ["staged on one", "staged on all", "decided", "complete"])
def test_a_push_that_is_made_again_is_applied_once(coordinator, calls):
    driver = Driver(coordinator, make_config(optimizer="sgd", momentum=0.0), num_ps=3)
    gradient, other = vectors(2)
    if calls == "complete":
        driver.push(gradient, 1.0, env_steps=4)
    elif calls == "decided":
        half_made_push(driver, gradient)
    else:
        packed = driver.pack(gradient, 1.0, env_steps=4)
        for i in range(3 if calls == "staged on all" else 1):
            driver.ask(i, "stage", [packed[0], packed[1 + i]], shape=())
    # The closure runs on another worker, where what was collected is other: the ticket counts.
    is_decided = calls in ("decided", "complete")
    again = driver.push(other, 1.0, env_steps=6, ticket=1)
    assert (again.kind, again.duplicate) == (Kind.APPLIED, int(is_decided))
    assert again.env_steps == (4 if is_decided else 6)
    tally = {**driver.store.tallies()[0], "staged": 0}
    for each in driver.store.tallies():
        assert {**each, "staged": 0} == tally
    assert (tally["applied"], tally["sum_of_tickets"]) == (1, 1)
    applied = gradient if is_decided else other
    np.testing.assert_allclose(driver.pull().online, initial() - applied, atol=1e-6)
