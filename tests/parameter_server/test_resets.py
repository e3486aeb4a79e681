"""Parameters that begin anew in part: which, by how much, and the same on all servers.

Networks here are 7 numbers, of which 0 is nobody's, 1 to 3 are before the head and 4 to 6 its own.
"""

import pathlib

import numpy as np
import pytest
from support.numpy_vectors import NumpyVectors
from support.several_servers import SIZE, Servers, begun
from support.single_server import make_config

from ps_dqn.parameter_server import resets as resets_module
from ps_dqn.parameter_server.aggregation import Combined
from ps_dqn.parameter_server.resets import Resets
from ps_dqn.parameter_server.vectors import CompiledVectors, Vectors
from ps_dqn.run import checkpoints
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.state import Counters, Segment, State
from ps_dqn.wire.messages import Kind, Status

BEFORE, HEAD = slice(1, 4), slice(4, 7)
SEGMENTS = [Segment(1, 4, False), Segment(4, 7, True)]
INITIAL = np.array([9, 1, 2, 3, 10, 20, 30], np.float32)
VECTORS = ("online", "target", "average")
# Each push is worth two sequential updates.
PERIOD = {"reset_period": 6, "average_decay": 0.9, "target_update_period": 4}


def pushed(number: int) -> np.ndarray:
    return np.random.default_rng([3, number]).normal(size=SIZE).astype(np.float32)


def made(num_ps: int = 1, num_workers: int = 1, **options) -> Servers:
    return Servers(num_ps, num_workers, INITIAL, segments=SEGMENTS, **{**PERIOD, **options})


def fresh(number: int, seed: int = 0) -> np.ndarray:
    """What a reset draws for all of the vector: with nothing kept, it is all that is there."""
    config = make_config(reset_period=6, reset_shrink=0.0, seed=seed)
    found = Resets(config, 0, SIZE, *resets_module.cut(SEGMENTS, INITIAL, (0, SIZE)))
    return found.renewing(6 * number)(np.zeros(SIZE, np.float32))


def gone_on(servers: Servers, numbers: range) -> dict[str, np.ndarray]:
    """Pushes of one worker; what is there after them."""
    exchange = begun(servers, ticket=1 + numbers.start)
    for number in numbers:
        servers.pull(exchange)
        assert servers.push(exchange, pushed(number)).kind == Kind.APPLIED
    return servers.mark()


def test_a_fresh_variable_has_the_values_of_its_beginning_in_another_order():
    orders = set()
    for number in range(1, 40):
        drawn = fresh(number)
        assert drawn[0] == 0, "what is nobody's stays"
        assert sorted(drawn[BEFORE]) == [1, 2, 3]
        assert sorted(drawn[HEAD]) == [10, 20, 30]
        orders.add(tuple(drawn))
        assert (fresh(number) == drawn).all()
    assert len(orders) > 18, "of the 36 that there are"
    assert any((fresh(n, seed=1) != fresh(n)).any() for n in range(1, 9))


