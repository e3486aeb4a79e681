"""The coordinator's process, or processes: from starting its tasks to its exit code.

The order matters: TensorFlow is imported once its output goes to a log file, and local tasks are
forked after that import but before TensorFlow makes anything.
"""

import contextlib
import dataclasses
import functools
import importlib
import pathlib
import sys
import time
import traceback
from collections.abc import Callable

from rich.console import Console

from ps_dqn.cluster import health, local, pulse, stateful_sets, supervisor
from ps_dqn.cluster.control import Control, TaskDiedError
from ps_dqn.cluster.spec import Placement, Task
from ps_dqn.config import Config
from ps_dqn.coordinator import transient
from ps_dqn.coordinator.keeping.history import History
from ps_dqn.coordinator.supervision.task_failures import LOST
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import ClusterLostError, UsageError, WorkerError
from ps_dqn.run import directory, heap, optional_imports, stages, terminal
from ps_dqn.run.checkpoints import Checkpoint, Checkpoints
from ps_dqn.run.disk import Disk
from ps_dqn.run.shelf import Shelf
from ps_dqn.run.signals import FAILED, START_AGAIN, WRONG_USAGE, Signals
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
    told: tuple[str, ...] = ()  # what people should know of how it was read
    is_named: bool = True  # the folder; else it may get another name, where this one is taken


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
        self._saved = ""  # what an end has left time to save, for people
        self._save: Callable[[], str] = lambda: ""  # what is in memory, where servers are lost
        self._leave_timeline: Callable[[], None] = lambda: None
        checkpoints = prepared.checkpoints
        self._signals = Signals(
            self.say,
            lambda: max(self._vitals.last_sign, checkpoints.last_sign),
            lambda: checkpoints.is_writing,
            lambda: self._save() or self._saved,
        )

    def run(self) -> int:
        """Starts the tasks and trains; returns the exit code."""
        # TensorFlow and all that needs it, once for every fork. The thread of a stage ends with it.
        with optional_imports.hidden():
            with stages.stage("importing TensorFlow", self.say):
                importlib.import_module("tensorflow")
            with stages.stage("importing what needs TensorFlow", self.say):
                importlib.import_module("ps_dqn.coordinator.reconnect")
        from ps_dqn.coordinator.supervision import tasks

        placement = self._prepared.command.placement
        with tasks.running(placement, self._prepared.command.folder, self.say) as cluster:
            if cluster is not None and placement.restart:
                return self._supervise(cluster)
            code = self._train(cluster)
        self._leave_timeline()
        return code

    def _supervise(self, cluster: local.LocalCluster) -> int:
        """Has others train, one after another; returns the exit code of the last one."""
        from ps_dqn.coordinator.keeping.snapshots import Snapshots

        has_memory = sys.platform == "linux"
        with contextlib.closing(Shelf()) if has_memory else contextlib.nullcontext() as shelf:

            def train(control: Control, loss: supervisor.Loss | None) -> int:
                code = self._train(control, loss, shelf)
                self._leave_timeline()
                return code

            code = supervisor.Supervisor(cluster, self.say).run(
                lambda control, loss: self.reported(lambda: train(control, loss))
            )
            # The last one may have been killed.
            if saved := Snapshots(0.0, shelf).save(self._prepared.checkpoints):
                self.say(saved)
            return code

    def reported(self, action: Callable[[], int]) -> int:
        """What an action returns; where it fails, lines for people and an exit code."""
        try:
            return action()
        except (SystemExit, Exception) as error:
            code = self._explained(error)
        if self._saved:
            self.say(self._saved)
        folder = self._prepared.command.folder
        if code != WRONG_USAGE and directory.has_checkpoint(folder):
            self.say(f"--resume --run_dir={folder} goes on from the last checkpoint")
        return code

    def _explained(self, error: BaseException) -> int:
        """Says what has ended the run; its exit code."""
        if (told := self._signals.told_code) is not None:
            if not isinstance(error, SystemExit):
                traceback.print_exception(error)  # into the log
            when = "ending" if self._signals.received else "connecting anew"
            when = when if self._past.has_begun else "starting"
            self.say(f"{self._signals.told_name} came while the run was {when}: it has ended")
            return told
        expected = UsageError, health.HealthError, TaskDiedError, WorkerError, ClusterLostError
        if not isinstance(error, expected):
            traceback.print_exception(error)
            log = self._prepared.log
            self.say(f"error: {type(error).__name__}: {error}; {log} has the whole of it")
            return FAILED
        self.say(f"error: {error}")
        print(f"error: {error}", file=sys.stderr, flush=True)  # the log by now
        if isinstance(error, ClusterLostError) and self._signals.received:
            return self._signals.exit_code(is_over=False)  # everything was told to stop
        command = self._prepared.command
        if transient.is_transient(error, command.folder, command.placement.kind == "remote"):
            return START_AGAIN
        if isinstance(error, UsageError | health.HealthError):
            # Where something was learned with these flags, it is one task that they do not fit.
            has_trained = self._past.has_trained(self._vitals.env_steps)
            return FAILED if has_trained else WRONG_USAGE
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
        from ps_dqn.coordinator import reconnect
        from ps_dqn.coordinator.context import RunContext
        from ps_dqn.coordinator.keeping import snapshots
        from ps_dqn.coordinator.keeping.course import Course
        from ps_dqn.coordinator.reporting import profiles
        from ps_dqn.coordinator.reporting.profiles import Profiles
        from ps_dqn.coordinator.reporting.timelines import Timelines
        from ps_dqn.coordinator.supervision import tasks
        from ps_dqn.coordinator.supervision.pulses import Pulses
        from ps_dqn.coordinator.supervision.watchdog import Watchdog
        from ps_dqn.telemetry.writers import Writers

        prepared, command = self._prepared, self._prepared.command
        placement, faults = command.placement, command.config.faults
        resumed = prepared.resumed
        if loss is not None:
            self._comes_after(loss)
            resumed = prepared.checkpoints.newest()
        self._signals.watch()
        if isinstance(cluster, supervisor.Attended):
            cluster.remember(lambda: self._past.memory(self._vitals.read().counters))
        if placement.kind != "in_process":  # where its vectors come and go
            heap.keep_nothing_large()
        spec = placement.spec
        listener = pulse.Listener(
            {task: spec.addresses(task.job)[task.index] for task in spec.all_tasks()}
        )
        taken = snapshots.Snapshots(faults.snapshot_period, shelf)
        self._save = lambda: taken.save(prepared.checkpoints)
        watchdog = Watchdog(
            *(faults, placement, cluster, self.say, self._past.failures),
            *(lambda: self._save(), listener.newest),
        )
        options = hyperparameters.of_flags(command.flagfile)
        tracking = Tracking(command.config.run.track, command.folder, options, self.say)
        opened = contextlib.ExitStack()
        opened.callback(tracking.close, lambda: not self._signals.has_come)

        @functools.cache
        def writers() -> Writers:
            made = Writers(command.folder, tracking, self.say)
            made.add_hyperparameters(options)
            return opened.enter_context(contextlib.closing(made))

        timelines = Timelines(
            command.config.profiling.timeline,
            spec,
            command.folder,
            prepared.console,
            listener.newest,
        )
        self._leave_timeline = timelines.leave
        context = RunContext(
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
            Course(command.config.run),
            tracking,
            writers,
            Disk(self.say),
            Pulses(listener, spec.all_tasks(), command.config.topology.role),
            Profiles(
                command.config.profiling,
                spec.tasks(),
                command.folder,
                self.say,
                lambda task, start: profiles.ask_at(spec.place(task), start),
            ),
            timelines,
            command.started,
        )
        # Tasks in this process can only stand still with all of it.
        is_alone = placement.kind == "in_process"
        looking = contextlib.nullcontext() if is_alone else watchdog.looking()
        with opened, listener.listening(), looking:
            try:
                return reconnect.train(context, resumed)
            except BaseException:
                # Before tasks are ended, which may take its time.
                self._signals.hear_no_more()
                with stages.told("writing what is in memory", self.say):
                    self._saved = self._save()
                raise

    def _comes_after(self, loss: supervisor.Loss) -> None:
        """Goes on with what is known of an earlier process's run."""
        self._past.follows(loss.memory, loss.at - self._started)
        self._past.failures.noticed(Task("chief", 0), LOST)
        with contextlib.suppress(OSError):  # they are in nobody's way
            directory.drop_unfinished(self._prepared.command.folder)

    def say(self, line: str) -> None:
        """A line for people."""
        terminal.say(self._prepared.console, line)
