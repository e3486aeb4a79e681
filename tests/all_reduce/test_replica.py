"""A worker's replica: the same as a parameter server's rounds, each push counted once."""

import numpy as np
import pytest
from support.adding_up import SESSION, header, make_config, make_replica
from support.numpy_vectors import make_shard

from ps_dqn.config import Config
from ps_dqn.wire import messages
from ps_dqn.wire.messages import Kind

P = 40


def start() -> np.ndarray:
    return np.linspace(-1, 1, P).astype(np.float32)


def round_of(replica, headers, vectors) -> None:
    """One round, added up as a ring would."""
    total = np.sum(vectors, axis=0, dtype=np.float32)
    replica.make_round(np.array([messages.pack(each) for each in headers]), total)


@pytest.mark.parametrize("target", [{"tau": 0.01}, {"target_update_period": 7}], ids=str)
@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_200_rounds_are_those_of_parameter_servers(optimizer: str, target: dict) -> None:
    """With the pushes of three workers, who all draw the same for both."""
    options = {"optimizer": optimizer, "average_decay": 0.9, "local_updates": 1, **target}
    ours = Config.from_values({**options, "strategy": "all_reduce"}).shared_by(3)
    replica = make_replica(ours, start())
    servers = Config.from_values({**options, "aggregation": "sync"}).shared_by(3)
    shard = make_shard(servers, SESSION, 1, 3, start())
    rng = np.random.default_rng(4)
    for version in range(200):
        vectors = rng.normal(size=(3, P)).astype(np.float32)
        rates = 0.01 * rng.random(3)
        headers = [
            header(i, 3 * version + i + 1, version, rate_bits=messages.bits(rate))
            for i, rate in enumerate(rates)
        ]
        round_of(replica, headers, vectors)
        for each, vector in zip(headers, vectors, strict=True):
            shard.push(messages.pack(each), vector.view(np.uint8))
    mine, other = replica.complete(), _state(shard)
    assert mine.counters == other.counters
    assert mine.counters.version == 200
    vectors = [(each.online, each.target, each.average, *each.slots) for each in (mine, other)]
    for here, there in zip(*vectors, strict=True):
        np.testing.assert_allclose(here, there, atol=1e-5)
        assert np.abs(here - start()).max() > 0.01


def _state(shard):
    shard.mark(Kind.CHECKPOINT, shard.next_index())
    return shard.checkpoint()


def test_one_step_of_gradient_descent_by_hand() -> None:
    config = make_config(optimizer="rmsprop", average_decay=0.0)
    replica = make_replica(config, start())
    vectors = np.float32([[3] * P, [-1] * P, [1] * P])
    round_of(replica, [header(i, i + 1) for i in range(3)], vectors)
    mean = 1.0
    # Centred or not, RMSProp's first step from zero slots has the sign of the mean and no more
    # than the learning rate over the root of what it has seen.
    moved = replica.complete().online - start()
    assert np.all(np.sign(moved) == -np.sign(mean))
    assert np.ptp(moved) < 1e-6, "every coordinate has the same gradient"
    assert replica.counters == (1, 3, 24, 3, 1)


def test_a_push_that_is_kept_back_counts_its_steps_and_not_its_gradient() -> None:
    replica, other = (make_replica(make_config(), start()) for _ in range(2))
    vectors = np.random.default_rng(1).normal(size=(3, P)).astype(np.float32)
    vectors[1] = 0
    headers = [header(i, i + 1) for i in range(3)]
    headers[1] = headers[1]._replace(kind=int(Kind.WITHHELD))
    round_of(replica, headers, vectors)
    round_of(other, [headers[0], headers[2]], vectors[[0, 2]])
    assert replica.counters == (1, 2, 24, 3, 1)
    np.testing.assert_array_equal(replica.complete().online, other.complete().online)

    nobody = [
        each._replace(kind=int(Kind.WITHHELD), ticket=each.ticket + 3, base_version=1)
        for each in headers
    ]
    round_of(replica, nobody, np.zeros_like(vectors))
    assert replica.counters == (1, 2, 48, 6, 1), "steps alone"


@pytest.mark.parametrize("last", [False, True])
def test_a_ticket_counts_once_whoever_brings_it_again(last: bool) -> None:
    replica = make_replica(make_config(), start())
    vectors = np.ones((3, P), np.float32)
    round_of(replica, [header(i, i + 1) for i in range(3)], vectors)
    again = [header(0, 4, 1), header(1, 5, 1), header(2, 2 if last else 6, 1)]
    if not last:
        again[0] = header(0, 1, 1)
    round_of(replica, again, vectors)
    assert replica.counters == (2, 5, 40, 5, 2)
    assert replica.decided(2) is Kind.APPLIED
    assert replica.decided(7) is None

    twice = [header(0, 7, 2), header(1, 7, 2), header(2, 8, 2)]
    round_of(replica, twice, vectors)
    assert replica.counters == (3, 7, 56, 7, 3)
    assert replica.tally()["sum_of_tickets"] == sum([1, 2, 3, 4 * last, 5, 6 * (not last), 7, 8])


def test_a_push_that_comes_after_the_end_of_its_closure_counts_all_the_same() -> None:
    """The coordinator, and so the others' closures, take its ticket for one of the past."""
    replica = make_replica(make_config(), start())
    vectors = np.ones((3, P), np.float32)
    round_of(
        replica, [header(0, 9, oldest=8), header(1, 2, oldest=2), header(2, 10, oldest=8)], vectors
    )
    assert replica.counters == (1, 3, 24, 3, 1)
    assert replica.decided(2) is Kind.APPLIED
    assert replica.decided(1) is Kind.LATE, "that is one of the past"
    again = [header(i, 11 + i, 1, oldest=8) for i in range(3)]
    round_of(replica, again, vectors)
    assert replica.decided(2) is Kind.LATE
    assert replica.counters.updates == 6


def test_one_that_takes_over_anothers_state_goes_on_as_that_one() -> None:
    config, rng = make_config(), np.random.default_rng(2)
    ahead, behind = (make_replica(config, start()) for _ in range(2))
    vectors = rng.normal(size=(3, P)).astype(np.float32)
    for version in range(5):
        headers = [header(i, 3 * version + i + 1, version) for i in range(3)]
        round_of(ahead, headers, vectors)
        if version < 3:
            round_of(behind, headers, vectors)
    behind.restore(ahead.complete())
    round_of(ahead, [header(i, 16 + i, 5) for i in range(3)], vectors)
    round_of(behind, [header(i, 16 + i, 5) for i in range(3)], vectors)
    ours, theirs = behind.complete(), ahead.complete()
    np.testing.assert_array_equal(ours.online, theirs.online)
    np.testing.assert_array_equal(ours.slots, theirs.slots)
    assert ours.counters == theirs.counters
    assert ours.log == theirs.log
