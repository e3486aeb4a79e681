"""What training is worth while its tasks are killed: updates and returns, with faults and without.

    python benchmarks/faults.py --seconds=600 --period=10 --workers=4 --results=faults.csv
    python benchmarks/faults.py --seconds=3600 --kinds=kill,stop --no-left_alone   # a soak

Trains the CartPole preset for so many seconds after its first closure, once without a fault and
once with one every `--period` seconds, seed by seed, and adds a row for each to the results. Which
task is next follows from the seed: one of those that train, each as likely as the others. `kill` is
SIGKILL, `stop` SIGSTOP for good. Without `--restart` the coordinator is spared. What all processes
of a run hold is looked at every few seconds; the results have the median of the second tenth of the
time, and of the last one.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import NamedTuple

import csv_rows

PROJECT = pathlib.Path(__file__).parent.parent
sys.path[:0] = [str(PROJECT / "tests")]

from support.held import held_by  # noqa: E402 - of the tests, whose folder is known only now

PRESET = PROJECT / "flags" / "presets" / "cartpole.flags"
# What stands in the results of a run, as its summary.json has it.
FIGURES = (
    "updates",
    "env_steps",
    "updates_lost",
    "pushes_again",
    "recoveries",
    "recovery_seconds",
    "goodput",
    "eval_return",
    "best_eval_return",
)
COLUMNS = (
    *("seed", "workers", "servers", "period", "faults", "exit_code", "seconds"),
    *FIGURES,
    "updates_per_second",
    "detection_seconds",
    "task_recovery_seconds",
    *(f"{name}_{when}" for name in ("megabytes", "descriptors") for when in ("early", "late")),
    "processes_left",
)
LOOK_SECONDS = 3.0


class Held(NamedTuple):
    """What the processes of a run hold at one moment."""

    megabytes: float  # resident, each counted in full
    descriptors: int


def _held(pids: list[int]) -> Held:
    held = held_by(pids).values()
    return Held(sum(memory for _, memory in held) / 2**20, sum(count for count, _ in held))


def _began(pid: int) -> int:
    """When a process began, in ticks of the system's clock; 0 if it has ended."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[19])


def _children(pid: int) -> list[int]:
    try:
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:  # it has ended
        return []
    return list(map(int, text.split()))


class Run:
    """A training and its processes."""

    def __init__(self, folder: pathlib.Path, flags: list[str]):
        self.folder = folder
        command = [sys.executable, "-m", "ps_dqn.coordinator", f"--run_dir={folder}", *flags]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines: list[str] = []
        self._trains, self._has_begun = threading.Event(), False
        threading.Thread(target=self._read, daemon=True).start()
        # Every process that it ever had, as far as looked at, and when it began.
        self.seen: set[tuple[int, int]] = set()
        self.held: list[Held] = []
        threading.Thread(target=self._look, daemon=True).start()

    def wait_until_it_trains(self) -> None:
        """Returns once it says how it trains, from now on."""
        self._trains.clear()
        if not self._trains.wait(180) or self.process.poll() is not None:
            raise RuntimeError("\n".join(self.lines))

    def tasks(self) -> dict[str, int]:
        """The processes that train, by name: those whose output goes to a log of that name."""
        found = {}
        for child in _children(self.process.pid):
            try:
                found[pathlib.Path(os.readlink(f"/proc/{child}/fd/1")).stem] = child
            except OSError:  # it has ended
                continue
        return found

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(60)

    def left(self) -> int:
        """How many of its processes have not ended with it."""
        # In an hour another process may have come to the number of one that has ended.
        return sum(_began(pid) == began for pid, began in self.seen)

    def _look(self) -> None:
        while self.process.poll() is None:
            pids = [self.process.pid, *_children(self.process.pid)]
            self.seen.update((pid, began) for pid in pids if (began := _began(pid)))
            if self._has_begun:
                self.held.append(_held(pids))
            time.sleep(LOOK_SECONDS)

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.append(line.rstrip())
            if " updates/s " in line:
                self._has_begun = True
                self._trains.set()
        self._trains.set()


