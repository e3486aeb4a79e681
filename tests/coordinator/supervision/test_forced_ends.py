"""What is saved and said where a run ends otherwise than in good order, and its exit code."""

import contextlib
import dataclasses
import io
import os
import pathlib
import signal
import sys
import types
from collections.abc import Callable, Iterator

import pytest
import tensorflow as tf
from rich.console import Console
from support import states

from ps_dqn.cluster import ending, ports
from ps_dqn.cluster.spec import Placement
from ps_dqn.config import Config
from ps_dqn.coordinator import process, reconnect
from ps_dqn.coordinator.context import RunContext
from ps_dqn.coordinator.process import Command, Prepared
from ps_dqn.coordinator.supervision import tasks
from ps_dqn.errors import ClusterLostError, UsageError, WorkerError
from ps_dqn.run import directory, signals
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.run.shelf import Shelf
from ps_dqn.run.signals import FAILED, INTERRUPTED, START_AGAIN, WRONG_USAGE
from ps_dqn.telemetry.figures import RunFigures

SAVED = "saved what the parameter servers held at 500 updates"


class Ended:
    """A run in a folder that a test's story ends, after the first closure where it says so."""

    def __init__(self, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
        self.folder, self._monkeypatch = folder, monkeypatch
        self._out, self.restarts = io.StringIO(), False
        directory.create(folder)

    def by(self, story: Callable[[RunContext], int]) -> int:
        """The exit code of a run whose attempts the story makes."""

        def train(context: RunContext, resumed: object) -> int:
            return story(context)

        self._monkeypatch.setattr(reconnect, "train", train)
        config = Config()
        spec = ports.on_this_machine(1, 1)
        placement = Placement("in_process", spec, "fork", 1, 4, restart=self.restarts)
        command = Command(config, placement, self.folder, "", 0.0)
        environment = types.SimpleNamespace()
        prepared = Prepared(
            command,
            environment,  # type: ignore[arg-type]
            Checkpoints(self.folder / directory.CHECKPOINTS, keep=1),
            None,
            Console(file=self._out),
            self.folder / "log",
        )
        try:
            return process.run(prepared)
        except SystemExit as leaving:
            return int(leaving.code or 0)

    @property
    def said(self) -> list[str]:
        return self._out.getvalue().splitlines()

    @property
    def saved(self) -> bool:
        return directory.has_checkpoint(self.folder)


@pytest.fixture
def run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ended]:
    handlers = {number: signal.getsignal(number) for number in signals.ENDING}
    # Its thread would end this process.
    monkeypatch.setattr(signals.Signals, "watch", lambda _: None)
    monkeypatch.setattr(ending, "TOGETHER_SECONDS", 0.0)  # each signal is a request
    monkeypatch.setattr(tasks, "running", lambda *_: contextlib.nullcontext())
    yield Ended(tmp_path, monkeypatch)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def trains(context: RunContext) -> None:
    """Training begins, and comes to a snapshot."""
    context.history.begins(1.0)
    context.signals.on_stop(lambda: None)
    state = states.state(500)
    context.snapshots.newest = state
    figures = RunFigures.planned(context.config, 1)
    context.vitals.show(dataclasses.replace(figures, counters=state.counters))


def tell(number: int) -> None:
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_BLOCK, [])  # Python looks for signals


def test_the_second_signal_ends_a_run_that_has_trained(run: Ended) -> None:
    def story(context: RunContext) -> int:
        trains(context)
        tell(signal.SIGINT)
        tell(signal.SIGINT)
        raise AssertionError("it goes on")

    assert run.by(story) == INTERRUPTED
    assert run.said == [
        "Ctrl-C came while the run was ending: it has ended",
        SAVED,
        f"--resume --run_dir={run.folder} goes on from the last checkpoint",
    ]
    assert run.saved


def test_a_signal_ends_a_run_that_waits_for_its_parameter_server(run: Ended) -> None:
    def story(context: RunContext) -> int:
        trains(context)
        context.signals.on_stop(None)
        tell(signal.SIGTERM)
        raise AssertionError("it goes on")

    assert run.by(story) == START_AGAIN
    assert run.said[:2] == ["SIGTERM came while the run was connecting anew: it has ended", SAVED]
    assert run.saved


def test_an_impatient_third_signal_does_not_cut_the_save_off(
    run: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = Checkpoints.save_newest

    def slowly(*arguments: object) -> pathlib.Path:
        tell(signal.SIGINT)
        return save(*arguments)  # type: ignore[arg-type]

    def story(context: RunContext) -> int:
        trains(context)
        tell(signal.SIGINT)
        monkeypatch.setattr(Checkpoints, "save_newest", slowly)
        tell(signal.SIGINT)
        raise AssertionError("it goes on")

    assert run.by(story) == INTERRUPTED
    assert SAVED in run.said
    assert run.saved


def test_a_signal_before_the_first_closure_has_nothing_to_save(run: Ended) -> None:
    def story(context: RunContext) -> int:
        tell(signal.SIGINT)
        raise AssertionError("it goes on")

    assert run.by(story) == INTERRUPTED
    assert run.said == ["Ctrl-C came while the run was starting: it has ended"]
    assert not run.saved


@pytest.mark.parametrize(
    "error",
    [
        UsageError("--replay_files: worker 1 has no place for them"),
        WorkerError("it burst"),
        ClusterLostError("lost a task"),
        tf.errors.InternalError(None, None, "what nobody expected"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_ends_a_run_that_has_trained_what_is_in_memory_is_saved(
    run: Ended, error: Exception
) -> None:
    def story(context: RunContext) -> int:
        trains(context)
        raise error

    assert run.by(story) == FAILED, "who starts it again goes on with what was learned"
    assert run.said[0].startswith("error: ")
    assert run.said[-2:] == [
        SAVED,
        f"--resume --run_dir={run.folder} goes on from the last checkpoint",
    ]
    assert run.saved


def test_what_cannot_be_used_before_anything_was_learned_is_not_started_again(run: Ended) -> None:
    def story(context: RunContext) -> int:
        context.history.begins(1.0)
        context.vitals.show(RunFigures.planned(context.config, 1))
        raise UsageError("--replay_files: worker 0 has no place for them")

    assert run.by(story) == WRONG_USAGE
    assert run.said == ["error: --replay_files: worker 0 has no place for them"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs a shelf")
def test_what_a_killed_coordinator_has_shelved_is_saved_by_who_started_it(
    run: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(of: object, control: object, loss: object, shelf: Shelf) -> int:
        shelf.put(states.state(500), 1.0)
        return 128 + signal.SIGKILL

    supervisor = types.SimpleNamespace(run=lambda coordinate: coordinate(None, None))
    monkeypatch.setattr(process.supervisor, "Supervisor", lambda *_: supervisor)
    monkeypatch.setattr(process._CoordinatorProcess, "_train", train)
    monkeypatch.setattr(tasks, "running", lambda *_: contextlib.nullcontext(object()))
    run.restarts = True
    assert run.by(lambda context: 0) == 128 + signal.SIGKILL
    assert run.said == [SAVED]
    assert run.saved
