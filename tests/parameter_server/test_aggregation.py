"""How pushes become versions, one by one or in rounds."""

import itertools
import math

import numpy as np
import pytest
from support.single_server import SIZE, Server, close, make_config, start, vector

from ps_dqn.config.run import ROUNDS
from ps_dqn.parameter_server import aggregation, ways
from ps_dqn.parameter_server.aggregation import CHUNK, age_weight
from ps_dqn.state import Counters, State
from ps_dqn.wire import messages
from ps_dqn.wire.messages import Entry, Kind, Status, Verdict


def vectors(count: int, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(8).normal(size=(count, size)).astype(np.float32)


def weight(age: int, decay: float, cutoff: int) -> float:
    config = make_config(staleness_decay=decay, staleness_cutoff=cutoff)
    return age_weight(age, config.parameter_server)


def entry(worker: int, staleness: int = 0, rate: float = 0.1) -> Entry:
    values = dict.fromkeys(Entry._fields, 0)
    values |= {"worker": worker, "staleness": staleness, "rate_bits": messages.bits(rate)}
    return Entry(**values)


def combined(pushes: dict[int, np.ndarray], ages=(), **options) -> aggregation.Combined:
    """What a round of these pushes makes, in the order in which they come."""
    config = make_config(**({"aggregation": "sync"} | options))
    way = ways.WAYS[config.parameter_server.aggregation](config, len(pushes))
    *earlier, last = [
        way.add(entry(worker, age), pushed, len(pushes))
        for (worker, pushed), age in itertools.zip_longest(pushes.items(), ages, fillvalue=0)
    ]
    assert earlier == [None] * len(earlier)
    return last


# What a push counts, and the mean of several.


@pytest.mark.parametrize("age", [0, 1, 2, 7, 8, 9, 100])
def test_age_weight_is_an_exponential_times_a_gate(age):
    assert weight(age, 0.0, 0) == 1.0
    exponential = 2.718281828459045 ** (-0.3 * age)
    assert weight(age, 0.3, 0) == pytest.approx(exponential, abs=1e-12)
    gate = 0.5 + 0.5 * np.cos(np.pi * age / 8) if age < 8 else 0.0
    assert weight(age, 0.0, 8) == pytest.approx(gate, abs=1e-12)
    assert weight(age, 0.3, 8) == pytest.approx(exponential * gate, abs=1e-12)


def test_age_weight_at_known_places():
    assert weight(0, 5.0, 1) == 1.0
    assert weight(4, 0.0, 8) == pytest.approx(0.5)
    assert weight(1, math.log(2), 0) == pytest.approx(0.5)
    assert weight(1, math.log(2), 2) == pytest.approx(0.25)


def mean(pushes: dict[int, np.ndarray]) -> np.ndarray:
    return combined(pushes).vector


@pytest.mark.parametrize("way", ["sync", "median", "trimmed_mean"])
def test_tensorflow_takes_a_round_over_without_copying_it(way):
    pushes = dict.fromkeys(range(3), np.ones(1003, np.float32))
    found = [combined(pushes, aggregation=way).vector for _ in range(20)]
    assert {(each.ctypes.data % 64, each.dtype.name) for each in found} == {(0, "float32")}


def test_mean_is_that_of_the_workers_in_any_order_to_the_last_bit():
    rng = np.random.default_rng(4)
    # Of very different sizes, so that the order of adding shows.
    pushes = (rng.normal(size=(5, 1000)) * 10.0 ** rng.integers(-6, 6, (5, 1))).astype(np.float32)
    in_order = mean(dict(enumerate(pushes)))
    error = np.abs(in_order - pushes.astype(np.float64).mean(axis=0))
    assert (error <= 1e-6 * np.abs(pushes).max(axis=0)).all()
    for _ in range(10):
        order = rng.permutation(5)
        assert mean({i: pushes[i] for i in order}).tolist() == in_order.tolist()
    backwards = pushes[4] + pushes[3] + pushes[2] + pushes[1] + pushes[0]
    assert (backwards / np.float32(5) != in_order).any(), "or nothing is shown"


def test_mean_leaves_the_pushes_alone():
    pushes = {0: np.ones(3, np.float32), 1: np.full(3, 3, np.float32)}
    assert mean(pushes).tolist() == [2, 2, 2]
    assert pushes[0].tolist() == [1, 1, 1]
    alone = {0: np.ones(3, np.float32)}
    assert mean(alone).tolist() == [1, 1, 1]
    assert mean(alone) is not alone[0]


def test_a_round_is_weighed_by_the_age_of_each_push():
    # No way of today lets pushes of several ages into a round; one that did would be weighed so.
    config = make_config()
    object.__setattr__(config.parameter_server, "staleness_decay", math.log(2))
    way = aggregation.Synchronous(config, 3)
    pushes = vectors(3)
    for worker, age in enumerate((0, 1)):
        assert way.add(entry(worker, age), pushes[worker], 3) is None
    found = way.add(entry(2, 2), pushes[2], 3)
    counts = np.array([1.0, 0.5, 0.25])
    total = found.weight * found.vector
    assert total == close((counts[:, None] * pushes).sum(axis=0) / 3)
    assert found.weight == pytest.approx(counts.mean())


# What a minority of workers pushes does not count.


@pytest.mark.parametrize("size", [3, CHUNK - 1, CHUNK + 5])
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 5, 8])
def test_median_and_trimmed_mean_are_those_of_each_coordinate(workers, size):
    pushes = vectors(workers, size)
    shuffled = {worker: pushes[worker] for worker in (7 * np.arange(workers)) % workers}
    shuffled = dict(enumerate(pushes)) if len(shuffled) < workers else shuffled
    assert combined(shuffled, aggregation="median").vector == close(np.median(pushes, axis=0))
    for fraction in (0.0, 0.2, 0.25, 0.49):
        trimmed = int(fraction * workers)
        ordered = np.sort(pushes.astype(np.float64), axis=0)[trimmed : workers - trimmed]
        found = combined(shuffled, aggregation="trimmed_mean", trim_fraction=fraction)
        assert found.vector == close(ordered.mean(axis=0))
        assert found.weight == 1.0


