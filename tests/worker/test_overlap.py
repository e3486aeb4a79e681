"""Environments that are stepped while their worker learns.

The toy environment is that of `support/paying_env.py`.
"""

import types
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support.small import SMALL, make_closures
from support.worker_calls import Open, Worker

from ps_dqn.config import Config
from ps_dqn.telemetry.metrics import PHASES
from ps_dqn.telemetry.report import Report
from ps_dqn.worker.calls import Pulled

OVERLAP: dict[str, Any] = {"overlap": "on"}
# What a report says of its moment: how long each thing took, and the memory of this process.
MOMENT = dict.fromkeys(
    (name for name in Report._fields if name.split("_")[-1] in ("took", "max", "memory", *PHASES)),
    0.0,
)


def first_push(worker: Worker) -> None:
    """One pull, until replay is warm, and one push."""
    assert worker.pull().acting.should_act == 1
    worker.collect()
    worker.sample()
    worker.pack(0.0)
    worker.push()


def test_without_it_steps_are_made_before_the_minibatches_are_drawn(opened: Open) -> None:
    worker = opened(overlap="off")
    first_push(worker)
    size = worker.host._learning.actor.memory.size
    assert worker.pull().acting.should_act == 1
    worker.collect()
    sampled = worker.sample()
    assert sampled.acting.should_act == 0
    assert worker.host._learning.actor.memory.size > size


def test_steps_are_made_after_the_minibatches_are_drawn(opened: Open) -> None:
    worker = opened(**OVERLAP)
    first_push(worker)
    memory = worker.host._learning.actor.memory
    size = memory.size
    assert worker.pull().acting.should_act == 0, "replay is warm: it draws at once"
    sampled = worker.sample()
    assert memory.size == size
    assert sampled.acting.should_act == 1
    needed = worker.host._learning._client.is_needed
    assert not needed.is_set()
    # Two local updates of one step each, and two environments.
    assert worker.collect() == 1
    assert needed.is_set(), "who waits for a round in between hears that it is awaited now"
    assert memory.size > size
    worker.pack(0.0)
    made = worker.push().env_steps
    assert made == worker.report().env_steps - 2, "these two are counted with the next push"
    worker.begin()
    worker.pull()
    worker.sample()
    worker.pack(0.0)
    assert worker.push().env_steps == made + 2


def test_before_replay_is_warm_steps_come_first_and_count(opened: Open) -> None:
    worker = opened(**OVERLAP)
    assert worker.pull().acting.should_act == 1
    made = worker.collect()
    assert made > 1
    assert worker.sample().acting.should_act == 0, "more than was owed is made already"


@pytest.fixture(scope="module")
def graph(coordinator: Any) -> tf.Graph:
    """Of a training closure that overlaps."""
    config = Config.from_values({**SMALL, "local_updates": 4, **OVERLAP})
    _, closures = make_closures(config, num_ps=1, num_workers=2)
    return closures.train.graph


def body(graph: tf.Graph) -> tf.Graph:
    """What a closure repeats for each push."""
    loops = [each for each in graph.get_operations() if each.type in ("While", "StatelessWhile")]
    [name] = {each.get_attr("body").name for each in loops}
    return graph._get_function(name).graph


def method(operation: tf.Operation) -> str:
    return tf.get_static_value(operation.inputs[0]).item().decode()


def ancestors(operation: tf.Operation, seen: set[str] | None = None) -> set[str]:
    """Names of all that must end before it begins."""
    seen = set() if seen is None else seen
    for each in [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]:
        if each.name not in seen:
            seen.add(each.name)
            ancestors(each, seen)
    return seen


def test_learning_and_stepping_do_not_wait_for_each_other(graph: tf.Graph) -> None:
    push = body(graph)
    sampled = next(each for each in calls(push) if method(each) == "sample")
    after = [
        each
        for each in push.get_operations()
        if each.type in ("While", "StatelessWhile", "PartitionedCall", "StatefulPartitionedCall")
        and sampled.name in ancestors(each)
    ]
    stepping = [each for each in after if each.type == "While"]
    learning = [each for each in after if each.type != "While"]
    assert len(stepping) == 1
    assert learning
    for each in learning:
        assert stepping[0].name not in ancestors(each)
        assert each.name not in ancestors(stepping[0])
    [prepared] = [each for each in calls(push) if method(each) == "prepare"]
    assert stepping[0].name in ancestors(prepared), "these steps can be drawn too"
    for each in learning:
        assert prepared.name not in ancestors(each)
        assert each.name not in ancestors(prepared)


def test_stepping_and_pushing_do_not_wait_for_each_other(graph: tf.Graph) -> None:
    push = body(graph)
    [prepared] = [each for each in calls(push) if method(each) == "prepare"]
    [pushing] = [each for each in push.get_operations() if each.type == "If"]
    assert prepared.name not in ancestors(pushing)
    assert pushing.name not in ancestors(prepared)
    results = [ancestors(each.op) for each in push.outputs]
    pushed = [each for each in results if pushing.name in each]
    assert len(pushed) > len(Pulled._fields), "what was pulled, and whether it has pushed"
    assert all(prepared.name in each for each in pushed), "the next push waits for both"


@pytest.mark.parametrize("values", [{}, {"replay": "prioritized"}], ids=str)
def test_when_communication_ends_makes_no_difference(opened: Open, values: dict[str, Any]) -> None:
    """Before the steps that are made meanwhile, after the first of them, or after all."""
    workers = [opened(**OVERLAP, local_updates=8, **values) for _ in range(3)]
    seen: list[list[Any]] = []
    for steps_before, worker in enumerate(workers):
        seen.append([])
        pulled = worker.pull()
        for number in range(4):
            if pulled.acting.should_act:
                worker.collect()
            drawn = worker.sample()
            left = 0
            if drawn.acting.should_act:
                # Four steps for eight updates of two environments.
                worker.collect(steps=steps_before)
                left = 4 - steps_before
            worker.pack(0.5 * number, errors=1.0 + number)
            verdict = worker.push()
            next_pull = worker.ask()
            worker.collect(steps=left)
            worker.prepare()
            plan = worker.plan(next_pull)
            pulled = types.SimpleNamespace(**next_pull._asdict(), **plan._asdict())
            seen[-1].append((drawn.batch, verdict, plan, next_pull.online))
        seen[-1].append(worker.report()._replace(**MOMENT))
    first, *others = [tf.nest.flatten(one) for one in seen]
    for other in others:  # NaN where a number is of nothing, too
        for each, same in zip(first, other, strict=True):
            np.testing.assert_array_equal(each, same)


def calls(graph: tf.Graph) -> list[tf.Operation]:
    return [each for each in graph.get_operations() if each.type == "PyFunc"]


def test_a_worker_alone_makes_the_same_run_twice() -> None:
    def play() -> list[list[float]]:
        worker = Worker(overlap="on", epsilon_start=0.5, epsilon_end=0.5)
        drawn = []
        worker.begin()
        for _ in range(4):
            if worker.pull().acting.should_act:
                worker.collect()
            sampled = worker.sample()
            if sampled.acting.should_act:
                worker.collect()
            drawn.append(np.ravel(sampled.batch.observations).tolist())
            worker.pack(0.0)
            worker.push()
        worker.host.close()
        return drawn

    assert play() == play()
