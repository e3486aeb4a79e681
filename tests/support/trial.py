"""A training to which something happens: what is done to it, what it cost, and what must hold."""

import contextlib
import csv
import json
import math
import os
import pathlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ps_dqn.cluster import ports
from ps_dqn.cluster.spec import ClusterSpec, Task
from support import processes as real
from support.held import held_by
from support.places import Places
from support.pods.network import Network
from support.processes import Processes, Running
from support.relay import relays
from support.remote_tasks import MODULES

PROJECT = pathlib.Path(__file__).parents[2]
# CartPole that waits in its steps, so that its speed is the same on most machines.
ENVIRONMENT = (
    f"--flagfile={PROJECT / 'flags' / 'presets' / 'cartpole.flags'}",
    *("--env_module=slow_cartpole", "--env_id=SlowCartPole-v1"),
    *('--eval_env_kwargs={"step_seconds": 0}', "--confirm_episodes=0"),
)
# Of a step of each environment: 12.8 ms of one of 32.
STEP_SECONDS = 0.0004
# The harm is done after this share of the steps; then they go on for long enough to recover.
FIRST_SHARE = 0.3
# How updates/s are counted: of so long before, and of so long from each moment on (seconds).
BEFORE, WINDOW = 4.0, 2.0
RECOVERED = 0.9  # of the updates/s before
# Of each task that lives through it.
MOST_NEW_DESCRIPTORS, MOST_NEW_MEMORY = 8, 300 * 2**20


class Scenario(NamedTuple):
    """What happens, and to whom."""

    name: str
    harm: Callable[["Trial"], None]
    flags: tuple[str, ...] = ()
    servers: int = 1  # of parameters; none: the flag for them is not said
    workers: int = 2
    is_remote: bool = False  # tasks that others start
    delay: float = 0.0  # of what the tasks are sent, where they are remote (seconds)
    is_apart: bool = False  # each remote task has a network namespace of its own
    loses_updates: bool = False  # what came after the newest snapshot or checkpoint
    length: float = 1.0  # of the training, where what happens takes long
    tested_by: str = ""  # what looks closer, or has all of it, where it is not tested itself


class Row(NamedTuple):
    """What it cost; NaN where there is nothing to say."""

    scenario: str
    seed: int
    detect: float  # seconds from the harm until a line is said
    recover: float  # seconds from the harm until 90 % of the updates/s before
    updates_lost: int
    goodput: float  # share of the time with a connection to train on
    eval_return: float
    training_seconds: float
    env_steps: int
    new_descriptors: int  # of the task that got most
    new_megabytes: float  # of the task that grew most


