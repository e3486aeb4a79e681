"""What is known of a run that is looked at: what every rule judges by."""

import dataclasses
import math
import pathlib
import re
from typing import NamedTuple

from ps_dqn.config import Config, scaling
from ps_dqn.run import directory, lock
from ps_dqn.telemetry.measured import Measured
from ps_dqn.telemetry.metrics import PHASES

GOES_ON, CUT_OFF = "goes on", "cut off"
# An error as Python or a program of its says it last, at the beginning of a line.
_ERROR = re.compile(r"^(?:error: .*|(?:\w+\.)*\w*(?:Error|Exception): .*|Fatal Python error: .*)$")
_END_OF_LOG = 65_536  # bytes that are looked through


class Finding(NamedTuple):
    """What a rule has found."""

    rule: str
    seen: str  # one line, with the numbers
    change: str  # one flag, or one command
    expect: str


@dataclasses.dataclass(frozen=True)
class Patient:
    """A run that goes on, or has ended in whatever way."""

    config: Config
    num_workers: int
    run: Measured
    state: str = GOES_ON  # or CUT_OFF, or the reason why it ended
    last_words: str = ""  # the last error in its logs
    failure_file: str = ""  # of an environment, for `ps_dqn.reproduce`
    can_go_on: bool = True  # it has left a checkpoint
    dormant_units: float = math.nan  # share of the hidden units; NaN: nobody has looked

    @property
    def is_over(self) -> bool:
        """It will not go on by itself."""
        return self.state != GOES_ON

    @property
    def total_env_steps(self) -> int:
        """Where it is to end."""
        return self.config.run.total_env_steps

    @property
    def env_steps(self) -> float:
        """How far it is, and so below; 0 where nothing is known yet."""
        return self._counter("env_steps")

    @property
    def updates(self) -> float:
        """Updates of all workers."""
        return self._counter("updates")

    @property
    def sequential_updates(self) -> float:
        """Updates, those made side by side as one."""
        return self._counter("sequential_updates")

    @property
    def episodes(self) -> float:
        """Finished episodes."""
        return self._counter("episodes")

    @property
    def progress(self) -> float:
        """Share of the run that is behind it."""
        return self.env_steps / self.total_env_steps

    @property
    def phases(self) -> dict[str, float]:
        """Time of all workers in each phase (seconds)."""
        return {phase: self.total(f"time/{phase}") for phase in PHASES}

    @property
    def evaluations(self) -> list[float]:
        """Mean returns of greedy evaluations, in their order."""
        return self.run.values("eval/episode_return")

    @property
    def returns(self) -> list[float]:
        """All mean returns that were measured, exploring or not."""
        return [*self.evaluations, *self.run.values("train/episode_return")]

    @property
    def at_random(self) -> float:
        """The return of actions at random, as the first episodes made it; NaN: not known."""
        values = self.run.values("train/episode_return")
        return values[0] if values else math.nan

    @property
    def replays(self) -> bool:
        """Transitions are kept, and drawn again."""
        return self.config.replay.replay != "rollout" and not self.config.demonstrations.offline

    @property
    def aggregation(self) -> str:
        """How pushes are put together, `auto` decided."""
        return scaling.how_they_push(self.config, self.num_workers).aggregation

    def phase_share(self, phase: str) -> float:
        """Share of the workers' time in a phase."""
        return self.phases[phase] / (sum(self.phases.values()) or math.inf)

    def total(self, metric: str) -> float:
        """The sum of a metric over all rows, each of which is of its own interval."""
        return math.fsum(value for value in self.run.values(metric) if math.isfinite(value))

    def late(self, metric: str) -> float:
        """The mean of a metric in the last third of its rows; NaN where there are none."""
        values = self.run.values(metric)
        last = values[-max(len(values) // 3, 1) :]
        return math.fsum(last) / len(last) if last else math.nan

    def summary(self, name: str, default: float = 0.0) -> float:
        """A number of the summary; the default where it has none."""
        value = (self.run.summary or {}).get(name)
        return default if value is None else float(value)

    def _counter(self, name: str) -> float:
        value = self.run.last(name)
        return 0.0 if math.isnan(value) else value


def examine(run: Measured, config: Config, num_workers: int) -> Patient:
    """What is known of a run, its folder's files included."""
    state = run.reason or (GOES_ON if lock.may_be_held(run.path) else CUT_OFF)
    files = sorted(run.path.glob(f"{directory.WORKER_FILES}/*/env_failures/*.json"))
    words = _last_words(run.path / directory.LOGS) if state == CUT_OFF else ""
    failure, can_go_on = str(files[0]) if files else "", directory.has_checkpoint(run.path)
    return Patient(config, num_workers, run, state, words, failure, can_go_on)


def _last_words(logs: pathlib.Path) -> str:
    """The last error in the log that was written to last, with the log's name."""
    found = sorted(logs.glob("*.log"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _END_OF_LOG, 0))
            lines = file.read().decode(errors="replace").splitlines()
        errors = [line for line in lines if _ERROR.match(line)]
        if errors:
            return f"{path.name}: {errors[-1]}"
    return ""


def number(value: float) -> str:
    """A number for people: three digits, or whole with its thousands apart."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def rounded(value: float) -> str:
    """A number for a flag: two digits, never in powers of ten where it is whole."""
    short = float(f"{value:.2g}")
    return f"{short:.0f}" if short.is_integer() and abs(short) < 1e15 else f"{short:g}"


def smaller_step(patient: Patient, factor: float) -> str:
    """The learning rate divided by a factor, for a flag."""
    return rounded(patient.config.learning.learning_rate / factor)
