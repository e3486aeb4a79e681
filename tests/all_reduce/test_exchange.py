"""A worker's part in the rounds, and what it does where a group breaks."""

import threading

import numpy as np
import pytest
from support.adding_up import Ring, Worker, form, level, make_config
from support.processes import until

from ps_dqn.wire.messages import Kind, Status

P = 5
ALL = (0, 1, 2)
# For what takes milliseconds where others do not want the processors too.
SECONDS = 60.0


@pytest.fixture
def workers():
    ring = Ring(3)
    config = make_config()
    made = [Worker(config, ring.groups[i], i, np.zeros(P, np.float32)) for i in ALL]
    yield made
    for each in made:
        each.exchange.close()


def version(worker: Worker) -> int:
    return int(worker.replica.counters.version)


def reach(workers: list[Worker], number: int) -> None:
    for each in workers:
        until(lambda each=each: each.pull().status == Status.READY, SECONDS, "a round")
        assert version(each) == number


def same(workers: list[Worker]) -> None:
    first = workers[0].replica.complete()
    for each in workers[1:]:
        held = each.replica.complete()
        np.testing.assert_array_equal(held.online, first.online)
        assert each.replica.counters == first.counters
        assert held.log == first.log, "tickets and pushes too"


def test_a_round_is_over_for_all_once_all_have_pushed(workers: list[Worker]) -> None:
    form(workers, 1, ALL)
    for i, each in enumerate(workers[:2]):
        verdict = each.push(np.full(P, i + 1), ticket=i + 1)
        assert (verdict.kind, verdict.duplicate) == (Kind.APPLIED, 0)
        assert each.pull().status == Status.WAIT
    assert workers[2].pull().status == Status.READY, "it has not pushed"
    workers[2].push(np.full(P, 3), ticket=3)
    reach(workers, 1)
    same(workers)
    assert workers[0].replica.counters.updates == 3


def test_one_that_is_alone_has_its_round_at_once(workers: list[Worker]) -> None:
    form(workers, 1, (1,))
    verdict = workers[1].push(np.ones(P), ticket=1)
    assert (verdict.kind, verdict.version) == (Kind.APPLIED, 1)
    assert workers[1].pull().status == Status.READY


def test_a_push_is_answered_once_and_what_repeats_it_is_told_so(workers: list[Worker]) -> None:
    form(workers, 1, ALL)
    workers[0].push(np.ones(P), ticket=1)
    assert workers[0].push(np.ones(P), ticket=9).kind == Kind.LATE, "one is on its way"
    for i in (1, 2):
        workers[i].push(np.ones(P), ticket=i + 1)
    reach(workers, 1)
    again = workers[1].push(np.ones(P), ticket=1)
    assert (again.kind, again.duplicate) == (Kind.APPLIED, 1)
    assert workers[1].pull().status == Status.READY
    assert workers[0].push(np.ones(P), ticket=8, session=4).kind == Kind.LATE


def test_where_a_peer_is_gone_the_others_push_again_in_the_next_group(
    workers: list[Worker],
) -> None:
    form(workers, 1, ALL)
    for i in (0, 1):
        workers[i].push(np.full(P, i + 1.0), ticket=i + 1)
    form(workers, 2, (0, 1))  # worker 2 has died
    reach(workers[:2], 1)
    same(workers[:2])
    assert workers[0].replica.counters.updates == 2, "each once"

    form(workers, 3, ALL)  # and is back
    assert version(workers[2]) == 1
    for i in ALL:
        workers[i].push(np.ones(P), ticket=10 + i)
    reach(workers, 2)
    same(workers)
    assert workers[2].replica.counters.updates == 5


def test_who_has_not_heard_of_a_round_takes_it_from_who_has(workers: list[Worker]) -> None:
    """A peer died after its last message to one of two: only that one has the sum."""
    ring = workers[0].group._ring
    ring.not_heard = {(1, 1, 1)}
    form(workers, 1, ALL)
    for i in ALL:
        workers[i].push(np.full(P, i + 1.0), ticket=i + 1)
    until(lambda: workers[1].exchange.standing["generation"] == 0, SECONDS, "the break")
    until(lambda: version(workers[0]) == 1, SECONDS, "the sum")
    assert version(workers[1]) == 0
    assert workers[1].pull().status == Status.WAIT
    form(workers, 2, (0, 1))
    reach(workers[:2], 1)
    same(workers[:2])
    assert workers[1].replica.counters.updates == 3, "its push is in the state that it took"


def test_a_round_without_a_version_is_taken_from_who_has_it_too(workers: list[Worker]) -> None:
    """All of its pushes are withheld, so only steps and tickets tell the replicas apart."""
    withheld = {"kind": int(Kind.WITHHELD)}
    workers[0].group._ring.not_heard = {(1, 1, 1)}
    form(workers, 1, ALL)
    for i in ALL:
        workers[i].push(np.ones(P), ticket=i + 1, **withheld)
    until(lambda: workers[1].exchange.standing["generation"] == 0, SECONDS, "the break")
    until(lambda: workers[0].replica.counters.env_steps == 24, SECONDS, "the sum")
    assert workers[1].replica.counters.env_steps == 0
    form(workers, 2, (0, 1))
    same(workers[:2])
    for i in (0, 1):
        assert workers[i].push(np.ones(P), ticket=i + 4).kind == Kind.APPLIED
    reach(workers[:2], 1)
    same(workers[:2])
    assert workers[1].replica.counters.env_steps == 40


