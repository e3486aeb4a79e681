"""The parameter servers as workers and the coordinator reach them, on the in-process cluster."""

import numpy as np
import pytest
from support.parameter_driver import (
    EPSILON,
    SIZE,
    VECTORS,
    Driver,
    assert_agreement,
    initial,
    make_config,
    vectors,
)

from ps_dqn.errors import WorkerError
from ps_dqn.state import Counters, State
from ps_dqn.wire import messages, parcels
from ps_dqn.wire.messages import Entry, Kind, PushHeader, Verdict


def adam(p, slots, g, rate, t):
    m = 0.9 * slots[0] + 0.1 * g
    v = 0.999 * slots[1] + 0.001 * g**2
    corrected = rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return p - corrected * m / (np.sqrt(v) + EPSILON), [m, v]


@pytest.mark.parametrize("num_ps", [1, 2, 3])
def test_gradients_are_applied_as_by_one_process(coordinator, num_ps):
    config = make_config(optimizer="adam", target_update_period=3, average_decay=0.8)
    driver = Driver(coordinator, config, num_ps)
    expected = target = average = initial().astype(np.float64)
    slots = [np.zeros(SIZE)] * 2
    for step, gradient in enumerate(vectors(8), start=1):
        rate = 0.1 / step  # the step size of a push is the pushing worker's
        verdict = driver.push(gradient, rate, env_steps=10, episodes=step)
        expected, slots = adam(expected, slots, gradient.astype(np.float64), rate, step)
        average = 0.8 * average + 0.2 * expected
        if step in (3, 6):
            target = expected
        counted = (step, step, 10 * step, step * (step + 1) // 2, step)
        assert verdict == (Kind.APPLIED, 0, 0, step - 1, *counted)
        pulled = driver.pull()
        assert pulled.counters == counted
        np.testing.assert_allclose(pulled.online, expected, atol=1e-5)
        np.testing.assert_allclose(pulled.target, target, atol=1e-5)
    state = driver.store.state()
    np.testing.assert_allclose(state.average, average, atol=1e-5)
    np.testing.assert_allclose(state.slots, slots, atol=1e-5)
    assert assert_agreement(driver.store)["applied"] == 8


@pytest.mark.parametrize("num_ps", [1, 3])
def test_changes_are_applied_as_by_one_process(coordinator, num_ps):
    config = make_config(
        local_updates=4, outer_learning_rate=0.7, outer_momentum=0.6, tau=0.1, average_decay=0.8
    )
    driver = Driver(coordinator, config, num_ps, num_workers=2)
    expected = target = average = initial().astype(np.float64)
    velocity = np.zeros(SIZE)
    for count, change in enumerate(vectors(6)):
        driver.push(change, rate=123.0, worker=count % 2)  # the workers used it already
        velocity = 0.6 * velocity + change
        expected = expected + 0.7 * (change + 0.6 * velocity)
        for _ in range(2):  # of two workers that each make four
            target = target + 0.1 * (expected - target)
            average = 0.8 * average + 0.2 * expected
        pulled = driver.pull(worker=count % 2)
        np.testing.assert_allclose(pulled.online, expected, atol=1e-5)
        np.testing.assert_allclose(pulled.target, target, atol=1e-5)
    np.testing.assert_allclose(driver.store.state().average, average, atol=1e-5)


def test_the_number_of_servers_changes_no_bit(coordinator):
    config = make_config(optimizer="rmsprop", target_update_period=3, average_decay=0.8)

    def run(num_ps: int) -> State:
        driver = Driver(coordinator, config, num_ps)
        for gradient in vectors(8):
            driver.push(gradient, 0.1)
        return driver.store.state()

    one, *others = (run(num_ps) for num_ps in (1, 2, 3))
    for other in others:
        for name in VECTORS:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        assert one.counters == other.counters


@pytest.mark.parametrize("num_ps", [1, 3])
@pytest.mark.parametrize("local_updates", [1, 4])
def test_simultaneous_pushes_of_two_workers_are_all_counted_and_applied(
    coordinator, local_updates, num_ps
):
    # Plain sums: of gradients, subtracted, or of changes.
    rule = {"optimizer": "sgd", "momentum": 0.0}
    if local_updates > 1:
        rule = {"outer_learning_rate": 1.0, "outer_momentum": 0.0}
    config = make_config(local_updates=local_updates, **rule)
    start = np.zeros(SIZE, np.float32)
    driver = Driver(coordinator, config, num_ps, start, num_workers=2)
    # Whole numbers add up exactly in any order.
    pushed = np.random.default_rng(9).integers(-8, 8, size=(60, SIZE)).astype(np.float32)
    packed = [
        driver.pack(each, 1.0, env_steps=5, episodes=1, worker=i % 2)
        for i, each in enumerate(pushed)
    ]
    waiting = [driver.schedule_meeting_push(each) for each in packed]
    verdicts = [messages.unpack(Verdict, remote.fetch()) for remote in waiting]
    assert sorted(verdict.version for verdict in verdicts) == list(range(1, 61))
    # Gradients are steps one after the other; changes of two workers are made side by side.
    sequential = 60 if local_updates == 1 else 60 * local_updates // 2
    assert driver.store.counters() == Counters(60, 60 * local_updates, 300, 60, sequential)
    sign = -1 if local_updates == 1 else 1
    driver.store.catch_up()
    np.testing.assert_array_equal(driver.pull().online, sign * pushed.sum(0))
    tally = assert_agreement(driver.store)
    assert (tally["applied"], tally["sum_of_tickets"]) == (60, sum(range(1, 61)))


def test_counters_are_not_of_32_bits(coordinator):
    driver = Driver(coordinator, make_config(), num_ps=2)
    big = 2**40
    assert driver.push(vectors(1)[0], env_steps=big).env_steps == big
    assert driver.push(vectors(1)[0], env_steps=33, episodes=2)[4:] == (2, 2, big + 33, 2, 2)
    assert driver.store.counters() == Counters(2, 2, big + 33, 2, 2)
    assert driver.pull().counters == (2, 2, big + 33, 2, 2)


@pytest.mark.parametrize("num_ps", [1, 3])
def test_what_is_frozen_stands_still(coordinator, num_ps):
    config = make_config(optimizer="sgd", average_decay=0.5)
    driver = Driver(coordinator, config, num_ps)
    np.testing.assert_array_equal(driver.run(driver.pull_frozen), initial())
    driver.push(vectors(1)[0], 1.0, env_steps=7, episodes=1)
    assert driver.run(driver.freeze).tolist() == [1, 1, 7, 1, 1]
    frozen = driver.store.state().average
    np.testing.assert_allclose(frozen, initial() - 0.5 * vectors(1)[0], atol=1e-6)
    driver.push(vectors(2)[1], 1.0)
    assert not np.array_equal(driver.store.state().average, frozen)
    np.testing.assert_array_equal(driver.run(driver.pull_frozen), frozen)
    np.testing.assert_array_equal(driver.store.frozen(), frozen)
    assert assert_agreement(driver.store)["version"] == 2


@pytest.mark.parametrize(("num_ps", "parcel"), [(1, 1), (2, 1), (3, parcels.PARCEL)])
def test_a_state_goes_on_where_it_was_on_any_number_of_servers(
    coordinator, num_ps, parcel, monkeypatch
):
    monkeypatch.setattr(parcels, "PARCEL", parcel)  # 1: each vector by itself
    config = make_config(optimizer="adam", target_update_period=4, average_decay=0.9)
    first = Driver(coordinator, config, num_ps=3)
    *before, last, after = vectors(7)
    for gradient in before:
        first.push(gradient, 0.1, env_steps=9, episodes=2)
    state = first.store.state()
    assert state.counters == Counters(5, 5, 45, 10, 5)
    pulled = first.pull()
    np.testing.assert_array_equal(state.online, pulled.online)
    np.testing.assert_array_equal(state.target, pulled.target)
    for vector in (state.target, state.average):
        assert not np.array_equal(vector, state.online)
    # Adam's moments and step count show in the next step; the target's period in the third.
    went_on = [(first.push(each, 0.1)[3:], first.pull()) for each in (last, after, last)]

    second = Driver(coordinator, config, num_ps, start=np.zeros(SIZE, np.float32))
    second.store.restore(state)
    restored = second.store.state()
    assert restored.counters == state.counters
    for name in VECTORS:
        np.testing.assert_array_equal(getattr(restored, name), getattr(state, name))
    np.testing.assert_array_equal(second.store.frozen(), state.average)
    for i, (gradient, (counted, expected)) in enumerate(
        zip((last, after, last), went_on, strict=True), start=6
    ):
        assert second.push(gradient, 0.1, ticket=i)[3:] == counted
        pulled = second.pull()
        np.testing.assert_array_equal(pulled.online, expected.online)
        np.testing.assert_array_equal(pulled.target, expected.target)
    # 8 updates: both have copied.
    np.testing.assert_array_equal(pulled.target, pulled.online)


def test_a_restored_target_travels_to_workers_that_have_an_older_one(coordinator):
    driver = Driver(coordinator, make_config(), num_ps=2)
    np.testing.assert_array_equal(driver.pull().target, initial())
    target = np.full(SIZE, 5, np.float32)
    slots = (np.zeros(SIZE, np.float32),) * 2
    driver.store.restore(State(initial(), target, initial(), slots, Counters(3, 12, 0, 0, 12)))
    np.testing.assert_array_equal(driver.pull().target, target)


def test_restore_refuses_what_does_not_fit_and_changes_nothing(coordinator):
    store = Driver(coordinator, make_config(optimizer="adam"), num_ps=2).store
    counters = Counters(1, 1, 1, 1, 1)
    longer = np.zeros(SIZE + 1, np.float32)
    with pytest.raises(ValueError, match="it has 11 parameters, this network has 10"):
        store.restore(State(longer, longer, longer, (longer, longer), counters))
    fitting = np.zeros(SIZE, np.float32)
    with pytest.raises(ValueError, match="it has 1 optimizer slots, this run needs 2"):
        store.restore(State(fitting, fitting, fitting, (fitting,), counters))
    other = (fitting, fitting), counters
    with pytest.raises(ValueError, match="is of outer adam, and these flags want adam"):
        store.restore(State(fitting, fitting, fitting, *other, slots_of="outer adam"))
    held = store.state()
    np.testing.assert_array_equal(held.online, initial())
    assert held.slots_of == "adam"
    assert store.counters() == Counters(0, 0, 0, 0, 0)


@pytest.mark.parametrize("size", [10, 11, 12])
def test_shards_are_even_and_every_call_is_of_its_server(coordinator, size):
    driver = Driver(coordinator, make_config(), num_ps=3, start=initial(size))
    sizes = [len(part) for part in driver.online_parts()]
    assert sum(sizes) == size
    assert max(sizes) - min(sizes) <= 1
    servers = [f"/job:ps/replica:0/task:{i}" for i in range(3)]
    # A part for each; a decision of the first; the log for the others.
    devices = [
        operation.device.split("/device")[0]
        for operation in driver.push_graph.graph.get_operations()
        if operation.type == "PyFunc"
    ]
    assert sorted(devices) == sorted([*servers, servers[0], *servers[1:]])


def test_a_new_run_refuses_the_one_before(coordinator):
    config = make_config(optimizer="sgd", momentum=0.0)
    old = Driver(coordinator, config, num_ps=3)
    late = old.pack(vectors(1)[0], 1.0, env_steps=5)
    new = Driver(coordinator, config, num_ps=3, start=np.zeros(SIZE, np.float32))
    verdict = messages.unpack(Verdict, old.run(old.push_graph, *late))
    assert verdict.kind != Kind.APPLIED or verdict.duplicate
    with pytest.raises(RuntimeError, match="serves another run"):
        old.pull()
    assert new.store.state().counters == (0, 0, 0, 0, 0)
    assert not new.pull().online.any()
    assert assert_agreement(new.store)["applied"] == 0


def beyond(driver: Driver) -> np.ndarray:
    """A verdict with an entry of the log that no server is near."""
    entry = Entry(99, *[0] * (len(Entry._fields) - 1))._replace(session=driver.store.session)
    return messages.pack([*Verdict(*[0] * len(Verdict._fields)), *entry])


@pytest.mark.parametrize("server", [0, 2])
def test_a_failing_server_says_why_and_gives_no_parameters(coordinator, server):
    driver = Driver(coordinator, make_config(), num_ps=3)
    gap = beyond(driver)
    assert driver.ask(server, "follow", [gap], shape=()) == 0
    with pytest.raises(RuntimeError, match="a parameter server failed"):
        driver.pull()
    shown = driver.store.errors()
    assert shown.startswith(f"parameter server {server}:\nTraceback (most recent call last)")
    assert "RuntimeError: the log goes on at 99" in shown
    assert driver.store.errors() == ""
    np.testing.assert_array_equal(driver.pull().online, initial())


def test_what_the_coordinator_asks_of_a_failing_server_raises_its_words(coordinator):
    driver = Driver(coordinator, make_config(), num_ps=2)
    gap = beyond(driver)
    driver.ask(1, "follow", [gap], shape=())
    with pytest.raises(WorkerError, match="the log goes on at 99"):
        driver.store.state()
    # A run that begins anew is not told of it.
    driver.ask(1, "follow", [gap], shape=())
    again = Driver(coordinator, make_config(), num_ps=2)
    np.testing.assert_array_equal(again.pull().online, initial())


def test_the_ledgers_count_bytes_and_pushes_of_each_server(coordinator):
    driver = Driver(coordinator, make_config(), num_ps=3, num_workers=2)
    driver.pull()
    driver.push(vectors(1)[0], worker=1)
    driver.push(vectors(1)[0], worker=1, ticket=1)
    ledgers = driver.store.ledgers()
    numbers = 8 * len(PushHeader._fields)
    for ledger, size in zip(ledgers, driver.store.sizes, strict=True):
        assert (ledger["pulls"], ledger["pushes"]) == (1, 2)
        # Online and target, each at a multiple of 64 bytes.
        assert ledger["bytes_out"] == messages.HEADER + 2 * 64
        assert ledger["bytes_in"] == 2 * (numbers + 4 * size)
        assert ledger["kinds"] == {"1": {"applied": 1}}
        assert ledger["staleness"] == {"1": [1]}
    assert [ledger["duplicates"] for ledger in ledgers] == [1, 0, 0]
