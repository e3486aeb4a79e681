"""Rollouts that are made while the one before is learned from, as closures ask for them."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.option_values import A3C
from support.worker_calls import Worker

from ps_dqn.config import Config
from ps_dqn.replay.batch import Rollout
from ps_dqn.worker.calls import Acted

STEPS, ENVIRONMENTS = 3, 2
AHEAD = {
    **A3C,
    "v_trace": True,
    "overlap": "on",
    "local_updates": 2,
    "update_period": 3,
    "batch_size": 6,
    "min_replay_size": Config().replay.min_replay_size,
    "replay_capacity": None,
}
Open = Callable[..., Worker]


@pytest.fixture
def opened() -> Iterator[Open]:
    workers: list[Worker] = []

    def make(**values: Any) -> Worker:
        workers.append(Worker(**AHEAD | values))
        workers[-1].begin()
        return workers[-1]

    yield make
    for each in workers:
        each.host.close()


def collect(worker: Worker, action: int, most: int = 100) -> int:
    """Steps with this action, whose log-probability names it; how many."""
    made, should_act = 0, 1
    while should_act and made < most:
        state, log_probs = np.zeros((2, 0), np.float32), np.full((2, 1), -action, np.float32)
        acted = Acted(np.full(2, action, np.int32), state, log_probs)
        should_act = worker.within("step", *acted).should_act
        made += 1
    return made


def rollout(worker: Worker) -> Rollout:
    batch = worker.sample().batch
    assert isinstance(batch, Rollout)
    assert batch.log_probs.shape == (STEPS, ENVIRONMENTS, 1)
    return batch


def actions(batch: Rollout) -> set[int]:
    """Taken in it, each with the log-probability it was taken with."""
    assert (batch.log_probs[..., 0] == -batch.actions).all()
    return set(batch.actions.ravel().tolist())


def test_each_push_learns_from_what_was_made_while_the_one_before_learned(opened: Open) -> None:
    worker = opened()
    pulled = worker.pull()
    assert pulled.acting.should_act, "the first has nothing yet"
    assert collect(worker, action=1) == STEPS
    learned = rollout(worker)
    assert actions(learned) == {1}
    for action in (2, 1, 2):
        assert collect(worker, action) == STEPS, "beside learning"
        worker.prepare()
        worker.pack(0.0)
        worker.push()
        assert not worker.pull().acting.should_act, "it is there already"
        assert actions(rollout(worker)) == {action}


def test_a_closure_cut_off_beside_learning_leaves_what_it_made(opened: Open) -> None:
    worker = opened()
    worker.pull()
    collect(worker, action=1)
    first = rollout(worker)
    assert collect(worker, action=1, most=1) == 1

    worker.begin()  # another closure goes on with the push
    worker.pull()
    again = rollout(worker)
    assert (again.observations == first.observations).all()
    assert collect(worker, action=1) == STEPS - 1
    worker.pack(0.0)
    worker.push()
    worker.pull()
    assert rollout(worker).observations.shape[:2] == (STEPS, ENVIRONMENTS)
