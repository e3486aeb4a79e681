"""How pushes become steps, one by one or in rounds, against formulas written out in float64."""

import itertools
import math

import numpy as np
import pytest
from support.single_server import SIZE, Server, close, start, vector

from ps_dqn.config import Config
from ps_dqn.parameter_server import aggregation
from ps_dqn.parameter_server.aggregation import CHUNK, Rule
from ps_dqn.state import Counters, State
from ps_dqn.wire.messages import Kind, Status, Verdict

EPSILON = 1e-4


def make_config(**options) -> Config:
    defaults = {"num_envs_per_worker": 1, "average_decay": 0.0}
    if options.get("optimizer") != "sgd":
        defaults["optimizer_epsilon"] = EPSILON
    return Config.from_values({**defaults, **options})


def vectors(count: int, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(8).normal(size=(count, size)).astype(np.float32)


class Walk:
    """A rule, what it works on, and the path it takes."""

    def __init__(self, config: Config, num_workers: int = 1, size: int = SIZE):
        self.rule = Rule(config, num_workers)
        self.online = np.linspace(-1, 1, size).astype(np.float32)
        self.average = self.online.copy()
        self.slots = [np.zeros(size, np.float32) for _ in range(self.rule.num_slots)]
        self.steps = 0

    def step(self, vector: np.ndarray, rate: float = 0.0, weight: float = 1.0) -> np.ndarray:
        self.steps += 1
        before = vector.copy()
        self.rule.apply(self.online, self.average, self.slots, vector, rate, weight, self.steps)
        assert vector.tolist() == before.tolist(), "the push itself is left alone"
        for each in (self.online, self.average, *self.slots):
            assert each.dtype == np.float32
        return self.online.astype(np.float64)


# One local update: gradients, for the optimizer of the configuration.


def adam(x, slots, g, rate, t):
    slots[0] = 0.9 * slots[0] + 0.1 * g
    slots[1] = 0.999 * slots[1] + 0.001 * g**2
    corrected = rate * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return x - corrected * slots[0] / (np.sqrt(slots[1]) + EPSILON)


def rmsprop(x, slots, g, rate, t):
    slots[0] = 0.95 * slots[0] + 0.05 * g**2
    return x - rate * g / np.sqrt(slots[0] + EPSILON)


def adagrad(x, slots, g, rate, t):
    slots[0] = slots[0] + g**2
    return x - rate * g / (np.sqrt(slots[0]) + EPSILON)


def sgd(x, slots, g, rate, t):
    slots[0] = 0.8 * slots[0] + g
    return x - rate * slots[0]


OPTIMIZERS = {"adam": (adam, 2), "rmsprop": (rmsprop, 1), "adagrad": (adagrad, 1), "sgd": (sgd, 1)}


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_gradients_go_to_the_optimizer_and_weights_to_its_step_size(name, weighed):
    formula, num_slots = OPTIMIZERS[name]
    momentum = {"momentum": 0.8} if name == "sgd" else {}
    walk = Walk(make_config(local_updates=1, optimizer=name, **momentum))
    expected, slots = walk.online.astype(np.float64), [np.zeros(SIZE)] * num_slots
    assert walk.rule.num_slots == num_slots
    for t, gradient in enumerate(vectors(12), start=1):
        rate = 0.02 / t
        weight = 0.5**t if weighed else 1.0
        expected = formula(expected, slots, gradient, weight * rate, t)
        assert walk.step(gradient, rate, weight) == close(expected)
        for slot, wanted in zip(walk.slots, slots, strict=True):
            assert slot == close(wanted, 1e-5)


# More local updates: changes, for the outer optimizer.


def test_a_change_is_added_times_the_step_size_and_its_weight():
    walk = Walk(make_config(local_updates=4, outer_learning_rate=0.25, outer_momentum=0.0))
    assert walk.rule.num_slots == 0
    expected = walk.online.astype(np.float64)
    for change, weight in zip(vectors(5), (1.0, 0.5, 0.1, 0.0, 2.0), strict=True):
        expected = expected + 0.25 * weight * change
        # The learning rate is the worker's business.
        assert walk.step(change, rate=123.0, weight=weight) == close(expected)


def test_changes_may_have_nesterov_momentum():
    walk = Walk(make_config(local_updates=4, outer_learning_rate=0.7, outer_momentum=0.9))
    assert walk.rule.num_slots == 1
    expected, velocity = walk.online.astype(np.float64), np.zeros(SIZE)
    for change, weight in zip(vectors(6), (1.0, 1.0, 0.5, 1.0, 0.0, 1.0), strict=True):
        # A change is the negative of a gradient (Sutskever et al. 2013, in the form of DiLoCo).
        gradient = -weight * change
        velocity = 0.9 * velocity + gradient
        expected = expected - 0.7 * (gradient + 0.9 * velocity)
        assert walk.step(change, rate=123.0, weight=weight) == close(expected)
        assert walk.slots[0] == close(velocity)


def test_the_default_momentum_is_one_half():
    default = make_config(local_updates=2).parameter_server
    assert aggregation.outer_momentum(default) == 0.5
    none = make_config(local_updates=2, outer_momentum=0.0).parameter_server
    assert aggregation.outer_momentum(none) == 0.0


@pytest.mark.parametrize("momentum", [0.0, 0.75])
def test_the_default_step_size_depends_on_momentum_and_who_waits_for_whom(momentum):
    for options, num_workers, wanted in [
        ({"aggregation": "sync"}, 4, 1.0 - momentum),
        ({"aggregation": "async"}, 1, 1.0 - momentum),
        ({"aggregation": "async"}, 4, 0.5 * (1.0 - momentum)),
        ({"aggregation": "async"}, 2, 0.5**0.5 * (1.0 - momentum)),
        ({"aggregation": "async"}, 5, (1.0 - momentum) / 5),
        ({"aggregation": "async", "outer_learning_rate": 0.125}, 4, 0.125),
        ({"aggregation": "sync", "outer_learning_rate": 0.125}, 4, 0.125),
        ({"aggregation": "async", "outer_learning_rate": 0.0}, 4, 0.0),
    ]:
        config = make_config(local_updates=2, outer_momentum=momentum, **options)
        rate = aggregation.outer_learning_rate(config.parameter_server, num_workers)
        assert rate == pytest.approx(wanted)
        walk = Walk(config, num_workers)
        before = walk.online.astype(np.float64)
        change = vectors(1)[0]
        # From rest, Nesterov's first step is 1 + momentum times as long.
        assert walk.step(change) == close(before + wanted * (1 + momentum) * change)


@pytest.mark.parametrize("local_updates", [1, 3])
@pytest.mark.parametrize("decay", [0.0, 0.9])
def test_the_average_follows_as_after_that_many_updates(local_updates, decay):
    walk = Walk(make_config(local_updates=local_updates, average_decay=decay))
    expected = walk.average.astype(np.float64)
    for push in vectors(6):
        online = walk.step(push, rate=0.05)
        for _ in range(local_updates):
            expected = decay * expected + (1 - decay) * online
        assert walk.average == close(expected)
    assert (walk.average == walk.online).all() == (decay == 0.0)


@pytest.mark.parametrize(
    "options",
    [
        {"local_updates": 1, "optimizer": "adam"},
        {"local_updates": 2},
        {"local_updates": 2, "outer_momentum": 0.9},
    ],
)
@pytest.mark.parametrize("size", [CHUNK - 1, CHUNK, 2 * CHUNK + 5])
def test_a_long_vector_is_treated_like_many_short_ones(options, size):
    # Long vectors are worked on in pieces; each number has its own way, whatever is beside it.
    config = make_config(average_decay=0.9, **options)
    whole = Walk(config, size=size)
    cut = size // 3
    parts = [Walk(config, size=size) for _ in range(2)]
    for part, place in zip(parts, (slice(0, cut), slice(cut, size)), strict=True):
        part.online, part.average = part.online[place], part.average[place]
        part.slots = [slot[place] for slot in part.slots]
    for push in vectors(3, size):
        whole.step(push, rate=0.01)
        parts[0].step(push[:cut], rate=0.01)
        parts[1].step(push[cut:], rate=0.01)
    for name in ("online", "average"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(getattr(whole, name), joined)
    assert (whole.online != np.linspace(-1, 1, size).astype(np.float32)).all()


# What a push counts, and the mean of several.


@pytest.mark.parametrize("age", [0, 1, 2, 7, 8, 9, 100])
def test_age_weight_is_an_exponential_times_a_gate(age):
    assert aggregation.age_weight(age, 0.0, 0) == 1.0
    exponential = 2.718281828459045 ** (-0.3 * age)
    assert aggregation.age_weight(age, 0.3, 0) == pytest.approx(exponential, abs=1e-12)
    gate = 0.5 + 0.5 * np.cos(np.pi * age / 8) if age < 8 else 0.0
    assert aggregation.age_weight(age, 0.0, 8) == pytest.approx(gate, abs=1e-12)
    assert aggregation.age_weight(age, 0.3, 8) == pytest.approx(exponential * gate, abs=1e-12)


def test_age_weight_at_known_places():
    assert aggregation.age_weight(0, 5.0, 1) == 1.0
    assert aggregation.age_weight(4, 0.0, 8) == pytest.approx(0.5)
    assert aggregation.age_weight(1, math.log(2), 0) == pytest.approx(0.5)
    assert aggregation.age_weight(1, math.log(2), 2) == pytest.approx(0.25)


def test_mean_is_that_of_the_workers_in_any_order_to_the_last_bit():
    rng = np.random.default_rng(4)
    # Of very different sizes, so that the order of adding shows.
    pushes = (rng.normal(size=(5, 1000)) * 10.0 ** rng.integers(-6, 6, (5, 1))).astype(np.float32)
    in_order = aggregation.mean(dict(enumerate(pushes)))
    error = np.abs(in_order - pushes.astype(np.float64).mean(axis=0))
    assert (error <= 1e-6 * np.abs(pushes).max(axis=0)).all()
    for _ in range(10):
        order = rng.permutation(5)
        assert aggregation.mean({i: pushes[i] for i in order}).tolist() == in_order.tolist()
    backwards = pushes[4] + pushes[3] + pushes[2] + pushes[1] + pushes[0]
    assert (backwards / np.float32(5) != in_order).any(), "or nothing is shown"


def test_mean_leaves_the_pushes_alone():
    pushes = {0: np.ones(3, np.float32), 1: np.full(3, 3, np.float32)}
    assert aggregation.mean(pushes).tolist() == [2, 2, 2]
    assert pushes[0].tolist() == [1, 1, 1]
    alone = {7: np.ones(3, np.float32)}
    assert aggregation.mean(alone).tolist() == [1, 1, 1]
    assert aggregation.mean(alone) is not alone[7]


# In rounds (sync).


def round_of(order, **options) -> Server:
    """A server of five workers after one round; they push in this order."""
    server = Server(num_workers=len(order), aggregation="sync", **options)
    for worker in order:
        # Of very different sizes, so that the order of adding would show.
        server.push(10.0 ** (2 * worker) * vector(worker), worker=worker, env_steps=worker)
    return server


@pytest.mark.parametrize("options", [{}, {"outer_momentum": 0.9}, {"local_updates": 1}])
def test_a_round_is_the_mean_whoever_comes_first(options):
    wanted = round_of(range(5), **options)
    assert wanted.counters == Counters(1, 10, 10, 5)
    orders = list(itertools.permutations(range(5)))[::17]
    for order in orders:
        server = round_of(order, **options)
        assert server.counters == wanted.counters
        assert server.state.online.tobytes() == wanted.state.online.tobytes()
    mean = sum(10.0 ** (2 * i) * vector(i) for i in range(5)) / 5
    alone = Server(aggregation="sync", **options)
    alone.push(mean)
    assert wanted.state.online == pytest.approx(alone.state.online, rel=1e-5)


def test_the_step_size_of_a_round_is_the_mean_whoever_comes_first():
    # The workers' own step sizes differ where they pulled at different numbers of steps. The mean
    # of these is close to the middle of two float32 numbers: adding them up in another order may
    # come out at the other one.
    rates = [0.0005336, 0.0012297, 0.003808912918195873]
    found = set()
    for order in itertools.permutations(range(3)):
        server = Server(num_workers=3, aggregation="sync", local_updates=1, optimizer="sgd")
        zeros = np.zeros(SIZE, np.float32)
        server.shard.restore(State(zeros, zeros, zeros, (zeros,), Counters(0, 0, 0, 0)))
        for worker in order:
            server.push(np.ones(SIZE), worker=worker, rate=rates[worker])
        assert -server.state.online == pytest.approx(np.full(SIZE, sum(rates) / 3), rel=1e-6)
        found.add(server.state.online.tobytes())
    assert len(found) == 1


def test_nothing_moves_before_the_round_is_complete():
    server = Server(num_workers=3, aggregation="sync")
    for worker in (2, 0):
        verdict = server.push(vector(worker), worker=worker)
        assert verdict == Verdict(Kind.APPLIED, 0, 0, 0, 0, 0, 0)
        header, online, _ = server.pull()
        assert online == start().tolist()
        assert (header.version, header.env_steps) == (0, 0)
    assert server.push(vector(1), worker=1) == Verdict(Kind.APPLIED, 0, 0, 1, 6, 48, 3)
    assert server.pull()[1] == close(start() + (vector(0) + vector(1) + vector(2)) / 3)


def test_a_second_push_of_a_worker_in_a_round_is_late():
    server = Server(num_workers=2, aggregation="sync")
    server.push(vector(0), worker=0)
    assert server.push(vector(5), worker=0) == Verdict(Kind.LATE, 0, 0, 0, 0, 16, 1)
    assert server.push(vector(1), worker=1) == Verdict(Kind.APPLIED, 0, 0, 1, 4, 48, 3)
    assert server.pull()[1] == close(start() + (vector(0) + vector(1)) / 2)


def test_backup_workers_are_not_waited_for():
    server = Server(num_workers=4, aggregation="sync", backup_workers=2)
    assert server.push(vector(3), worker=3).version == 0
    assert server.push(vector(1), worker=1) == Verdict(Kind.APPLIED, 0, 0, 1, 4, 32, 2)
    wanted = start() + (vector(3) + vector(1)) / 2
    # The late ones: their steps count, what they learned does not, not even in the next round.
    assert server.push(vector(0), worker=0) == Verdict(Kind.LATE, 0, 1, 1, 4, 48, 3)
    assert server.push(vector(2), worker=2) == Verdict(Kind.LATE, 0, 1, 1, 4, 64, 4)
    assert server.pull()[1] == close(wanted)
    for worker in (0, 1):
        server.push(vector(worker), worker=worker, base=1)
    assert server.pull()[1] == close(wanted + (vector(0) + vector(1)) / 2)
    assert server.counters.updates == 8
    kinds = server.shard.ledger()["kinds"]
    assert kinds == {
        0: {"late": 1, "applied": 1}, 1: {"applied": 2}, 2: {"late": 1}, 3: {"applied": 1},
    }  # fmt: skip


def test_who_has_pushed_for_a_version_waits_for_the_next():
    server = Server(num_workers=2, aggregation="sync", total_env_steps=64)
    assert server.status() is Status.READY
    server.push(vector(0), worker=0)
    assert server.status(contributed=0) is Status.WAIT
    assert server.status() is Status.READY
    server.push(vector(1), worker=1)
    assert server.status(contributed=0) is Status.READY
    for worker in (0, 1):
        assert server.status(contributed=0) is Status.READY
        server.push(vector(0), worker=worker, base=1)
    # All steps are made: a round that nobody needs is not begun.
    assert server.status(contributed=1) is Status.FINISHED
    assert server.pull()[1] == []


def test_without_waiting_everyone_is_always_ready():
    server = Server(num_workers=2, total_env_steps=1)
    server.push(vector(0))
    assert server.status(contributed=0) is server.status(contributed=1) is Status.READY


class LeastSquares:
    """Linear regression: its gradient is linear in the data, so a mean of halves is the whole."""

    def __init__(self, seed: int, rows: int):
        rng = np.random.default_rng(seed)
        self.inputs, self.outputs = rng.normal(size=(rows, SIZE)), rng.normal(size=rows)

    def gradient(self, weights, rows=slice(None)) -> np.ndarray:
        inputs, outputs = self.inputs[rows], self.outputs[rows]
        return (2 * inputs.T @ (inputs @ weights - outputs) / len(outputs)).astype(np.float32)


@pytest.mark.parametrize(
    ("options", "factor"),
    [
        ({"local_updates": 1, "optimizer": "adam"}, 1.0),
        ({"local_updates": 1, "optimizer": "rmsprop"}, 1.0),
        ({"local_updates": 2, "outer_momentum": 0.9, "outer_learning_rate": 0.7}, -0.1),
        ({"local_updates": 2, "outer_learning_rate": None}, -0.1),
    ],
)
def test_workers_with_half_a_batch_are_one_worker_with_the_whole(options, factor):
    options = {"aggregation": "sync", "average_decay": 0.9, "target_update_period": 6, **options}
    pair, mean, whole = Server(2, **options), Server(1, **options), Server(1, **options)
    losses = []
    for version in range(8):
        data = LeastSquares(version, 32)
        fields = {"base": version, "rate": 0.05}
        weights = np.array(pair.pull()[1])
        halves = [
            np.float32(factor) * data.gradient(weights, rows) for rows in np.split(np.arange(32), 2)
        ]
        for worker in (1, 0):
            pair.push(halves[worker], worker=worker, **fields)
        mean.push((halves[0] + halves[1]) / 2, updates=4, env_steps=32, episodes=2, **fields)
        gradient = data.gradient(np.array(whole.pull()[1]))
        whole.push(np.float32(factor) * gradient, updates=4, env_steps=32, episodes=2, **fields)
        losses.append(np.linalg.norm(gradient))
    assert losses[0] > 1, "there is something to learn"
    assert pair.counters == mean.counters == whole.counters == Counters(8, 32, 256, 16)
    for name in ("online", "average", "target"):
        ours = getattr(pair.state, name)
        assert ours.tobytes() == getattr(mean.state, name).tobytes()
        assert ours == pytest.approx(getattr(whole.state, name), abs=2e-5)
        assert (ours != start()).all()