def test_fresh_weights_are_drawn_as_the_first_ones_were():
    rng, size = np.random.default_rng(5), 20_000
    initial = rng.normal(scale=0.1, size=size).astype(np.float32)
    config = make_config(reset_period=6)
    found = Resets(config, 0, size, [Segment(0, size, True)], initial)
    first, second = (found.renewing(6 * n)(initial) for n in (1, 2))
    for each in (first, second):
        assert np.mean(each) == pytest.approx(0, abs=0.003)
        assert np.std(each) == pytest.approx(0.1, rel=0.02)
        # In no part of it is anything else likely, and nothing is left of where it was.
        assert np.std(each[: size // 20]) == pytest.approx(0.1, rel=0.1)
        assert abs(np.corrcoef(each, initial)[0, 1]) < 0.03
        assert abs(np.corrcoef(each[:-1], each[1:])[0, 1]) < 0.03
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03


@pytest.mark.parametrize("shrink", [0.0, 0.25, 1.0])
def test_several_resets_are_these_sums(shrink: float):
    servers = made(reset_shrink=shrink)
    online = target = average = INITIAL.copy()
    exchange = begun(servers)
    for number in range(1, 11):
        servers.pull(exchange)
        verdict = servers.push(exchange, pushed(number))
        assert verdict.sequential_updates == 2 * number
        online = online + pushed(number)
        average = average + np.float32(1 - 0.9**2) * (online - average)
        target = online if number % 2 == 0 else target
        if number % 3 == 0:
            drawn = fresh(number // 3)
            mixed = []
            for vector in (online, target, average):
                vector = vector.copy()
                vector[BEFORE] = shrink * vector[BEFORE] + (1 - shrink) * drawn[BEFORE]
                vector[HEAD] = drawn[HEAD]
                mixed.append(vector)
            online, target, average = mixed
        for name, wanted in zip(VECTORS, (online, target, average), strict=True):
            np.testing.assert_allclose(servers.mark()[name], wanted, rtol=1e-5, atol=1e-5)
    pulled = servers.pull(exchange)
    np.testing.assert_allclose(pulled.target, target, rtol=1e-5, err_msg="workers have it at once")


def test_optimizers_begin_anew():
    servers = made(outer_momentum=0.5, outer_learning_rate=1.0, reset_shrink=1.0)
    gone_on(servers, range(1, 4))
    [shard] = servers.shards
    state = shard.checkpoint()
    assert (state.begun_at, state.counters.version) == (3, 3)
    assert not np.any(state.slots)
    before = state.online
    after = gone_on(servers, range(4, 5))["online"]
    # Nesterov's first step from a velocity of nothing: 1 + 0.5 times the change.
    np.testing.assert_allclose(after, before + 1.5 * pushed(4), rtol=1e-5, atol=1e-6)
    assert shard.checkpoint().begun_at == 3


def test_adams_first_step_after_a_reset_is_as_long_as_its_first():
    """Its correction for moments that begin at nothing begins with them."""
    rule = {"local_updates": 1, "optimizer": "adam", "optimizer_epsilon": 1e-8}
    servers = made(reset_shrink=1.0, **rule)
    gone_on(servers, range(1, 7))
    before = servers.states()["online"]
    assert servers.shards[0].checkpoint().begun_at == 6
    after = gone_on(servers, range(7, 8))["online"]
    np.testing.assert_allclose(np.abs(after - before), 0.1, rtol=1e-4)


@pytest.mark.parametrize("num_ps", [2, 3, 7])
@pytest.mark.parametrize(
    "options", [{}, {"outer_momentum": 0.5}, {"tau": 0.1, "target_update_period": 128}]
)
def test_as_many_servers_as_there_are_hold_the_same(num_ps: int, options):
    wanted = gone_on(made(**options), range(1, 24))
    servers = made(num_ps, **options)
    found = gone_on(servers, range(1, 24))
    for name in VECTORS:
        np.testing.assert_array_equal(found[name], wanted[name])
    assert {shard.checkpoint().begun_at for shard in servers.shards} == {21}


def test_a_run_that_is_resumed_goes_on_as_if_it_had_not_ended(tmp_path: pathlib.Path):
    rule = {"local_updates": 1, "optimizer": "adam"}
    wanted = gone_on(made(**rule), range(1, 24))

    servers = made(**rule)
    gone_on(servers, range(1, 15))
    [state] = [shard.checkpoint() for shard in servers.shards]
    path = Checkpoints(tmp_path, keep=1).save_newest(state, 1.0)

    saved = checkpoints.load(path).state
    assert saved.begun_at == 12
    resumed = made(2, **rule)
    vectors, numbers, log = saved.as_arrays()
    parts = np.split(vectors, np.cumsum(resumed.sizes)[:-1], axis=1)
    for shard, part in zip(resumed.shards, parts, strict=True):
        shard.restore(State.from_arrays(part, numbers, log.encode()))
    found = gone_on(resumed, range(15, 24))
    for name in VECTORS:
        np.testing.assert_array_equal(found[name], wanted[name])


def test_what_was_computed_before_a_reset_is_refused_after_it():
    servers = made(2, 2, aggregation="async")
    early, late = (begun(servers, ticket, worker=i) for i, ticket in enumerate((1, 100)))
    servers.pull(early)
    # Of two workers each push is worth one sequential update.
    for number in range(1, 7):
        servers.pull(late)
        assert servers.push(late, pushed(number)).kind == Kind.APPLIED
    before = servers.mark()
    verdict = servers.push(early, pushed(50))
    assert (verdict.kind, verdict.sequential_updates) == (Kind.STALE, 6)
    after = servers.mark()
    for name in VECTORS:
        np.testing.assert_array_equal(before[name], after[name])
    assert servers.tallies()[0]["env_steps"] == 7 * 16, "they were made"
    # From then on it is one of them, whatever came between.
    servers.pull(early)
    for number in range(7, 9):
        servers.pull(late)
        assert servers.push(late, pushed(number)).kind == Kind.APPLIED
    assert servers.push(early, pushed(51)).kind == Kind.APPLIED


def test_a_round_ends_with_its_reset():
    servers = made(2, 2, aggregation="sync", local_updates=6)
    first, second = (begun(servers, ticket, worker=i) for i, ticket in enumerate((1, 100)))
    for exchange in (first, second):
        servers.pull(exchange)
    assert servers.push(first, pushed(1)).sequential_updates == 0
    assert servers.push(second, pushed(2)).sequential_updates == 6
    assert servers.push(second, pushed(3)).kind == Kind.LATE, "it was not pulled again"
    np.testing.assert_array_equal(servers.pull(first).online[HEAD], fresh(1)[HEAD])


def test_nobody_pulls_half_of_a_reset(monkeypatch: pytest.MonkeyPatch):
    servers = made(2, 2, aggregation="async", local_updates=12)
    exchange, other = begun(servers), begun(servers, ticket=100, worker=1)
    for each in (exchange, other):
        servers.pull(each)
    header, packed = other.pack(pushed(1), Kind.APPLIED, 2, 16, 1, 0.1)
    numbers = servers.decide(header, servers.stage(header, packed))
    # The first server has gone through it, the second has not heard of it.
    assert servers.pull(exchange) is Status.WAIT
    servers.follow(numbers)
    np.testing.assert_array_equal(servers.pull(exchange).online[HEAD], fresh(1)[HEAD])


def test_what_a_push_left_out_does_not_outlive_the_parameters_it_was_about():
    servers = made(push_top_k=0.3, reset_shrink=1.0)
    exchange = begun(servers)
    for number in range(1, 4):
        servers.pull(exchange)
        exchange.pushed(servers.push(exchange, pushed(number)))
    assert exchange.packing.residual.any(), "what the last push left out"
    before = servers.pull(exchange).online
    servers.push(exchange, pushed(4))
    [*indices] = np.argsort(-np.abs(pushed(4)))[:2]
    wanted = np.zeros(SIZE, np.float32)
    wanted[indices] = pushed(4)[indices]
    np.testing.assert_allclose(servers.mark()["online"], before + wanted, rtol=1e-6)


@pytest.mark.parametrize("kind", [Vectors, CompiledVectors])
def test_variables_begin_anew_as_arrays_do(kind):
    config = make_config(**PERIOD, outer_momentum=0.5, outer_learning_rate=None)
    renewed = Resets(config, 0, SIZE, *resets_module.cut(SEGMENTS, INITIAL, (0, SIZE))).renewing(6)
    found, reference = kind(config, INITIAL), NumpyVectors(config, INITIAL)
    states = []
    for each in (found, reference):
        each.step(Combined(pushed(1), 1.0, 2.0, 0.5, 0.5, []), 1, False)
        each.begin_anew(renewed)
        each.step(Combined(pushed(2), 1.0, 2.0, 0.5, 0.5, []), 1, False)
        states.append(each.state(Counters(2, 4, 0, 0, 4)))
    for name in (*VECTORS, "slots"):
        made_of, wanted = (np.array(getattr(state, name)) for state in states)
        np.testing.assert_allclose(made_of, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found.online(), states[0].online)
