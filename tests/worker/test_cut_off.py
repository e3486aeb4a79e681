"""A closure that was cut off in the middle of a push: the next one goes on with that push."""

import threading

import numpy as np
import pytest
import tensorflow as tf
from support.worker_calls import Open, Worker

from ps_dqn.wire import messages
from ps_dqn.wire.messages import PushHeader

# Eight steps of two environments for a push.
FLAGS = {"update_period": 4, "local_updates": 4, "min_replay_size": 8, "overlap": "off"}


def cut_off(worker: Worker, steps: int, sampled: bool) -> None:
    """A push that ends after so many steps, with or without minibatches; another closure begins."""
    worker.pull()
    worker.collect(steps=steps)
    if sampled:
        worker.sample()
    worker.begin()


def pushes(worker: Worker, steps: int) -> list[object]:
    """Two pushes: how many steps lacked for the first one, and what both depend on."""
    found = []
    for _ in range(2):
        plan = worker.pull()
        assert plan.acting.step == steps
        found.append((worker.collect() if plan.acting.should_act else 0) + steps)
        steps = 0
        batch = worker.sample().batch
        header = messages.unpack(PushHeader, worker.pack(0.5).header)
        worker.push()
        found += [plan.seed, header.env_steps, header.episodes, *tf.nest.flatten(batch)]
    return found


@pytest.mark.parametrize(("steps", "sampled"), [(0, False), (3, False), (8, False), (8, True)])
def test_the_next_one_makes_the_same_push(opened: Open, steps: int, sampled: bool) -> None:
    wanted = pushes(opened(**FLAGS), 0)
    worker = opened(**FLAGS)
    if steps:
        cut_off(worker, steps, sampled)
    else:
        worker.pull()
        worker.begin()
    for one, other in zip(pushes(worker, steps), wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_one_that_is_cut_off_again_and_again_makes_no_step_twice(opened: Open) -> None:
    wanted = pushes(opened(**FLAGS), 0)
    worker = opened(**FLAGS)
    for _ in range(4):
        cut_off(worker, 2, sampled=False)
    for one, other in zip(pushes(worker, 8), wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_step_of_one_that_was_cut_off_is_waited_for(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = opened(**FLAGS)
    worker.pull()
    actor = worker.host._learning.actor
    steps, goes_on, is_stepping = actor.step, threading.Event(), threading.Event()

    def slow(*arguments: object) -> int:
        is_stepping.set()
        assert goes_on.wait(60)
        return steps(*arguments)

    monkeypatch.setattr(actor, "step", slow)
    old = threading.Thread(target=worker.collect, kwargs={"steps": 1})
    old.start()
    assert is_stepping.wait(60)
    new = threading.Thread(target=worker.begin)
    new.start()
    new.join(0.1)
    assert new.is_alive()
    goes_on.set()
    new.join(60)
    old.join(60)
    assert not new.is_alive()
    assert pushes(worker, 1)[0] == 8
