"""The parameter servers as workers and the coordinator reach them, on the in-process cluster."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_dqn import bridge, messages
from ps_dqn.config import Config
from ps_dqn.errors import WorkerError
from ps_dqn.exchange import Exchange, Pulled
from ps_dqn.messages import Entry, Kind, PullRequest, PushHeader, Verdict
from ps_dqn.parameters import ParameterStore
from ps_dqn.state import Counters, State

SIZE = 10  # not a multiple of 3
EPSILON = 1e-4
VECTORS = ("online", "target", "average", "slots")


def initial(size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(7).normal(size=size).astype(np.float32)


def vectors(count: int, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(8).normal(size=(count, size)).astype(np.float32)


def make_config(**options) -> Config:
    defaults = {
        "local_updates": 1,
        "num_envs_per_worker": 1,
        # Copies are far away and there is no average where a test does not ask for them.
        "target_update_period": 128 if options.get("tau") else 10**6,
        "average_decay": 0.0,
        "optimizer_epsilon": EPSILON,
    }
    return Config.from_values({**defaults, **options})


class Driver:
    """A store, and workers that pull and push through closures on the shared cluster.

    It takes the parameter servers from the driver before it.
    """

    def __init__(
        self,
        coordinator,
        config: Config,
        num_ps: int,
        start: np.ndarray | None = None,
        num_workers: int = 1,
    ):
        start = initial() if start is None else start
        self._coordinator = coordinator
        self.store = ParameterStore(config, num_ps, num_workers, start)
        shape = (config.parameter_server, self.store.session)
        self._workers = [Exchange(*shape, i, self.store.sizes) for i in range(num_workers)]
        self._updates = config.parameter_server.local_updates
        self._ticket = 0
        requests = tf.TensorSpec([num_ps, len(PullRequest._fields)], tf.int64)
        header = tf.TensorSpec([len(PushHeader._fields)], tf.int64)
        self._message_specs = [header, *[tf.TensorSpec([None], tf.uint8)] * num_ps]
        self._pull = self.trace(self.store.pull, requests)
        self.push_graph = self.trace(
            lambda header, *packed: self.store.push(header, packed), *self._message_specs
        )
        self.freeze = self.trace(self.store.freeze)
        self.pull_frozen = self.trace(lambda: self.store.pull_frozen(after=tf.constant(0)))

    def pull(self, worker: int = 0) -> Pulled:
        exchange = self._workers[worker]
        exchange.begin(ticket=0, oldest=0)
        pulled = exchange.pulled(self.run(self._pull, exchange.requests()))
        assert isinstance(pulled, Pulled)
        return pulled

    def pack(self, vector, rate=0.0, env_steps=0, episodes=0, worker=0, ticket=None):
        """A header and messages with a ticket, a new one if none is given."""
        if ticket is None:
            self._ticket = ticket = self._ticket + 1
        exchange = self._workers[worker]
        exchange.begin(ticket, oldest=0)
        header, packed = exchange.pack(
            vector, Kind.APPLIED, self._updates, env_steps, episodes, rate
        )
        return header, *packed

    def push(self, vector, rate=0.0, env_steps=0, episodes=0, worker=0, ticket=None) -> Verdict:
        packed = self.pack(vector, rate, env_steps, episodes, worker, ticket)
        verdict = messages.unpack(Verdict, self.run(self.push_graph, *packed))
        self._workers[worker].pushed(verdict)
        return verdict

    def run(self, function, *args) -> Any:
        return self._coordinator.schedule(function, args=args).fetch()

    def schedule_meeting_push(self, packed):
        """Two workers push at the same moment: each waits for the other first."""
        if not hasattr(self, "_meeting"):
            self._meeting = self.trace(self._meet_and_push, *self._message_specs)
        return self._coordinator.schedule(self._meeting, args=packed)

    def _meet_and_push(self, header, *packed):
        worker = tf.distribute.coordinator.experimental_get_current_worker_index()
        [met] = bridge.call("meet", worker, [], [tf.TensorSpec([], tf.int32)])
        with tf.control_dependencies([met]):
            header = tf.identity(header)
            packed = [tf.identity(each) for each in packed]
        return self.store.push(header, packed)

    def ask(
        self, server: int, method: str, inputs: Sequence[Any], dtype=tf.int64, shape=(None,)
    ) -> np.ndarray:
        """One call of one server, as a worker makes it."""
        with tf.device(f"/job:ps/replica:0/task:{server}/device:CPU:0"):
            output = tf.TensorSpec(shape, dtype)
            [result] = bridge.call(method, bridge.server(server), inputs, [output])
        return result.numpy()

    def stage(self, packed) -> int:
        """The first call of a push on each server; the first entry that some server lacks."""
        return min(
            int(self.ask(i, "stage", [message], shape=())) for i, message in enumerate(packed[1:])
        )

    def decide(self, packed, known: int) -> Verdict:
        """The second call, of the first server."""
        return messages.unpack(Verdict, self.ask(0, "decide", [np.append(packed[0], known)]))

    def online_parts(self) -> list[np.ndarray]:
        """What each server has now, without a log in between."""
        exchange = self._workers[0]
        exchange.begin(ticket=0, oldest=0)
        return np.split(self.pull().online, np.cumsum(self.store.sizes)[:-1])

    @staticmethod
    def trace(function, *signature):
        return tf.function(function, autograph=False).get_concrete_function(*signature)


def assert_agreement(store: ParameterStore) -> dict[str, int]:
    """All servers have gone through the same log; what they say of it."""
    first, *others = store.tallies()
    for other in others:
        assert other == first
    assert first["staged"] == 0
    return first


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
        assert verdict == (Kind.APPLIED, 0, 0, step, step, 10 * step, step * (step + 1) // 2)
        pulled = driver.pull()
        assert pulled.counters == verdict[-4:]
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
        for _ in range(4):
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
    assert driver.store.counters() == Counters(60, 60 * local_updates, 300, 60)
    sign = -1 if local_updates == 1 else 1
    driver.store.catch_up()
    np.testing.assert_array_equal(driver.pull().online, sign * pushed.sum(0))
    tally = assert_agreement(driver.store)
    assert (tally["applied"], tally["sum_of_tickets"]) == (60, sum(range(1, 61)))


def test_counters_are_not_of_32_bits(coordinator):
    driver = Driver(coordinator, make_config(), num_ps=2)
    big = 2**40
    assert driver.push(vectors(1)[0], env_steps=big).env_steps == big
    assert driver.push(vectors(1)[0], env_steps=33, episodes=2)[-4:] == (2, 2, big + 33, 2)
    assert driver.store.counters() == Counters(2, 2, big + 33, 2)
    assert driver.pull().counters == (2, 2, big + 33, 2)


@pytest.mark.parametrize("num_ps", [1, 3])
def test_what_is_frozen_stands_still(coordinator, num_ps):
    config = make_config(optimizer="sgd", average_decay=0.5)
    driver = Driver(coordinator, config, num_ps)
    np.testing.assert_array_equal(driver.run(driver.pull_frozen), initial())
    driver.push(vectors(1)[0], 1.0, env_steps=7, episodes=1)
    assert driver.run(driver.freeze).tolist() == [1, 1, 7, 1]
    frozen = driver.store.state().average
    np.testing.assert_allclose(frozen, initial() - 0.5 * vectors(1)[0], atol=1e-6)
    driver.push(vectors(2)[1], 1.0)
    assert not np.array_equal(driver.store.state().average, frozen)
    np.testing.assert_array_equal(driver.run(driver.pull_frozen), frozen)
    np.testing.assert_array_equal(driver.store.frozen(), frozen)
    assert assert_agreement(driver.store)["version"] == 2


@pytest.mark.parametrize("num_ps", [1, 2, 3])
def test_a_state_goes_on_where_it_was_on_any_number_of_servers(coordinator, num_ps):
    config = make_config(optimizer="adam", target_update_period=4, average_decay=0.9)
    first = Driver(coordinator, config, num_ps=3)
    *before, last, after = vectors(7)
    for gradient in before:
        first.push(gradient, 0.1, env_steps=9, episodes=2)
    state = first.store.state()
    assert state.counters == Counters(5, 5, 45, 10)
    pulled = first.pull()
    np.testing.assert_array_equal(state.online, pulled.online)
    np.testing.assert_array_equal(state.target, pulled.target)
    for vector in (state.target, state.average):
        assert not np.array_equal(vector, state.online)
    # Adam's moments and step count show in the next step; the target's period in the third.
    went_on = [(first.push(each, 0.1)[-4:], first.pull()) for each in (last, after, last)]

    second = Driver(coordinator, config, num_ps, start=np.zeros(SIZE, np.float32))
    second.store.restore(state)
    restored = second.store.state()
    assert restored.counters == state.counters
    for name in VECTORS:
        np.testing.assert_array_equal(getattr(restored, name), getattr(state, name))
    np.testing.assert_array_equal(second.store.frozen(), state.average)
    for gradient, (counters, expected) in zip((last, after, last), went_on, strict=True):
        assert second.push(gradient, 0.1)[-4:] == counters
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
    driver.store.restore(State(initial(), target, initial(), slots, Counters(3, 12, 0, 0)))
    np.testing.assert_array_equal(driver.pull().target, target)


def test_restore_refuses_what_does_not_fit_and_changes_nothing(coordinator):
    store = Driver(coordinator, make_config(optimizer="adam"), num_ps=2).store
    counters = Counters(1, 1, 1, 1)
    longer = np.zeros(SIZE + 1, np.float32)
    with pytest.raises(ValueError, match="it has 11 parameters, this network has 10"):
        store.restore(State(longer, longer, longer, (longer, longer), counters))
    fitting = np.zeros(SIZE, np.float32)
    with pytest.raises(ValueError, match="it has 1 optimizer slots, this run needs 2"):
        store.restore(State(fitting, fitting, fitting, (fitting,), counters))
    np.testing.assert_array_equal(store.state().online, initial())
    assert store.counters() == Counters(0, 0, 0, 0)


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
            driver.ask(i, "stage", [packed[1 + i]], shape=())
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


def test_a_new_run_refuses_the_one_before(coordinator):
    config = make_config(optimizer="sgd", momentum=0.0)
    old = Driver(coordinator, config, num_ps=3)
    late = old.pack(vectors(1)[0], 1.0, env_steps=5)
    new = Driver(coordinator, config, num_ps=3, start=np.zeros(SIZE, np.float32))
    verdict = messages.unpack(Verdict, old.run(old.push_graph, *late))
    assert verdict.kind != Kind.APPLIED or verdict.duplicate
    with pytest.raises(RuntimeError, match="serves another run"):
        old.pull()
    assert new.store.state().counters == (0, 0, 0, 0)
    assert not new.pull().online.any()
    assert assert_agreement(new.store)["applied"] == 0


@pytest.mark.parametrize("server", [0, 2])
def test_a_failing_server_says_why_and_gives_no_parameters(coordinator, server):
    driver = Driver(coordinator, make_config(), num_ps=3)
    # An entry of the log far beyond what it knows.
    gap = messages.pack([*Verdict(*[0] * 7), *Entry(99, *[0] * (len(Entry._fields) - 1))])
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
    gap = messages.pack([*Verdict(*[0] * 7), *Entry(99, *[0] * (len(Entry._fields) - 1))])
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
    header, rows = messages.HEADER, driver.store.sizes
    for ledger, size in zip(ledgers, rows, strict=True):
        assert (ledger["pulls"], ledger["pushes"]) == (1, 2)
        # Online and target, each at a multiple of 64 bytes.
        assert ledger["bytes_out"] == header + 2 * 64
        assert ledger["bytes_in"] == 2 * (header + 4 * size)
        assert ledger["kinds"] == {"1": {"applied": 1}}
        assert ledger["staleness"] == {"1": [1]}
    assert [ledger["duplicates"] for ledger in ledgers] == [1, 0, 0]
