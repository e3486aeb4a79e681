"""What workers have seen is merged in the order of the log, and stands before the parameters."""

import numpy as np
import pytest
from support.several_servers import SIZE, Servers, begun, whole
from support.single_server import make_config

from ps_dqn import moments
from ps_dqn.moments import Moments
from ps_dqn.parameter_server.vectors import CompiledVectors, Vectors
from ps_dqn.wire.messages import Kind

# Two quantities and returns: the head has 2 means, 2 scales and the scale of rewards.
N, HEAD = 3, 5


def rows(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal([5.0, -3.0, 0.0], [2.0, 9.0, 4.0], (6, N))


def seen(*seeds: int) -> Moments:
    found = Moments(N)
    for seed in seeds:
        found.add(rows(seed))
    return found


def servers(num_ps: int, **options) -> Servers:
    return Servers(num_ps, num_workers=2, num_moments=N, normalize_returns=True, **options)


@pytest.mark.parametrize("num_ps", [1, 2, 3, 7])
def test_the_head_is_of_all_that_was_seen_however_it_is_cut(num_ps: int) -> None:
    fleet = servers(num_ps)
    first, second = begun(fleet, ticket=1), begun(fleet, ticket=100, worker=1)
    fleet.push(first, whole(0), seen=seen(1).as_numbers())
    fleet.push(second, whole(0), seen=seen(2, 3).as_numbers())
    fleet.push(first, whole(0), seen=seen(4).as_numbers())
    # Merged push after push; the same as of all rows, but for the last bit.
    expected = moments.head(seen(1, 2, 3, 4), 1)
    states = fleet.mark()
    for name in ("online", "target", "average"):
        np.testing.assert_allclose(states[name][:HEAD], expected, rtol=1e-6)
        assert not states[name][HEAD:].any()
    kept = [shard.checkpoint().moments.tolist() for shard in fleet.shards]
    assert kept == kept[:1] * num_ps


def test_it_counts_whatever_becomes_of_the_push() -> None:
    fleet = servers(1, max_staleness=0)
    worker = begun(fleet)
    fleet.pull(worker)
    fleet.push(worker, whole(1), Kind.WITHHELD, seen(1).as_numbers())
    fleet.push(worker, whole(1), seen=seen(2).as_numbers())
    verdict = fleet.push(worker, whole(1), seen=seen(3).as_numbers())  # of the version before
    assert verdict.kind == Kind.STALE
    fleet.mark()
    assert Moments.of_numbers(fleet.shards[0].checkpoint().moments).count == 3 * len(rows(1))


def test_a_push_that_comes_again_counts_once() -> None:
    fleet = servers(2)
    worker = begun(fleet)
    header, packed = worker.pack(whole(1), Kind.APPLIED, 2, 16, 1, 0.1, seen(1).as_numbers())
    for _ in range(3):
        fleet.follow(fleet.decide(header, fleet.stage(header, packed)))
    fleet.mark()
    assert fleet.shards[1].checkpoint().moments.tolist() == seen(1).as_numbers().tolist()


def test_what_was_learned_moves_the_other_parameters_alone() -> None:
    fleet = servers(1)
    worker = begun(fleet)
    change = whole(0)
    change[HEAD:] = 2.0
    fleet.push(worker, change, seen=seen(1).as_numbers())
    online = fleet.mark()["online"]
    np.testing.assert_allclose(online[:HEAD], moments.head(seen(1), 1), rtol=1e-6)
    assert (online[HEAD:] > 0).all()


def test_a_pull_brings_it() -> None:
    fleet = servers(1)
    worker = begun(fleet)
    fleet.pull(worker)
    fleet.push(worker, whole(0), Kind.WITHHELD, seen(1).as_numbers())
    pulled = fleet.pull(worker)
    assert pulled.online[:HEAD].tolist() == moments.head(seen(1), 1).tolist()


@pytest.mark.parametrize("num_ps", [1, 3])
def test_another_server_goes_on_with_it_bit_by_bit(num_ps: int) -> None:
    undisturbed, lost = servers(num_ps), servers(num_ps)
    for fleet in (undisturbed, lost):
        fleet.push(begun(fleet), whole(1), seen=seen(1, 2).as_numbers())
        fleet.mark()
    successor = servers(num_ps)
    for shard, before in zip(successor.shards, lost.shards, strict=True):
        shard.restore(type(state := before.checkpoint()).from_arrays(*encoded(state)))
    found = []
    for fleet in (undisturbed, successor):
        fleet.push(begun(fleet, ticket=9), whole(1), seen=seen(3).as_numbers())
        states = fleet.mark()
        found.append([states, fleet.shards[0].checkpoint().moments])
    assert found[0][1].tolist() == found[1][1].tolist()
    for name, vector in found[0][0].items():
        assert vector.tolist() == found[1][0][name].tolist()


def encoded(state):
    vectors, numbers, log = state.as_arrays()
    return vectors, numbers, log.encode()


@pytest.mark.parametrize("kind", [Vectors, CompiledVectors])
def test_the_vectors_of_a_server_have_it_too(kind: type[Vectors]) -> None:
    held = kind(make_config(), np.arange(SIZE, dtype=np.float32))
    held.put(np.array([7.0, 8.0], np.float32))
    held.freeze()
    for vector in (held.online(), held.target(), held.frozen()):
        assert vector.tolist() == [7.0, 8.0, *range(2, SIZE)]
