"""Whether more workers give a result sooner: env steps and seconds to solved, and where time goes.

    python benchmarks/scaling.py --results=docs/scaling.csv --plot=docs/scaling.png
    python benchmarks/scaling.py --step_seconds=0.04 --results=docs/scaling-slow.csv

Trains a preset to its target return once for each way, number of workers and parameter servers and
seed, seeds outermost, and adds a row to the results after each run; what is there already is not
run again, so it can be stopped at any time. A run that is not solved within `--total_env_steps`
counts as infinitely long. With `--step_seconds` each step of each environment takes that much more,
in which the processor is free (`slow_cartpole`): so what limits is the environments, also where
many workers share few cores; evaluations do without.
"""

import argparse
import concurrent.futures
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
from typing import NamedTuple

from csv_rows import append, read

from ps_dqn.telemetry.metrics import PHASES

FOLDER = pathlib.Path(__file__).parent
PRESETS = FOLDER.parent / "flags" / "presets"
FIGURES = (
    "training_seconds",
    "env_steps",
    "updates",
    "sequential_updates",
    "version",
    "env_steps_per_second",
    "updates_per_second",
)
KEY = ("preset", "way", "step_seconds", "workers", "servers", "seed")
COLUMNS = (*KEY, "reason", *FIGURES, *PHASES, "elsewhere")
# What each way changes about the rule of `config.scaling`, for N workers, in CartPole's numbers.
WAYS = {
    "rule": lambda n: [],
    "each worker the replay of one": lambda n: [
        f"--replay_capacity={50_000 * n}",
        f"--min_replay_size={1000 * n}",
    ],
    "each worker the environments of one": lambda n: ["--num_envs_per_worker=64"],
    "updates for its own env steps": lambda n: [f"--update_period={8 * n}"],
    "clocks of all updates": lambda n: [
        f"--target_update_period={max(128 // n, 1)}",
        f"--average_decay={1 - 0.0005 * n}",
    ],
    "Nesterov 0.5": lambda n: ["--outer_momentum=0.5"],
    "each push counts 1/√N": lambda n: [
        f"--outer_learning_rate={n**-0.5:.6g}",
        "--outer_momentum=0",
    ],
    "32 local updates": lambda n: ["--local_updates=32", "--pushes_per_closure=8"],
    "16 local updates": lambda n: ["--local_updates=16", "--pushes_per_closure=16"],
    "rounds": lambda n: ["--aggregation=sync"],
}
_writing = threading.Lock()


class Case(NamedTuple):
    """One run, by the columns of `KEY`."""

    preset: str
    way: str
    step_seconds: float
    workers: int
    servers: int
    seed: int

    @property
    def flags(self) -> list[str]:
        """The command line that makes it."""
        slow = [
            "--env_module=slow_cartpole",
            "--env_id=SlowCartPole-v1",
            f'--env_kwargs={{"step_seconds": {self.step_seconds}}}',
            '--eval_env_kwargs={"step_seconds": 0}',
        ]
        return [
            f"--flagfile={PRESETS / self.preset}.flags",
            f"--seed={self.seed}",
            f"--num_workers={self.workers}",
            f"--num_ps={self.servers}",
            *(slow if self.step_seconds else []),
            *WAYS[self.way](self.workers),
        ]