def measure(options: argparse.Namespace, seed: int, period: float, flags: list[str]) -> dict:
    """One training, with a fault every `period` seconds; 0: with none."""
    with contextlib.ExitStack() as stack:
        temporary = options.keep or stack.enter_context(tempfile.TemporaryDirectory())
        run = Run(
            pathlib.Path(temporary) / f"seed-{seed}-every-{period:g}",
            [
                *(f"--flagfile={PRESET}", f"--seed={seed}", "--target_return=inf"),
                *("--total_env_steps=1000000000", "--epsilon_decay_steps=20000"),
                *(f"--num_workers={options.workers}", f"--num_ps={options.servers}"),
                *(["--restart"] if options.restart else []),
                *flags,
            ],
        )
        run.wait_until_it_trains()
        began = time.monotonic()
        faults = _do_harm(run, options, seed, period, began + options.seconds)
        seconds = time.monotonic() - began
        tenth = max(len(run.held) // 10, 1)
        early, late = (
            _medians(run.held[part]) for part in (slice(tenth, 2 * tenth), slice(-tenth, None))
        )
        if faults:
            run.wait_until_it_trains()  # a coordinator that stands still would write no summary
        code = run.end()
        summary = json.loads((run.folder / "summary.json").read_text())
    row = dict.fromkeys(COLUMNS, "") | {name: summary[name] for name in FIGURES}
    row |= {"seed": seed, "workers": options.workers, "servers": options.servers}
    row |= {"period": period, "faults": faults, "exit_code": code, "seconds": round(seconds, 1)}
    row |= {f"{name}_early": value for name, value in early._asdict().items()}
    row |= {f"{name}_late": value for name, value in late._asdict().items()}
    row["processes_left"] = run.left()
    row["updates_per_second"] = round(summary["updates"] / seconds, 1)
    failures = summary["task_failures"]
    if times := sum(each["failures"] for each in failures):
        detection = sum(each["detection_seconds"] for each in failures)
        row["detection_seconds"] = round(detection / times, 2)
    if times := sum(each["recoveries"] for each in failures):
        recovery = sum(each["recovery_seconds"] for each in failures)
        row["task_recovery_seconds"] = round(recovery / times, 2)
    return row


def _medians(held: list[Held]) -> Held:
    return Held(*(round(statistics.median(each)) for each in zip(*held, strict=True)))


def _do_harm(run: Run, options: argparse.Namespace, seed: int, period: float, until: float) -> int:
    """Kills or stops tasks until then (`time.monotonic()`); how many."""
    rng, faults = random.Random(seed), 0
    kinds = options.kinds.split(",")
    while (now := time.monotonic()) < until:
        time.sleep(min(period or until - now, until - now))
        if run.process.poll() is not None:
            raise RuntimeError("it has ended:\n" + "\n".join(run.lines[-60:]))
        if not period or time.monotonic() >= until:
            continue
        name, pid = rng.choice(sorted(run.tasks().items()))
        kind = rng.choice(kinds)
        print(f"{time.monotonic() - until + options.seconds:6.1f} s: {kind} {name}", flush=True)
        os.kill(pid, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
        faults += 1
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0, help="of training, each")
    parser.add_argument("--period", type=float, default=10.0, help="from fault to fault (seconds)")
    parser.add_argument("--kinds", default="kill", help="of faults, by commas: kill, stop")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--restart", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument(
        "--left_alone",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="train as long without a fault as well",
    )
    parser.add_argument("--keep", help="folder where run directories stay")
    parser.add_argument("--first_seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("faults.csv"))
    options, flags = parser.parse_known_args()
    csv_rows.read(options.results, COLUMNS)  # refuses what cannot be added to before it measures
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for period in [0.0] * options.left_alone + [options.period]:
            row = measure(options, seed, period, flags)
            csv_rows.append(options.results, [row])
            print(row, flush=True)


if __name__ == "__main__":
    main()
