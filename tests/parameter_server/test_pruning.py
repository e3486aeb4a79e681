"""Masks of the parameters: which weights they keep, and the same on every server."""

import pathlib

import numpy as np
import pytest
from support.numpy_vectors import NumpyVectors
from support.pruned_servers import (
    FIRST,
    INITIAL,
    MAGNITUDE,
    RIGL,
    SECOND,
    SEGMENTS,
    SIZE,
    VECTORS,
    gone_on,
    made,
    masks,
    pushed,
)
from support.several_servers import Servers, begun
from support.single_server import make_config

from ps_dqn.moments import Moments
from ps_dqn.parameter_server import pruning as pruning_module
from ps_dqn.parameter_server.aggregation import Combined
from ps_dqn.parameter_server.pruning import Pruning
from ps_dqn.parameter_server.vectors import CompiledVectors, Vectors
from ps_dqn.run import checkpoints
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.state import Counters, State


def largest(values: np.ndarray, count: int) -> np.ndarray:
    return np.abs(values) >= np.sort(np.abs(values))[-count]


def test_the_smallest_weights_of_each_layer_go_and_stay_zero():
    servers = made()
    exchange = begun(servers)
    online = target = average = INITIAL.copy()
    kept = np.ones(SIZE, bool)
    # Shares of 75 %: 1 - (2/3)^3, 1 - (1/3)^3 and 1, of 24 and 12 weights.
    counts = {3: (11, 6), 5: (7, 3), 7: (6, 3)}
    for number in range(1, 11):
        servers.pull(exchange)
        servers.push(exchange, pushed(number))
        online = online + pushed(number) * kept
        average = average + np.float32(1 - 0.9**2) * (online - average)
        target = online if number % 2 == 0 else target
        if number in counts:
            for layer, count in zip((FIRST, SECOND), counts[number], strict=True):
                kept[layer] = largest(online[layer], count)
            online, target, average = online * kept, target * kept, average * kept
        np.testing.assert_array_equal(masks(servers), kept)
        for name, wanted in zip(VECTORS, (online, target, average), strict=True):
            np.testing.assert_allclose(servers.mark()[name], wanted, rtol=1e-5, atol=1e-6)
        pulled = servers.pull(exchange)
        np.testing.assert_array_equal(pulled.mask, kept, err_msg="workers hear of it at once")
        np.testing.assert_allclose(pulled.online, online, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(pulled.target, target, rtol=1e-5, atol=1e-6)
    assert kept.sum() == 6 + 3 + 3 + 1
    assert exchange.sparsity == pytest.approx(27 / 40)


def test_momentum_of_weights_that_are_gone_is_gone():
    servers = made(outer_momentum=0.5, outer_learning_rate=None)
    gone_on(servers, range(1, 9))
    [state] = [shard.checkpoint() for shard in servers.shards]
    [slot] = state.slots
    np.testing.assert_array_equal(slot != 0, masks(servers))


def test_few_weights_are_exchanged_for_those_of_large_gradients():
    servers = made(**RIGL)
    exchange = begun(servers)
    before = masks(servers)
    assert (before[FIRST].sum(), before[SECOND].sum()) == (6, 3), "sparse from the beginning"
    assert before[[0, 1, 2, 39]].all()
    online = INITIAL * before
    np.testing.assert_array_equal(servers.pull(exchange).online, online)
    for number in range(1, 4):
        servers.push(exchange, pushed(number), growth=pushed(1000 + number))
        online = online + pushed(number) * before
        servers.pull(exchange)
    np.testing.assert_array_equal(masks(servers), before, err_msg="none knew that it was wanted")
    pulled_before = exchange.bytes_pushed
    servers.push(exchange, pushed(4), growth=pushed(1004))
    online = online + pushed(4) * before
    assert exchange.bytes_pushed - pulled_before > 4 * SIZE, "all gradients went along"
    wanted = before.copy()
    for layer, exchanged in ((FIRST, 3), (SECOND, 2)):  # half of 6, and of 3, rounded to even
        inside = np.abs(np.where(before[layer], online[layer], np.inf))
        outside = np.abs(np.where(before[layer], 0, pushed(1004)[layer]))
        wanted[layer][np.argsort(inside)[:exchanged]] = False
        wanted[layer][np.argsort(-outside)[:exchanged]] = True
    np.testing.assert_array_equal(masks(servers), wanted)
    np.testing.assert_allclose(
        servers.mark()["online"], np.where(wanted & before, online, 0), rtol=1e-5, atol=1e-6
    )
    # Those that came begin at zero, and learn.
    servers.pull(exchange)
    servers.push(exchange, pushed(5), growth=pushed(1005))
    came = wanted & ~before
    np.testing.assert_allclose(servers.mark()["online"][came], pushed(5)[came], rtol=1e-6)


def test_a_first_mask_is_the_same_however_the_vector_is_cut():
    wanted = masks(made(**RIGL))
    for num_ps in (2, 3, 7):
        np.testing.assert_array_equal(masks(made(num_ps, **RIGL)), wanted)
    assert (masks(made(**RIGL, seed=1)) != wanted).any()


@pytest.mark.parametrize("options", [MAGNITUDE, RIGL], ids=["magnitude", "rigl"])
@pytest.mark.parametrize("num_ps", [2, 3, 20])  # of 20 some have no weights, or lack none
def test_several_servers_rank_what_they_have_of_a_layer(num_ps: int, options):
    servers = made(num_ps, **options)
    found = gone_on(servers, range(1, 12), growth=options is RIGL)
    kept = masks(servers)
    assert abs(kept[FIRST].sum() - 6) <= num_ps
    for name in VECTORS:
        assert not found[name][~kept].any()
        assert found[name][kept].all()
    numbers = {shard._pruning.mask.number for shard in servers.shards}
    assert numbers == {3 + (options is RIGL)}, "all change theirs after the same push"
    again = made(num_ps, **options)
    gone_on(again, range(1, 12), growth=options is RIGL)
    np.testing.assert_array_equal(masks(again), kept)


@pytest.mark.parametrize("options", [MAGNITUDE, RIGL], ids=["magnitude", "rigl"])
def test_a_run_that_is_resumed_goes_on_as_if_it_had_not_ended(tmp_path: pathlib.Path, options):
    rule = {"local_updates": 1, "optimizer": "adam", "outer_momentum": None,
            "outer_learning_rate": None}  # fmt: skip
    undisturbed = made(2, **options, **rule)
    wanted = gone_on(undisturbed, range(1, 24), growth=options is RIGL)
    for cut in (4, 6, 15):
        servers = made(2, **options, **rule)
        gone_on(servers, range(1, cut), growth=options is RIGL)
        parts = [shard.checkpoint().as_arrays() for shard in servers.shards]
        vectors = np.concatenate([each for each, *_ in parts], axis=1)
        state = State.from_arrays(vectors, parts[0][1], parts[0][2].encode())
        saved = checkpoints.load(Checkpoints(tmp_path, keep=1).save_newest(state, 1.0)).state
        assert saved.mask_number == servers.shards[0]._pruning.mask.number
        resumed = made(2, **options, **rule)
        vectors, numbers, log = saved.as_arrays()
        parts = np.split(vectors, np.cumsum(resumed.sizes)[:-1], axis=1)
        for shard, part in zip(resumed.shards, parts, strict=True):
            shard.restore(State.from_arrays(part, numbers, log.encode()))
        found = gone_on(resumed, range(cut, 24), growth=options is RIGL)
        np.testing.assert_array_equal(masks(resumed), masks(undisturbed))
        for name in VECTORS:
            np.testing.assert_array_equal(found[name], wanted[name])


def test_statistics_of_environments_are_no_weights():
    """What comes first in the vector is written by the servers, and is not zero for good."""
    servers = Servers(2, 1, INITIAL, segments=SEGMENTS, num_moments=1,
                      normalize_observations="on", **MAGNITUDE)  # fmt: skip
    exchange = begun(servers)
    for number in range(1, 9):
        servers.pull(exchange)
        seen = Moments(1)
        seen.add(np.full((4, 1), float(number)))
        vector = pushed(number)
        vector[:2] = 0
        servers.push(exchange, vector, seen=seen.as_numbers())
    assert masks(servers)[:3].all()
    np.testing.assert_allclose(servers.mark()["online"][0], 4.5, rtol=1e-5)


@pytest.mark.parametrize("kind", [Vectors, CompiledVectors])
def test_variables_keep_what_arrays_do(kind):
    config = make_config(outer_momentum=0.5, outer_learning_rate=None, **MAGNITUDE)
    kept = np.random.default_rng(1).random(SIZE) < 0.3
    found, reference = kind(config, INITIAL), NumpyVectors(config, INITIAL)
    states = []
    for each in (found, reference):
        combined = Combined(pushed(1), 1.0, 2.0, 0.5, 0.5, [])
        each.step(combined, 1, False)
        each.keep(kept)
        each.step(combined._replace(vector=pushed(2) * kept), 2, False)
        states.append(each.state(Counters(2, 4, 0, 0, 4)))
    for name in (*VECTORS, "slots"):
        of, wanted = (np.array(getattr(state, name)) for state in states)
        np.testing.assert_allclose(of, wanted, rtol=1e-5, atol=1e-6)
        assert not of[..., ~kept].any()


def test_erk_is_of_the_whole_layer_wherever_it_is_cut():
    config = make_config(**{**MAGNITUDE, "sparsity_distribution": "erk"})
    whole = pruning_module.layers(config, SEGMENTS, (0, SIZE))
    assert whole[:, :2].tolist() == [[3, 27], [27, 39]]
    # A quarter of 36 weights is 9: 10 / 18 and 8 / 18 of them.
    np.testing.assert_allclose(whole[:, 2], [1 - 5 / 24, 1 - 4 / 12])
    np.testing.assert_array_equal(pruning_module.layers(config, SEGMENTS, (0, 10)), whole[:1])
    assert not len(pruning_module.layers(config, SEGMENTS, (39, 40)))
    assert Pruning(config, 39, 1).mask.count == 1