@pytest.mark.parametrize("way", ["trimmed_mean", "median"])
@pytest.mark.parametrize("garbage", [1e30, -1e30, np.float32(3e38)])
def test_one_worker_of_four_cannot_move_the_parameters_out_of_the_others_range(way, garbage):
    pushes = dict(enumerate(vectors(4)))
    honest = np.stack([pushes[worker] for worker in (0, 1, 3)])
    pushes[2] = np.full(SIZE, garbage, np.float32)
    found = combined(pushes, aggregation=way).vector
    assert (found >= honest.min(axis=0)).all()
    assert (found <= honest.max(axis=0)).all()
    assert not (combined(pushes).vector <= honest.max(axis=0)).all() or garbage < 0


def test_every_choice_of_the_flag_is_a_way_of_aggregating():
    assert set(ways.WAYS) == {"async", *ROUNDS}


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
    updates = options.get("local_updates", 2)
    assert wanted.counters == Counters(1, 10, 10, 5, updates)
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
        server.shard.restore(State(zeros, zeros, zeros, (zeros,), Counters(0, 0, 0, 0, 0)))
        for worker in order:
            server.push(np.ones(SIZE), worker=worker, rate=rates[worker])
        assert -server.state.online == pytest.approx(np.full(SIZE, sum(rates) / 3), rel=1e-6)
        found.add(server.state.online.tobytes())
    assert len(found) == 1


def test_nothing_moves_before_the_round_is_complete():
    server = Server(num_workers=3, aggregation="sync")
    for number, worker in enumerate((2, 0)):
        verdict = server.push(vector(worker), worker=worker)
        assert verdict == Verdict(Kind.APPLIED, 0, 0, number, 0, 0, 0, 0, 0)
        header, online, _ = server.pull(worker=1)
        assert online == start().tolist()
        assert (header.version, header.env_steps) == (0, 0)
    assert server.push(vector(1), worker=1) == Verdict(Kind.APPLIED, 0, 0, 2, 1, 6, 48, 3, 2)
    assert server.pull()[1] == close(start() + (vector(0) + vector(1) + vector(2)) / 3)


def test_a_second_push_of_a_worker_in_a_round_is_late():
    server = Server(num_workers=2, aggregation="sync")
    server.push(vector(0), worker=0)
    assert server.push(vector(5), worker=0) == Verdict(Kind.LATE, 0, 0, 1, 0, 0, 16, 1, 0)
    assert server.push(vector(1), worker=1) == Verdict(Kind.APPLIED, 0, 0, 2, 1, 4, 48, 3, 2)
    assert server.pull()[1] == close(start() + (vector(0) + vector(1)) / 2)


def test_backup_workers_are_not_waited_for():
    server = Server(num_workers=4, aggregation="sync", backup_workers=2)
    assert server.push(vector(3), worker=3).version == 0
    assert server.push(vector(1), worker=1) == Verdict(Kind.APPLIED, 0, 0, 1, 1, 4, 32, 2, 2)
    wanted = start() + (vector(3) + vector(1)) / 2
    # The late ones: their steps count, what they learned does not, not even in the next round.
    assert server.push(vector(0), worker=0) == Verdict(Kind.LATE, 0, 1, 2, 1, 4, 48, 3, 2)
    assert server.push(vector(2), worker=2) == Verdict(Kind.LATE, 0, 1, 3, 1, 4, 64, 4, 2)
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
    assert server.status(worker=0) is Status.WAIT
    assert server.status(worker=1) is Status.READY
    server.push(vector(1), worker=1)
    assert server.status(worker=0) is Status.READY
    for worker in (0, 1):
        assert server.status(worker=worker) is Status.READY
        server.push(vector(0), worker=worker, base=1)
    # All steps are made: a round that nobody needs is not begun.
    assert server.status(worker=1) is Status.FINISHED
    assert server.pull()[1] == []


def test_without_waiting_everyone_is_always_ready():
    server = Server(num_workers=2, total_env_steps=1)
    server.push(vector(0))
    assert server.status(worker=0) is server.status(worker=1) is Status.READY


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
        ({"local_updates": 2, "outer_momentum": 0.5, "outer_learning_rate": 0.5}, -0.1),
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
    updates = 8 * options["local_updates"]
    counted = Counters(8, 32, 256, 16, updates)
    assert pair.counters == mean.counters == whole.counters == counted
    for name in ("online", "average", "target"):
        ours = getattr(pair.state, name)
        assert ours.tobytes() == getattr(mean.state, name).tobytes()
        assert ours == pytest.approx(getattr(whole.state, name), abs=2e-5)
        assert (ours != start()).all()
