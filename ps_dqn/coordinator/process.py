"""The coordinator's process, or processes: from starting its tasks to its exit code.

The order matters: TensorFlow is imported once its output goes to a log file, and local tasks are
forked after that import but before TensorFlow makes anything.
"""

import contextlib
import dataclasses
import importlib
import pathlib
import sys
import time
import traceback
from collections.abc import Callable

from rich.console import Console

from ps_dqn.cluster import health, pulse, stateful_sets, supervisor
from ps_dqn.cluster.control import Control, TaskDiedError
from ps_dqn.cluster.spec import Placement, Task
from ps_dqn.config import Config
from ps_dqn.coordinator.history import History
from ps_dqn.coordinator.task_failures import LOST
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import ClusterLostError, UsageError, WorkerError
from ps_dqn.run import directory, stages, terminal
from ps_dqn.run.checkpoints import Checkpoint, Checkpoints
from ps_dqn.run.shelf import Shelf
from ps_dqn.run.signals import FAILED, WRONG_USAGE, Signals
from ps_dqn.telemetry import hyperparameters
from ps_dqn.telemetry.figures import RunFigures
from ps_dqn.telemetry.tracking import Tracking
from ps_dqn.telemetry.vitals import Vitals


@dataclasses.dataclass(frozen=True)
class Command:
    """A command line, read and checked."""

    config: Config
    placement: Placement
    folder: pathlib.Path
    flagfile: str  # its text
    started: float  # time.perf_counter() when the command began


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A command whose run can begin."""

    command: Command
    environment: EnvironmentSpec
    checkpoints: Checkpoints
    resumed: Checkpoint | None  # to go on from
    console: Console
    log: pathlib.Path  # takes what anything but the console says


def run(prepared: Prepared) -> int:
    """Starts the tasks, where they are ours, and trains; returns the exit code."""
    process = _CoordinatorProcess(prepared)
    code = process.reported(process.run)
    if code in (0, WRONG_USAGE):  # nobody starts it again
        stateful_sets.scale_to_zero(prepared.command.placement.free_stateful_sets, process.say)
    return code


class _CoordinatorProcess:
    """A process that trains, or that starts one that does."""

    def __init__(self, prepared: Prepared):
        command = prepared.command
        self._prepared, self._started = prepared, command.started
        self._past = History()
        self._vitals = Vitals(
            RunFigures.planned(command.config, len(command.placement.spec.workers)),
            lambda: self._past.figures(time.perf_counter() - command.started),
        )
        self._save: Callable[[], str] = lambda: ""  # what is in memory, where servers are lost
        self._signals = Signals(self.say, lambda: self._vitals.last_sign, lambda: self._save())

    def run(self) -> int:
        """Starts the tasks and trains; returns the exit code."""
        # TensorFlow and all that needs it, once for every fork. The thread of a stage ends with it.
        with stages.stage("importing TensorFlow", self.say):
            importlib.import_module("ps_dqn.coordinator.reconnect")
        from ps_dqn.coordinator import tasks

        placement = self._prepared.command.placement
        with tasks.running(placement, self._prepared.command.folder, self.say) as cluster:
            if cluster is None or not placement.restart:
                return self._train(cluster)
            has_memory = sys.platform == "linux"
            with contextlib.closing(Shelf()) if has_memory else contextlib.nullcontext() as shelf:
                return supervisor.Supervisor(cluster, self.say).run(
                    lambda control, loss: self.reported(lambda: self._train(control, loss, shelf))
                )

    def reported(self, action: Callable[[], int]) -> int:
        """What an action returns; where it fails, a line for people and an exit code."""
        try:
            return action()
        except SystemExit:
            self.say(f"{self._signals.told_name} came while the run was starting: it has ended")
            raise
        except (UsageError, health.HealthError) as error:
            self.say(f"error: {error}")  # standard error is the log by now
            return WRONG_USAGE
        except (TaskDiedError, WorkerError, ClusterLostError) as error:
            self.say(f"error: {error}")
            if saved := self._save():
                self.say(saved)
            if isinstance(error, ClusterLostError) and self._signals.received:
                return self._signals.exit_code(is_over=False)  # everything was told to stop
        except Exception as error:
            traceback.print_exc()  # into the log
            if (code := self._signals.told_code) is not None:
                return code
            log = self._prepared.log
            self.say(f"error: {type(error).__name__}: {error}; {log} has the whole of it")
        folder = self._prepared.command.folder
        if directory.has_checkpoint(folder):
            self.say(f"--resume --run_dir={folder} goes on from the last checkpoint")
        return FAILED

    def _train(
        self,
        cluster: Control | None,
        loss: supervisor.Loss | None = None,
        shelf: Shelf | None = None,
    ) -> int:
        """Trains to the end; returns the exit code.

        Args:
            cluster: the tasks, where they are ours.
            loss: another process that did, and was lost.
            shelf: has its newest snapshot.
        """
        from ps_dqn.coordinator import reconnect, run, snapshots, tasks
        from ps_dqn.coordinator.profiles import Profiles
        from ps_dqn.coordinator.pulses import Pulses
        from ps_dqn.coordinator.watchdog import Watchdog

        prepared, command = self._prepared, self._prepared.command
        placement, faults = command.placement, command.config.faults
        resumed = prepared.resumed
        if loss is not None:
            self._comes_after(loss)
            resumed = prepared.checkpoints.newest()
        self._signals.watch()
        if isinstance(cluster, supervisor.Attended):
            cluster.remember(lambda: self._past.memory(self._vitals.read().counters))
        spec = placement.spec
        listener = pulse.Listener(
            {task: spec.addresses(task.job)[task.index] for task in spec.tasks()}
        )
        taken = snapshots.Snapshots(faults.snapshot_period, shelf)
        self._save = lambda: taken.save(prepared.checkpoints)
        watchdog = Watchdog(
            faults, placement, cluster, self.say, self._past.failures, lambda: self._save()
        )
        options = hyperparameters.of_flags(command.flagfile)
        tracking = Tracking(command.config.run.track, command.folder, options, self.say)
        context = run.RunContext(
            command.config,
            prepared.environment,
            placement,
            command.folder,
            prepared.checkpoints,
            cluster,
            prepared.console,
            self._signals,
            self._vitals,
            tasks.serve_health(placement, self._vitals),
            watchdog,
            taken,
            self._past,
            options,
            tracking,
            Pulses(listener, spec.tasks()),
            Profiles(command.config.profiling, spec.tasks(), command.folder, self.say),
            command.started,
        )
        # Tasks in this process can only stand still with all of it.
        is_alone = placement.kind == "in_process"
        looking = contextlib.nullcontext() if is_alone else watchdog.looking()
        with contextlib.closing(tracking), listener.listening(), looking:
            return reconnect.train(context, resumed)

    def _comes_after(self, loss: supervisor.Loss) -> None:
        """Goes on with what is known of an earlier process's run."""
        self._past.follows(loss.memory, loss.at - self._started)
        self._past.failures.noticed(Task("chief", 0), LOST)

    def say(self, line: str) -> None:
        """A line for people."""
        terminal.say(self._prepared.console, line)