def run(case: Case, flags: list[str]) -> dict:
    """One training: a row of the results."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "ps_dqn.coordinator", *case.flags, *flags),
            f"--run_dir={folder}/run",
        ]
        path = os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"PYTHONPATH": path}
        subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        summary = json.loads((pathlib.Path(folder) / "run" / "summary.json").read_text())
    row = case._asdict() | {"reason": summary["reason"]}
    row |= {name: round(summary[name], 2) for name in FIGURES}
    # Shares of the workers' time: what is in no phase is before a worker's first closure and after
    # its last.
    whole = summary["training_seconds"] * case.workers
    shares = {name: summary["worker_seconds"][name] / whole for name in PHASES}
    shares["elsewhere"] = 1 - sum(shares.values())
    return row | {name: round(share, 4) for name, share in shares.items()}


def keep(row: dict, path: pathlib.Path) -> None:
    with _writing:
        append(path, [{name: row[name] for name in COLUMNS}])
    print({name: row[name] for name in (*KEY, "reason", *FIGURES[:4])}, flush=True)


def measure(options: argparse.Namespace, flags: list[str]) -> None:
    """Runs what the results lack."""
    done = {tuple(row[name] for name in KEY) for row in read(options.results, COLUMNS)}
    cases = [
        Case(options.preset, way, options.step_seconds, int(workers), int(servers), seed)
        for seed, way, workers, servers in itertools.product(
            range(options.first_seed, options.first_seed + options.seeds),
            options.ways.split(","),
            options.workers.split(","),
            options.servers.split(","),
        )
    ]
    missing = [case for case in cases if tuple(map(str, case)) not in done]
    limit = f"--total_env_steps={options.total_env_steps}"
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(run, case, [limit, *flags]): case for case in missing}
        for each in concurrent.futures.as_completed(running):
            try:
                keep(each.result(), options.results)
            except subprocess.CalledProcessError as error:  # the others go on
                said = (error.output + error.stderr).strip().splitlines()[-3:]
                print(f"{running[each]} ended with {error.returncode}: {said}", flush=True)


class Point(NamedTuple):
    """The runs of one way, delay and number of workers and servers."""

    solved: int
    runs: int
    env_steps: list[float]  # until solved, sorted; infinite where not
    seconds: list[float]
    rows: list[dict[str, str]]

    def median(self, column: str) -> float:
        return statistics.median(float(row[column]) for row in self.rows)


def points(rows: list[dict[str, str]]) -> dict[tuple[str, ...], Point]:
    """By preset, way, delay, workers and servers."""
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in KEY[:-1]), []).append(row)
    found = {}
    for key, group in groups.items():
        solved = [row["reason"] == "solved" for row in group]
        steps, seconds = (
            sorted(
                float(row[column]) if is_solved else math.inf
                for row, is_solved in zip(group, solved, strict=True)
            )
            for column in ("env_steps", "training_seconds")
        )
        found[key] = Point(sum(solved), len(group), steps, seconds, group)
    return found


def report(found: dict[tuple[str, ...], Point]) -> None:
    """Prints a table; speed-up and efficiency are against one worker of the same kind."""
    print(
        "| | way | delay (s) | workers | servers | solved | env steps, median (range) | sequential "
        "updates | seconds | times as soon | env steps/s | of N times one | environment | learning "
        "| pull, push | waiting | dispatch | evaluation | elsewhere |\n" + "|---" * 19 + "|"
    )
    for key in sorted(found, key=lambda key: (*key[:3], int(key[3]), int(key[4]))):
        point, one = found[key], found.get((*key[:3], "1", key[4]))
        steps, seconds = point.env_steps, statistics.median(point.seconds)
        rate = point.median("env_steps_per_second")
        sooner = statistics.median(one.seconds) / seconds if one else math.nan
        whole = rate / (int(key[3]) * one.median("env_steps_per_second")) if one else math.nan
        learning = point.median("gradient") + point.median("sampling") + point.median("acting")
        print(
            f"| {' | '.join(key)} | {point.solved} of {point.runs} | "
            f"{statistics.median(steps):,.0f} ({steps[0]:,.0f} to {steps[-1]:,.0f}) | "
            f"{point.median('sequential_updates'):,.0f} | {seconds:,.1f} | {sooner:.1f} | "
            f"{rate:,.0f} | {whole:.2f} | {point.median('environment'):.0%} | {learning:.0%} | "
            f"{point.median('pull') + point.median('push'):.0%} | "
            f"{point.median('waiting'):.0%} | {point.median('dispatch'):.0%} | "
            f"{point.median('evaluation'):.0%} | {point.median('elsewhere'):.0%} |"
        )


def plot(found: dict[tuple[str, ...], Point], path: pathlib.Path) -> None:
    """Env steps and seconds until solved by workers, a dot for each run, a line of medians."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    columns = (("env_steps", "env steps until solved"), ("seconds", "seconds until solved"))
    lines: dict[tuple[str, ...], list[tuple[int, Point]]] = {}
    for key, point in found.items():
        lines.setdefault((*key[:3], key[4]), []).append((int(key[3]), point))
    for i, (line, line_points) in enumerate(lines.items()):
        line_points.sort(key=lambda each: each[0])
        for panel, (column, label) in zip(panels, columns, strict=True):
            for workers, point in line_points:
                values = [each for each in getattr(point, column) if math.isfinite(each)]
                panel.plot([workers] * len(values), values, "o", color=f"C{i}", alpha=0.4)
            medians = [statistics.median(getattr(point, column)) for _, point in line_points]
            panel.plot(
                [workers for workers, _ in line_points], medians, color=f"C{i}",
                label=f"{line[0]}, {line[1]}"
                + (f", {float(line[2]):g} s a step" if float(line[2]) else ""),
            )  # fmt: skip
            panel.set_xscale("log", base=2)
            panel.xaxis.set_major_formatter("{x:,.0f}")
            panel.set_xlabel("workers")
            panel.set_ylabel(label)
            panel.grid(alpha=0.3)
    panels[0].set_ylim(bottom=0)
    panels[1].set_yscale("log")
    for panel in panels:
        panel.yaxis.set_major_formatter("{x:,.0f}")
    panels[1].legend(title="preset, way; a dot is a run, the line their medians")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="cartpole")
    parser.add_argument("--ways", default="rule", help=f"of {', '.join(WAYS)}, by commas")
    parser.add_argument("--workers", default="1,2,4,8,16", help="numbers of workers")
    parser.add_argument("--servers", default="1", help="numbers of parameter servers")
    parser.add_argument("--step_seconds", type=float, default=0.0, help="of each environment")
    parser.add_argument("--first_seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=5, help="runs, of so many seeds")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("--total_env_steps", type=int, default=300_000)
    parser.add_argument("--results", type=pathlib.Path, default="scaling.csv")
    parser.add_argument("--json", type=pathlib.Path, help="the rows again, as JSON")
    parser.add_argument("--plot", type=pathlib.Path, help="a picture to draw")
    options, flags = parser.parse_known_args()
    measure(options, flags)
    rows = read(options.results, COLUMNS)
    report(points(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    if options.plot:
        plot(points(rows), options.plot)


if __name__ == "__main__":
    main()
