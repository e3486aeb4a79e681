"""Python that fails in a worker or a parameter server comes back as text, and ends the run."""

import re

import numpy as np
import pytest
from support.small import SMALL, make_closures, make_training
from support.tiers import tiered

from ps_dqn.config import Config
from ps_dqn.errors import UsageError, WorkerError
from ps_dqn.parameter_server import shard
from ps_dqn.worker.calls import Tickets
from ps_dqn.worker.graph.closures import read_report
from ps_dqn.worker.playing import actor


@pytest.fixture
def bursting(monkeypatch: pytest.MonkeyPatch) -> Config:
    """An experiment whose workers fail in their first step, here in this process."""

    def burst(*_: object) -> None:
        raise RuntimeError("the ball burst")

    monkeypatch.setattr(actor.Actor, "step", burst)
    monkeypatch.setattr(actor.Evaluation, "step", burst)
    return Config.from_values({**SMALL, "local_updates": 4})


@pytest.mark.parametrize("pushes", tiered([1, 3], quick=(3,)))
def test_a_failing_worker_comes_back_as_text_and_nothing_is_pushed(coordinator, bursting, pushes):
    store, closures = make_closures(bursting, num_ps=3, num_workers=2)
    before = store.state()
    for ticket in range(1, 5):
        tickets = np.array(Tickets(ticket, ticket, pushes))
        value = coordinator.schedule(closures.train, args=(tickets,)).fetch()
        _, error = read_report(value)
        assert "RuntimeError: the ball burst" in error.decode()
        assert "test_failing_hosts.py" in error.decode()
    after = store.state()
    assert after.counters == before.counters == (0, 0, 0, 0, 0)
    np.testing.assert_array_equal(after.online, before.online)
    np.testing.assert_array_equal(after.target, before.target)
    # Evaluations say so too.
    coordinator.schedule(closures.freeze).fetch()
    played = closures.evaluate(2, freeze=True)
    given = np.int64(1), np.zeros(0, np.float32)
    *_, error = coordinator.schedule(played, args=given).fetch()
    assert "RuntimeError: the ball burst" in error.decode()


@pytest.mark.parametrize("pushes", tiered([1, 3], quick=(3,)))
def test_an_environment_that_cannot_be_made_on_a_worker_comes_back_as_text(
    coordinator, monkeypatch, pushes
):
    # On the coordinator it can: say, a file that only this machine has.
    _, closures = make_closures(Config.from_values(SMALL), num_ps=3, num_workers=2)

    def fail(*_):
        raise FileNotFoundError("no such rom")

    monkeypatch.setattr(actor, "Environments", fail)
    value = coordinator.schedule(closures.train, args=(np.array(Tickets(1, 1, pushes)),)).fetch()
    _, error = read_report(value)
    assert "FileNotFoundError: no such rom" in error.decode()


def test_training_raises_what_a_worker_raised(coordinator, bursting, tmp_path):
    with (
        make_training(coordinator, bursting, tmp_path) as (training, store),
        pytest.raises(WorkerError, match="the ball burst"),
    ):
        training.run()
    assert store.counters() == (0, 0, 0, 0, 0)
    assert list(tmp_path.glob("*.npz")) == []


def test_training_refuses_what_a_worker_refused(coordinator, tmp_path):
    # These workers were started without a folder of their own.
    config = Config.from_values({**SMALL, "replay_files": True})
    with (
        make_training(coordinator, config, tmp_path) as (training, store),
        pytest.raises(UsageError) as caught,
    ):
        training.run()
    said = r"--replay_files: worker [01] has no place for them; start it with --worker_dir"
    assert re.fullmatch(said, str(caught.value))
    assert store.counters() == (0, 0, 0, 0, 0)


def fail_with_words(*_):
    raise ArithmeticError("the server's own words")


@pytest.mark.parametrize(
    ("method", "num_ps"), [("pull", 1), ("pull", 3), ("_stage", 3), ("_make_version", 1)]
)
def test_a_closure_says_when_a_parameter_server_failed(coordinator, monkeypatch, method, num_ps):
    config = Config.from_values({**SMALL, "pushes_per_closure": 1})
    store, closures = make_closures(config, num_ps, num_workers=2)
    monkeypatch.setattr(shard.Shard, method, fail_with_words)
    value = coordinator.schedule(closures.train, args=(np.array(Tickets(1, 1, 1)),)).fetch()
    _, error = read_report(value)
    # Nothing is learned from the zeros of a failed call, and the closure does not go unnoticed.
    assert b"Traceback" in error
    assert "the server's own words" in store.errors()
    assert store.errors() == ""


@pytest.mark.parametrize(
    ("method", "pushes_per_closure"),
    [
        pytest.param("pull", 1, marks=pytest.mark.thorough),
        ("pull", 3),
        ("_stage", 3),
        ("_make_version", 1),
    ],
)
def test_training_raises_what_a_parameter_server_raised(
    coordinator, tmp_path, monkeypatch, method, pushes_per_closure
):
    config = Config.from_values({**SMALL, "pushes_per_closure": pushes_per_closure})
    with make_training(coordinator, config, tmp_path) as (training, store):
        monkeypatch.setattr(shard.Shard, method, fail_with_words)
        with pytest.raises(WorkerError, match=r"(?s)parameter server \d:.*the server's own words"):
            training.run()
    store.errors()  # what the closures that were on their way met
