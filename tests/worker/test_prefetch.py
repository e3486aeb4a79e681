"""The next push's minibatches, drawn while a worker learns from the present ones.

The toy environment is that of `support/paying_env.py`.
"""

from typing import Any

import numpy as np
import pytest
from support.worker_calls import Open, Worker

from ps_dqn.replay.prioritized import Prioritized
from ps_dqn.replay.samplers import Drawn
from ps_dqn.wire.messages import Status

OVERLAP: dict[str, Any] = {"overlap": "on", "epsilon_start": 0.5, "epsilon_end": 0.5}
SEQUENCES = {"recurrent_size": 2, "burn_in": 1, "sequence_length": 3, "n_step": 2}


def push(worker: Worker, prepares: bool = True, errors: Any = 0.5) -> tuple[np.ndarray, ...]:
    """One push as a closure makes it, or without drawing ahead; what is learned from."""
    if worker.pull().acting.should_act:
        worker.collect()
    sampled = worker.sample()
    if sampled.acting.should_act:
        worker.collect()
    if prepares:
        worker.prepare()
    worker.pack(0.0, errors=errors)
    worker.push()
    return tuple(sampled.batch)


@pytest.mark.parametrize(
    "values",
    [{}, {"n_step": 3}, SEQUENCES, {"replay_capacity": 24}, {"pull_wire_dtype": "int8"}],
    ids=str,
)
def test_a_worker_alone_learns_from_the_same_as_if_it_drew_late(
    opened: Open, values: dict[str, Any]
) -> None:
    ahead, late = opened(**OVERLAP, **values), opened(**OVERLAP, **values)
    for closure in range(4):
        if closure:
            ahead.begin()
            late.begin()
        for _ in range(5):
            pairs = zip(push(ahead), push(late, prepares=False), strict=True)
            assert all((one == other).all() for one, other in pairs)
        reports = [each.report() for each in (ahead, late)]
        for name in ("env_steps", "episodes", "return_sum", "replay_size"):
            assert getattr(reports[0], name) == getattr(reports[1], name), name


def test_what_is_drawn_ahead_has_the_steps_made_meanwhile(opened: Open) -> None:
    worker = opened(**OVERLAP, replay="prioritized", priority_alpha=1.0)
    push(worker)
    session = worker.host._learning
    before = session.actor.memory.size
    worker.pull()
    worker.sample()
    worker.collect()
    assert session.actor.memory.size > before
    drawn = spy_on(session.actor.memory._sampler, "draw")
    worker.prepare()
    [(candidates, *_)] = drawn
    assert int((candidates.end - candidates.first).sum()) == session.actor.memory.size


def spy_on(sampler: Any, method: str) -> list[tuple[Any, ...]]:
    """The arguments of each call from now on."""
    called: list[tuple[Any, ...]] = []
    original = getattr(sampler, method)

    def call(*arguments: Any) -> Any:
        called.append(arguments)
        return original(*arguments)

    setattr(sampler, method, call)
    return called


def test_errors_go_to_what_was_learned_from_and_not_to_what_is_prepared(opened: Open) -> None:
    worker = opened(**OVERLAP, replay="prioritized")
    sampler: Any = worker.host._learning.actor.memory._sampler
    assert isinstance(sampler, Prioritized)
    updated = spy_on(sampler, "update")
    learned = [push(worker, errors=1.0 + number) for number in range(6)]
    assert len(updated) == 5, "the last ones are told when the worker plans, or reports"
    worker.report()
    assert len(updated) == 6
    for number, ((drawn, errors), batch) in enumerate(zip(updated, learned, strict=True)):
        assert isinstance(drawn, Drawn)
        assert any(each is drawn.weights for each in batch)
        assert (errors == 1.0 + number).all()


def test_a_run_that_is_over_draws_nothing_ahead(opened: Open) -> None:
    worker = opened(**OVERLAP, aggregation="sync", total_env_steps=20)
    worker.restore(20)
    assert worker.pull().status == Status.FINISHED
    assert worker.sample().should_push == 0
    worker.prepare()  # its replay is empty
    assert worker.report().exchanges == 0


def test_what_is_prepared_waits_for_a_round(opened: Open) -> None:
    worker = opened(**OVERLAP, aggregation="sync", num_workers=2)
    other = opened(1, **OVERLAP, aggregation="sync", num_workers=2)
    other.shards = worker.shards
    push(worker)
    draws = spy_on(worker.host._learning.actor.memory._sampler, "draw")
    assert worker.pull().status == Status.WAIT
    push(other)
    push(worker)
    assert len(draws) == 1, "for the push after"