class Trial:
    """One training of CartPole."""

    def __init__(
        self,
        processes: Processes,
        folder: pathlib.Path,
        scenario: Scenario,
        seed: int,
        steps: int,
        exit_stack: contextlib.ExitStack,
        step_seconds: float = STEP_SECONDS,
    ):
        """Starts it; returns when it trains with all workers."""
        self._processes, self._folder, self._scenario = processes, folder, scenario
        self._seed, self._steps = seed, round(steps * scenario.length)
        self._tasks: dict[str, Running] = {}  # those that were started last
        self._commands: list[Running] = []
        self.harmed_at = math.nan  # `time.monotonic()`
        self._flags = (
            *(*ENVIRONMENT, f"--run_dir={folder}", f"--seed={seed}"),
            f'--env_kwargs={{"step_seconds": {step_seconds}}}',
            *(f"--total_env_steps={self._steps}", "--target_return=inf", "--log_interval=0.25"),
            *("--checkpoint_period=2", *scenario.flags),
            *([] if scenario.is_remote else [f"--num_workers={scenario.workers}"]),
            *[f"--num_ps={scenario.servers}"] * (scenario.servers > 0 and not scenario.is_remote),
        )
        if scenario.is_remote:
            self._spec = self._seen = self._addresses(exit_stack)
            if scenario.delay:  # they listen where the coordinator's packets come out
                addresses = [*self._spec.ps, *self._spec.workers]
                far = exit_stack.enter_context(relays(addresses, scenario.delay))
                ps, workers = far[: scenario.servers], far[scenario.servers :]
                self._seen = ClusterSpec(self._spec.chief, tuple(ps), tuple(workers))
            for task in self._spec.tasks():
                self.start(f"{task.job}-{task.index}")
        self.start("coordinator")
        self._all_work = f"workers {scenario.workers}/{scenario.workers}"
        self.until_it_says(self._all_work)

    @property
    def running(self) -> Running:
        """The command that trains."""
        return self._tasks["coordinator"]

    def start(self, name: str) -> None:
        """Starts the command, or a task as others do, for the first time or again."""
        environment = {"PYTHONPATH": str(PROJECT / "benchmarks")}
        if name == "coordinator":
            if self._scenario.is_remote:
                environment["TF_CONFIG"] = self._seen.tf_config(Task("chief", 0))
            arguments = ["-m", "ps_dqn.coordinator", *self._flags]
        else:
            job, _, index = name.partition("-")
            environment["TF_CONFIG"] = self._spec.tf_config(Task(job, int(index)))
            arguments = ["-m", MODULES[job]]
        place = "chief-0" if name == "coordinator" else name
        within = self.places.within(place) if self._scenario.is_apart else ()
        self._tasks[name] = self._processes.start(*arguments, within=within, **environment)
        if name == "coordinator":
            self._commands.append(self._tasks[name])

    @contextlib.contextmanager
    def harmed_by(self, network: contextlib.AbstractContextManager[None]) -> Iterator[None]:
        """While the network of `places` does something to what remote tasks send or are sent."""
        with network:
            self._harmed()
            yield

    def pid(self, name: str) -> int:
        """The process of a task, or of the coordinator."""
        if self._scenario.is_remote or (
            name == "coordinator" and "--restart" not in self._scenario.flags
        ):
            return self._tasks[name].pid
        log = str(self._folder / "logs" / f"{name}.log")
        found = {pid for pid in self._processes.alive() if real.output_of(pid) == log}
        return next(iter(found - {self.running.pid}), 0)

    def signal(self, number: int, *names: str) -> None:
        """Does harm to tasks, all at once."""
        pids = [self.pid(name) for name in names]
        assert all(pids), f"{names} are not all there: {pids}"
        self._harmed()
        for pid in pids:
            os.kill(pid, number)

    def gone(self, name: str) -> None:
        """Waits for the end of a process that others have started."""
        self._tasks[name].ended(30)

    def until_it_says(self, text: str, times: int = 1, seconds: float = 240.0) -> None:
        """Waits until it has said something, so often more than until now."""
        wanted = self.running.count(text) + times

        def said() -> bool:
            code = self.running.process.poll()
            enough = self.running.count(text) >= wanted
            assert enough or code is None, f"exit code {code} before {text!r}:\n{self.running.text}"
            return enough

        real.until(said, seconds, f"{times} times {text!r} after\n{self.running.text}")

    def until_steps(self, share: float) -> None:
        """Waits until so much of it is done, or it has ended."""

        def done() -> bool:
            ended = self.running.process.poll() is not None
            points = self._points()
            return ended or bool(points and points[-1][1] >= share * self._steps)

        real.until(done, 600, f"{share:.0%} of the steps:\n{self.running.text}")

    def row(self) -> Row:
        """Lets it go on to its end, whatever has to happen, and looks at what is left."""
        self.until_steps(FIRST_SHARE)
        before = self._held()
        self._scenario.harm(self)
        self.until_steps(0.95)
        grown = [
            np.subtract(held, before[pid]) for pid, held in self._held().items() if pid in before
        ]
        code = self.running.ended(300)
        assert code == 0, self.running.text
        summary = json.loads((self._folder / "summary.json").read_text())
        self._check(summary)
        descriptors, memory = np.max(grown or [(0, 0)], axis=0)
        assert descriptors <= MOST_NEW_DESCRIPTORS, grown
        assert memory <= MOST_NEW_MEMORY, grown
        detect, recover = self._times()
        last = [line for line in self.running.lines if "updates/s" in line][-1]
        assert self._all_work in last, self.running.text  # how soon is the report's to say
        return Row(
            self._scenario.name,
            self._seed,
            *(round(detect, 2), round(recover, 2)),
            summary["updates_lost"],
            round(summary["goodput"], 3),
            round(summary["eval_return"], 1),
            round(summary["training_seconds"], 1),
            summary["env_steps"],
            *(int(descriptors), round(float(memory) / 2**20, 1)),
        )

    def _addresses(self, exit_stack: contextlib.ExitStack) -> ClusterSpec:
        """Of tasks that others start."""
        if not self._scenario.is_apart:
            return ports.on_this_machine(self._scenario.servers, self._scenario.workers)
        network = exit_stack.enter_context(contextlib.closing(Network()))
        self.places = Places(network, self._scenario.servers, self._scenario.workers)
        return self.places.spec

    def _harmed(self) -> None:
        if math.isnan(self.harmed_at):
            self.harmed_at = time.monotonic()

    def _check(self, summary: dict[str, Any]) -> None:
        """What holds at the end of each, whatever has happened."""
        assert summary["reason"] == "finished"
        assert summary["env_steps"] >= self._steps
        assert self.running.count("Traceback") == 0, self.running.text
        assert not any(line.startswith("error") for line in self.running.lines), self.running.text
        assert "Traceback" not in (self._folder / "logs" / "coordinator.log").read_text()
        assert self._scenario.loses_updates or summary["updates_lost"] == 0
        # What the servers have decided is the same on all of them.
        decided = [(each["kinds"], each["staleness"]) for each in summary["parameter_servers"]]
        assert decided == decided[:1] * self._scenario.servers
        saved = dict(np.load(max(self._folder.glob("checkpoints/updates-*.npz"))))
        names = ("version", "updates", "env_steps", "episodes", "sequential_updates")
        assert saved["counters"].tolist() == [summary[name] for name in names]
        assert all(np.isfinite(saved[name]).all() for name in ("online", "target", "average"))
        with (self._folder / "metrics.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["train/epsilon"]]
        for name in ("version", "updates", "env_steps"):
            column = [int(float(row[name])) for row in rows]
            assert column == sorted(column), f"{name} is counted twice"
        ours = {running.pid for running in self._tasks.values()}
        real.until(lambda: self._processes.alive() <= ours, 15, "its processes to be gone")

    def _lines(self) -> list[tuple[float, str]]:
        """All that the commands have said, and when (`time.monotonic()`)."""
        return [
            each
            for command in self._commands
            for each in zip(list(command.times), list(command.lines), strict=False)
        ]

    def _points(self) -> list[tuple[float, int, int]]:
        """When it has said how far it is: env steps and updates."""
        found = []
        for at, line in self._lines():
            if match := re.search(r"env_steps +([\d,]+) +updates +([\d,]+)", line):
                steps, updates = (int(each.replace(",", "")) for each in match.groups())
                found.append((at, steps, updates))
        return found

    def _times(self) -> tuple[float, float]:
        """Seconds until it was noticed, and until it recovered."""
        if math.isnan(self.harmed_at):
            return math.nan, math.nan
        harmed, points = self.harmed_at, self._points()
        said = [at for at, line in self._lines() if at > harmed and "updates/s" not in line]
        noticed = said[0] if points[-1][0] > said[0] else math.nan  # not the table at the end
        usual = _rate(points, harmed - BEFORE, harmed)
        start = harmed if math.isnan(noticed) else noticed
        for at, *_ in points:
            if at >= start and _rate(points, at, at + WINDOW) >= RECOVERED * usual:
                return noticed - harmed, at - harmed
        return noticed - harmed, math.nan

    def _held(self) -> dict[int, tuple[int, int]]:
        """Descriptors and resident memory of each process."""
        return held_by(self._processes.alive())


def _rate(points: list[tuple[float, int, int]], begin: float, end: float) -> float:
    """Updates per second between two moments; NaN where there is not one point after the end."""
    times, updates = [at for at, _, _ in points], [made for _, _, made in points]
    if end > times[-1]:
        return math.nan
    begin = max(begin, times[0])
    there, here = np.interp([end, begin], times, updates)
    return float(there - here) / (end - begin)
