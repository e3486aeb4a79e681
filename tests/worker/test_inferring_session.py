"""A learner's closures, called as they call it: two actors with an environment each, or none."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support import processes as real
from support.scripted_actor import ScriptedActor
from support.worker_calls import Worker

from ps_dqn.actor.host import ActorHost
from ps_dqn.actor.messages import Welcome
from ps_dqn.errors import UsageError
from ps_dqn.worker.playing import remote_environments
from ps_dqn.worker.playing.links import Refused
from ps_dqn.worker.playing.remote_environments import RemoteEnvironments

SEED: dict[str, Any] = {"topology": "seed", "num_actors": 2, "inference_timeout": 1e4}
# Gymnasium warns of what fails here.
pytestmark = pytest.mark.filterwarnings("ignore:.*WARN:UserWarning")
FAILING = {
    "env_id": "support.misbehaving_env:Misbehaving",
    "env_kwargs": '{"how": "nan observation", "at": 1, "goes_on": true}',
}
SECONDS = 60.0


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An actor that is there may take longer to answer than a learner waits, on a busy machine."""
    monkeypatch.setattr(remote_environments, "PATIENCE", SECONDS)


@pytest.fixture
def hosts() -> Iterator[list[ActorHost]]:
    made = [ActorHost(0), ActorHost(0)]
    yield made
    for host in made:
        host.close()


@pytest.fixture
def worker(hosts: list[ActorHost]) -> Iterator[Worker]:
    made = begun(hosts)
    yield made
    made.host.close()


def begun(hosts: list[ActorHost], **values: Any) -> Worker:
    """A learner whose actors are both there; its first closure goes on with what it began."""
    made = Worker(actors=[f"127.0.0.1:{host.port}" for host in hosts], **SEED | values)
    made.begin()
    made.pull()  # it connects
    environments = made.host._learning.actor.environments

    def are_there() -> bool:
        environments.gather()
        return environments.num_connected == len(hosts)

    real.until(are_there, SECONDS, "both actors")
    made.begin()
    return made


def desert(worker: Worker, hosts: list[ActorHost], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends the actors; returns when the learner's connections have heard of it."""
    links = worker.host._learning.actor.environments._links
    for host in hosts:
        host.close()
    real.until(lambda: not any(link._channel for link in links), SECONDS, "links to hear of it")
    monkeypatch.setattr(remote_environments, "PATIENCE", 0.05)


def test_it_collects_at_the_pace_of_the_run_and_says_what_inference_was_like(
    worker: Worker, hosts: list[ActorHost]
) -> None:
    worker.pull()
    worker.collect()
    assert worker.sample().should_push == 1
    before = sum(host.figures.steps for host in hosts)
    for _ in range(6):
        worker.pack(np.ones(5, np.float32))
        worker.push()
        worker.pull()
        worker.collect()
        assert worker.sample().should_push == 1
    # Two updates a push and so two environments' steps, but for what is on its way.
    made = sum(host.figures.steps for host in hosts) - before
    assert 6 * 2 - 3 <= made <= 6 * 2 + 3
    report = worker.report()
    assert (report.actors, report.absent_actor) == (2, -1)
    assert 1 <= report.inferred / report.inferences <= 2
    assert report.answers >= report.env_steps
    assert 0 < report.answer_max <= report.answer_took


def test_its_closure_ends_where_nobody_is_to_be_acted_for(
    worker: Worker, hosts: list[ActorHost], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.pull()
    worker.collect()
    worker.sample()
    worker.pack(np.ones(5, np.float32))
    worker.push()
    desert(worker, hosts, monkeypatch)
    for _ in range(20):  # what was on its way may be enough for another push, and one more
        worker.pull()
        worker.collect()
        if not (goes_on := worker.sample().should_push):
            break
        worker.pack(np.ones(5, np.float32))
        worker.push()

    assert not goes_on
    report = worker.report()
    assert (report.actors, report.absent_actor) == (0, 0)


def test_a_closure_that_acts_for_nobody_tells_of_actors_too(worker: Worker) -> None:
    assert one_push(worker)
    assert worker.report().actors == 2
    worker.begin()
    report = worker.report()
    assert (report.actors, report.inferences) == (2, 0)


@pytest.mark.parametrize("overlap", ["on", "off"])
def test_nothing_is_learned_while_nobody_is_there(
    hosts: list[ActorHost], monkeypatch: pytest.MonkeyPatch, overlap: str
) -> None:
    worker = begun(hosts, overlap=overlap)
    assert one_push(worker)
    desert(worker, hosts, monkeypatch)
    pushed = [one_push(worker) for _ in range(30)]

    # What was on its way may be enough for two, and one is learned from while it is noticed.
    assert sum(pushed) <= 4
    assert not any(pushed[5:])
    assert worker.report().actors == 0
    worker.host.close()


def test_where_every_step_fails_each_closure_tries_again(hosts: list[ActorHost]) -> None:
    worker = begun(hosts, overlap="on", **FAILING)
    failures = []
    for _ in range(9):
        worker.begin()
        assert not one_push(worker)
        failures.append(worker.report().env_not_finite)
    assert sum(failures[1:]) >= 4, "every second step is a reset"
    worker.host.close()


@pytest.mark.parametrize("has_trained", [True, False])
def test_what_a_late_actor_refuses_ends_no_run_that_has_trained(
    hosts: list[ActorHost], has_trained: bool
) -> None:
    late = ScriptedActor(1)
    worker = Worker(actors=[f"127.0.0.1:{hosts[0].port}", late.address], **SEED)
    worker.begin()
    worker.pull()  # it connects
    environments = worker.host._learning.actor.environments

    def is_there() -> bool:
        environments.gather()
        return environments.num_connected == 1

    real.until(is_there, SECONDS, "the first actor")
    worker.begin()
    if has_trained:
        assert one_push(worker)
        worker.pull()
    said = threading.Thread(target=late.join, args=(0.0, Welcome("no licence", [], "", 0, 0)))
    said.start()
    real.until(lambda: bool(heard_refused(environments)), SECONDS, "word of the late actor")
    said.join()
    if has_trained:
        worker.collect()
        assert worker.sample().should_push
    else:
        with pytest.raises(UsageError, match="no licence"):
            environments.gather()
    late.close()
    worker.host.close()


def heard_refused(environments: RemoteEnvironments) -> list[Refused]:
    """Those in the inbox, which stay there."""
    heard = [environments._inbox.get() for _ in range(environments._inbox.qsize())]
    for each in heard:
        environments._inbox.put(each)
    return [each for each in heard if isinstance(each, Refused)]


def one_push(worker: Worker) -> bool:
    """All that a closure does for a push; whether there was one."""
    pulled = worker.pull()
    if pulled.acting.should_act:
        worker.collect()
    sampled = worker.sample()
    if sampled.acting.should_act:
        worker.collect()  # while it learns
    if sampled.should_push:
        worker.pack(np.ones(5, np.float32))
        worker.push()
    return bool(sampled.should_push)


def test_a_worker_that_knows_of_other_actors_is_refused() -> None:
    alone = Worker(actors=["127.0.0.1:1"], **SEED)
    with pytest.raises(UsageError, match=r"^--num_actors=2: worker 0 knows of 1 actor tasks"):
        alone.begin()