def test_one_that_came_as_far_by_another_round_takes_over_what_the_group_has(
    workers: list[Worker],
) -> None:
    """It has a round of two alone, hangs, and is back when the other one has pushed twice."""
    workers[0].group._ring.not_heard = {(0, 1, 1)}
    form(workers, 1, (0, 1))
    for i in (0, 1):
        workers[i].push(np.full(P, i + 1.0), ticket=i + 1)
    until(lambda: version(workers[1]) == 1, SECONDS, "the sum")
    until(lambda: workers[0].exchange.standing["generation"] == 0, SECONDS, "the break")
    form(workers, 2, (0,), last=(0, 1))
    reach(workers[:1], 1)
    workers[0].push(np.ones(P), ticket=3, kind=int(Kind.WITHHELD))
    until(lambda: workers[0].replica.counters.env_steps == 16, SECONDS, "its second round")
    assert workers[0].replica.reached == workers[1].replica.reached
    form(workers, 3, (0, 1), last=(0,))
    same(workers[:2])
    assert workers[1].replica.counters.updates == 1, "what the group has"


def test_one_that_was_away_for_long_brings_its_steps_and_no_old_gradient(
    workers: list[Worker],
) -> None:
    form(workers, 1, ALL)
    workers[2].push(np.full(P, 100.0), ticket=3)
    form(workers, 2, (0, 1))  # worker 2 stands still
    for i in (0, 1):
        workers[i].push(np.ones(P), ticket=i + 1)
    reach(workers[:2], 1)
    form(workers, 3, ALL)
    for i in (0, 1):
        workers[i].push(np.ones(P), ticket=10 + i)
    reach(workers, 2)
    same(workers)
    counters = workers[0].replica.counters
    assert (counters.updates, counters.env_steps) == (4, 40)


def test_a_halted_run_lets_who_waits_go(workers: list[Worker]) -> None:
    form(workers, 1, ALL)
    workers[0].push(np.ones(P), ticket=1)
    workers[0].exchange.halt()
    assert workers[0].pull().status == Status.FINISHED


def test_a_round_that_cannot_be_applied_is_an_error_of_the_next_pull(
    workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_) -> None:
        raise ValueError("out of order")

    form(workers, 1, ALL)
    monkeypatch.setattr(workers[0].replica, "make_round", fail)
    for i in ALL:
        workers[i].push(np.ones(P), ticket=i + 1)
    with pytest.raises(RuntimeError, match=r"(?s)could not be applied.*out of order"):
        until(lambda: workers[0].pull().status == Status.READY, SECONDS, "the error")


@pytest.mark.parametrize("seed", range(6))
def test_whatever_breaks_when_every_push_is_counted_once(seed: int) -> None:
    """Groups that break at random, at random sides, with closures that run again."""
    rng, ring = np.random.default_rng(seed), Ring(3)
    config = make_config()
    workers = [Worker(config, ring.groups[i], i, np.zeros(P, np.float32)) for i in ALL]
    pushed: list[set[int]] = [set() for _ in ALL]
    stopped = threading.Event()

    def work(i: int) -> None:
        """Pushes one after the other, some twice; two of three are withheld, so rounds are too."""
        ticket = i + 1
        while not stopped.is_set():
            if workers[i].pull().status != Status.READY:
                continue
            kind = Kind.WITHHELD if ticket // 3 % 3 else Kind.APPLIED
            verdict = workers[i].push(np.ones(P), ticket, kind=int(kind))
            if verdict.duplicate or verdict.kind == kind:
                pushed[i].add(ticket)
                ticket += 3 * (verdict.duplicate or ticket % 2)

    groups = {1: ALL}
    for key in range(2, 13):
        groups[key] = ALL if key % 3 else tuple(sorted(rng.permutation(3)[:2].tolist()))
    for key, members in groups.items():  # each breaks in one of its first rounds
        ring.not_heard |= {
            (int(rng.choice(members)), key, int(rng.integers(1, 8))) for _ in range(2)
        }
    threads = [threading.Thread(target=work, args=(i,)) for i in ALL]
    form(workers, 1, ALL)
    for each in threads:
        each.start()
    try:
        for key in range(2, 13):
            broken = key - 1
            until(lambda broken=broken: broken in ring.broken, SECONDS, "a break")
            form(workers, key, groups[key], last=groups[broken])
        ring.not_heard.clear()
        form(workers, 20, ALL, last=groups[12])
        before = version(workers[0])
        until(lambda: version(workers[0]) > before + 5, SECONDS, "rounds after all of it")
    finally:
        stopped.set()
        for each in threads:
            each.join()
        level(workers, ALL)
    same(workers)
    replica = workers[0].replica
    tally = replica.tally()
    counted = {each for tickets in pushed for each in tickets if replica.decided(each) is not None}
    assert tally["applied"] <= len(counted)
    assert tally["updates"] == tally["applied"], "one update for each push"
    assert tally["env_steps"] == 8 * len(counted), "those of withheld ones too, each once"
    for each in workers:
        each.exchange.close()
