"""The parameter store against the same arithmetic in one process, written out in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.parameters import ParameterStore
from ps_dqn.state import Counters, State

SIZE = 10  # not a multiple of 3
EPSILON = 1e-4


def initial(size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(7).normal(size=size).astype(np.float32)


def vectors(count: int, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(8).normal(size=(count, size)).astype(np.float32)


def make_config(**options) -> Config:
    defaults = {
        "local_updates": 1,
        "num_envs_per_worker": 1,
        # Copies are far away and there is no average where a test does not ask for them.
        "target_update_period": 10**6,
        "average_decay": 0.0,
        "optimizer_epsilon": EPSILON,
    }
    return Config.from_values({**defaults, **options})


class Driver:
    """A store, and its operations as closures on the workers of the shared cluster."""

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
        scalar = tf.TensorSpec([], tf.float32)
        vector = tf.TensorSpec(start.shape, tf.float32)
        moved = tf.TensorSpec([4], tf.int64)
        self.push_graph = self._trace(
            lambda vector, rate, moved: self.store.push(vector, rate, tf.unstack(moved)),
            vector,
            scalar,
            moved,
        )
        self._pull = self._trace(self.store.pull)
        self._take = self._trace(self.store.take_snapshot)
        self._pull_snapshot = self._trace(self.store.pull_snapshot)

    def push(self, vector, learning_rate=0.0, moved=(1, 1, 0, 0)) -> Counters:
        return Counters(
            *(int(each) for each in self.schedule_push(vector, learning_rate, moved).fetch())
        )

    def schedule_push(self, vector, learning_rate=0.0, moved=(1, 1, 0, 0)):
        arguments = (vector, np.float32(learning_rate), np.array(moved, np.int64))
        return self._coordinator.schedule(
            self.push_graph, args=tuple(tf.constant(each) for each in arguments)
        )

    def pull(self):
        return self._coordinator.schedule(self._pull).fetch()

    def take_snapshot(self) -> Counters:
        return Counters(*(int(each) for each in self._coordinator.schedule(self._take).fetch()))

    def pull_snapshot(self) -> np.ndarray:
        return self._coordinator.schedule(self._pull_snapshot).fetch()

    @staticmethod
    def _trace(function, *signature):
        return tf.function(function, autograph=False).get_concrete_function(*signature)


def adam(p, slots, g, rate, t):
    m = 0.9 * slots[0] + 0.1 * g
    v = 0.999 * slots[1] + 0.001 * g**2
    corrected = rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return p - corrected * m / (np.sqrt(v) + EPSILON), [m, v]


def rmsprop(p, slots, g, rate, t):
    square = 0.95 * slots[0] + 0.05 * g**2
    change = rate * g / np.sqrt(square + EPSILON)
    return p - change, [square, change]


def adagrad(p, slots, g, rate, t):
    square = slots[0] + g**2
    return p - rate * g / (np.sqrt(square) + EPSILON), [square]


def sgd(p, slots, g, rate, t):
    velocity = 0.8 * slots[0] + g
    return p - rate * velocity, [velocity]


OPTIMIZERS = {"adam": (adam, 2), "rmsprop": (rmsprop, 2), "adagrad": (adagrad, 1), "sgd": (sgd, 1)}


@pytest.mark.parametrize("num_ps", [1, 2, 3])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_gradients_are_applied_as_by_one_process(coordinator, name, num_ps):
    apply, num_slots = OPTIMIZERS[name]
    config = make_config(optimizer=name, momentum=0.8)
    driver = Driver(coordinator, config, num_ps)
    expected = initial().astype(np.float64)
    slots = [np.zeros(SIZE)] * num_slots
    for step, gradient in enumerate(vectors(8), start=1):
        rate = 0.1 / step  # the step size of a push is the pushing worker's
        counters = driver.push(gradient, rate)
        expected, slots = apply(expected, slots, gradient.astype(np.float64), rate, step)
        assert counters.version == step
        np.testing.assert_allclose(driver.pull().online, expected, atol=1e-5)
    state = driver.store.state()
    assert len(state.slots) == num_slots
    for kept, reference in zip(state.slots, slots, strict=True):
        np.testing.assert_allclose(kept, reference, atol=1e-5)


@pytest.mark.parametrize("num_ps", [1, 2, 3])
@pytest.mark.parametrize(("outer_learning_rate", "num_workers"), [(1.0, 1), (0.7, 1), (0.9, 3)])
def test_changes_are_averaged_over_workers(coordinator, outer_learning_rate, num_workers, num_ps):
    config = make_config(local_updates=4, outer_learning_rate=outer_learning_rate)
    driver = Driver(coordinator, config, num_ps, num_workers=num_workers)
    expected = initial().astype(np.float64)
    for change in vectors(5):
        driver.push(change, learning_rate=123.0)  # the workers used it already
        expected += outer_learning_rate / num_workers * change
        np.testing.assert_allclose(driver.pull().online, expected, atol=1e-5)
    assert driver.store.state().slots == ()


@pytest.mark.parametrize("num_ps", [1, 2, 3])
def test_changes_have_nesterov_momentum(coordinator, num_ps):
    config = make_config(local_updates=4, outer_learning_rate=0.7, outer_momentum=0.6)
    driver = Driver(coordinator, config, num_ps)
    expected, velocity = initial().astype(np.float64), np.zeros(SIZE)
    for change in vectors(6):
        driver.push(change, learning_rate=123.0)
        velocity = 0.6 * velocity + change
        expected += 0.7 * (change + 0.6 * velocity)
        np.testing.assert_allclose(driver.pull().online, expected, atol=1e-5)


@pytest.mark.parametrize("num_ps", [1, 3])
@pytest.mark.parametrize(
    ("updates", "period", "copied_at"),
    [
        (4, 10, {12, 20, 32, 40}),  # 12 and 32 jump over 10 and 30
        (4, 8, {8, 16, 24, 32, 40}),  # hits every time
        (25, 10, {25, 50, 75, 100, 125, 150, 175, 200, 225, 250}),  # several periods at once
    ],
)
def test_the_target_is_copied_when_its_period_is_crossed(
    coordinator, updates, period, copied_at, num_ps
):
    config = make_config(local_updates=updates, target_update_period=period)
    driver = Driver(coordinator, config, num_ps)
    target = initial()
    for change in vectors(10):
        counters = driver.push(change, moved=(1, updates, 0, 0))
        pulled = driver.pull()
        if counters.updates in copied_at:
            target = pulled.online
        np.testing.assert_array_equal(pulled.target, target)
        assert not np.array_equal(pulled.online, initial())
    assert counters.updates == 10 * updates


def test_the_target_is_copied_with_gradients_too(coordinator):
    config = make_config(optimizer="sgd", target_update_period=3)
    driver = Driver(coordinator, config, num_ps=2)
    target = initial()
    for update, gradient in enumerate(vectors(7), start=1):
        driver.push(gradient, 0.1)
        pulled = driver.pull()
        if update in (3, 6):
            target = pulled.online
        np.testing.assert_array_equal(pulled.target, target)


@pytest.mark.parametrize("num_ps", [1, 3])
@pytest.mark.parametrize("updates", [1, 4])
def test_the_soft_target_compounds_over_local_updates(coordinator, updates, num_ps):
    tau = 0.1
    # A period that a hard copy would meet at every push: tau must replace it.
    config = make_config(
        local_updates=updates, tau=tau, target_update_period=1, optimizer="sgd", momentum=0.0
    )
    driver = Driver(coordinator, config, num_ps)
    target = initial().astype(np.float64)
    for vector in vectors(5):
        driver.push(vector, 0.1, moved=(1, updates, 0, 0))
        pulled = driver.pull()
        for _ in range(updates):
            target += tau * (pulled.online - target)
        np.testing.assert_allclose(pulled.target, target, atol=1e-5)


@pytest.mark.parametrize("num_ps", [1, 3])
@pytest.mark.parametrize("updates", [1, 4])
def test_snapshots_are_of_an_average_that_compounds_over_local_updates(
    coordinator, updates, num_ps
):
    config = make_config(local_updates=updates, average_decay=0.8, optimizer="sgd", momentum=0.0)
    driver = Driver(coordinator, config, num_ps)
    average = initial().astype(np.float64)
    for vector in vectors(5):
        driver.push(vector, 0.1, moved=(1, updates, 0, 0))
        online = driver.pull().online
        for _ in range(updates):
            average = 0.8 * average + 0.2 * online
        driver.take_snapshot()
        np.testing.assert_allclose(driver.pull_snapshot(), average, atol=1e-5)
        np.testing.assert_array_equal(driver.store.state().average, driver.pull_snapshot())


def test_counters_move_by_what_is_pushed(coordinator):
    driver = Driver(coordinator, make_config(local_updates=4), num_ps=2)
    assert driver.store.counters() == Counters(0, 0, 0, 0)
    assert driver.push(vectors(1)[0], moved=(1, 4, 33, 2)) == Counters(1, 4, 33, 2)
    big = 2**40  # beyond int32
    assert driver.push(vectors(1)[0], moved=(1, 4, big, 0)) == Counters(2, 8, big + 33, 2)
    assert driver.store.counters() == Counters(2, 8, big + 33, 2)
    assert [int(each) for each in driver.pull().counters] == [2, 8, big + 33, 2]


@pytest.mark.parametrize("local_updates", [1, 4])
def test_pushes_of_several_workers_are_all_counted_and_applied(coordinator, local_updates):
    config = make_config(
        local_updates=local_updates, optimizer="sgd", momentum=0.0, target_update_period=10
    )
    start = np.zeros(SIZE, np.float32)
    driver = Driver(coordinator, config, num_ps=3, start=start)
    # Whole numbers add up exactly in any order.
    pushed = np.random.default_rng(9).integers(-8, 8, size=(60, SIZE)).astype(np.float32)
    waiting = [driver.schedule_push(each, 1.0, moved=(1, local_updates, 5, 1)) for each in pushed]
    versions = [int(remote.fetch()[0]) for remote in waiting]
    assert driver.store.counters() == Counters(60, 60 * local_updates, 300, 60)
    assert max(versions) == 60
    sign = -1 if local_updates == 1 else 1
    np.testing.assert_array_equal(driver.pull().online, sign * pushed.sum(0))


def test_a_snapshot_stands_still(coordinator):
    driver = Driver(coordinator, make_config(local_updates=4), num_ps=3)
    np.testing.assert_array_equal(driver.pull_snapshot(), initial())
    driver.push(vectors(1)[0], moved=(1, 4, 7, 1))
    frozen = driver.pull().online
    assert driver.take_snapshot() == Counters(1, 4, 7, 1)
    driver.push(vectors(2)[1])
    assert not np.array_equal(driver.pull().online, frozen)
    np.testing.assert_array_equal(driver.pull_snapshot(), frozen)
    np.testing.assert_array_equal(driver.store.snapshot(), frozen)


@pytest.mark.parametrize("num_ps", [1, 2, 3])
def test_a_state_goes_on_where_it_was_on_any_number_of_servers(coordinator, num_ps):
    config = make_config(optimizer="adam", target_update_period=4, average_decay=0.9)
    first = Driver(coordinator, config, num_ps=3)
    *before, last, after = vectors(7)
    for gradient in before:
        first.push(gradient, 0.1, moved=(1, 1, 9, 2))
    state = first.store.state()
    assert state.counters == Counters(5, 5, 45, 10)
    np.testing.assert_array_equal(state.online, first.pull().online)
    np.testing.assert_array_equal(state.target, first.pull().target)
    for vector in (state.target, state.average):
        assert not np.array_equal(vector, state.online)

    second = Driver(coordinator, config, num_ps, start=np.zeros(SIZE, np.float32))
    second.store.restore(state)
    restored = second.store.state()
    assert restored.counters == state.counters
    np.testing.assert_array_equal(restored.online, state.online)
    np.testing.assert_array_equal(restored.target, state.target)
    np.testing.assert_array_equal(restored.slots, state.slots)
    np.testing.assert_array_equal(restored.average, state.average)
    np.testing.assert_array_equal(second.store.snapshot(), state.average)
    # Adam's moments and step count show in the next step; the target's period in the third.
    for gradient in (last, after, last):
        assert first.push(gradient, 0.1) == second.push(gradient, 0.1)
        np.testing.assert_allclose(second.pull().online, first.pull().online, atol=1e-6)
        np.testing.assert_allclose(second.pull().target, first.pull().target, atol=1e-6)
    # 8 updates: both have copied.
    np.testing.assert_array_equal(second.pull().target, second.pull().online)


def test_a_restored_target_waits_for_its_next_period(coordinator):
    config = make_config(local_updates=4, target_update_period=10)
    driver = Driver(coordinator, config, num_ps=2)
    target = np.full(SIZE, 5, np.float32)
    driver.store.restore(State(initial(), target, initial(), (), Counters(3, 12, 0, 0)))
    driver.push(vectors(1)[0], moved=(1, 4, 0, 0))  # 16: no period was crossed since 12
    np.testing.assert_array_equal(driver.pull().target, target)
    driver.push(vectors(1)[0], moved=(1, 4, 0, 0))  # 20
    np.testing.assert_array_equal(driver.pull().target, driver.pull().online)


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
def test_shards_are_even_and_each_server_has_its_own(coordinator, size):
    config = make_config(optimizer="adam")
    store = Driver(coordinator, config, num_ps=3, start=initial(size)).store
    for shards in (store._online, store._target, store._average, store._snapshot, *store._slots):
        sizes = [shard.shape[0] for shard in shards]
        assert sum(sizes) == size
        assert max(sizes) - min(sizes) <= 1
        devices = [shard.device for shard in shards]
        assert devices == [f"/job:ps/replica:0/task:{i}/device:CPU:0" for i in range(3)]


@pytest.mark.parametrize("options", [{"target_update_period": 5}, {"tau": 0.5}])
def test_the_target_moves_without_leaving_its_server(coordinator, options):
    driver = Driver(coordinator, make_config(optimizer="adam", **options), num_ps=3)
    definition = driver.push_graph.graph.as_graph_def()
    nodes = [*definition.node]
    for function in definition.library.function:
        nodes.extend(function.node_def)
    # A hard copy is an assignment, a soft move an addition of a share of a difference.
    by_op: dict[str, list[str]] = {}
    for node in nodes:
        if node.op == "ReadVariableOp" and node.attr["dtype"].type != tf.float32.as_datatype_enum:
            continue  # a counter, which is not part of the network
        by_op.setdefault(node.op, []).append(node.device.split("/device")[0])
    servers = {f"/job:ps/replica:0/task:{i}" for i in range(3)}
    moving = ["AssignAddVariableOp", "Sub"] if "tau" in options else ["AssignVariableOp"]
    for op in (*moving, "ReadVariableOp"):
        assert set(by_op[op]) == servers, op
