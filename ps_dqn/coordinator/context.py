"""What a run has before it connects, and keeps when it connects again."""

import dataclasses
import pathlib
from collections.abc import Callable

from rich.console import Console

from ps_dqn.cluster import health
from ps_dqn.cluster.control import Control
from ps_dqn.cluster.spec import Placement
from ps_dqn.config import Config
from ps_dqn.coordinator.keeping.course import Course
from ps_dqn.coordinator.keeping.history import History
from ps_dqn.coordinator.keeping.snapshots import Snapshots
from ps_dqn.coordinator.reporting.profiles import Profiles
from ps_dqn.coordinator.reporting.timelines import Timelines
from ps_dqn.coordinator.supervision.pulses import Pulses
from ps_dqn.coordinator.supervision.watchdog import Watchdog
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.run import terminal
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.run.disk import Disk
from ps_dqn.run.signals import Signals
from ps_dqn.telemetry.tracking import Tracking
from ps_dqn.telemetry.vitals import Vitals
from ps_dqn.telemetry.writers import Writers


@dataclasses.dataclass(frozen=True)
class RunContext:
    """Of one run."""

    config: Config
    environment: EnvironmentSpec
    placement: Placement
    folder: pathlib.Path
    checkpoints: Checkpoints
    cluster: Control | None  # the tasks, where they are ours
    console: Console
    signals: Signals
    vitals: Vitals
    own_server: health.OwnServer
    watchdog: Watchdog
    snapshots: Snapshots
    history: History
    course: Course
    tracking: Tracking
    writers: Callable[[], Writers]  # opened once it is known what the run goes on with
    disk: Disk
    pulses: Pulses
    profiles: Profiles
    timelines: Timelines
    started: float  # time.perf_counter() when the command began

    @property
    def is_remote(self) -> bool:
        """Whether others start the tasks."""
        return self.placement.kind == "remote"

    def say(self, line: str) -> None:
        """A line for people."""
        terminal.say(self.console, line)
