"""How long a preset takes to be solved, over seeds, and what its best network is worth.

    python benchmarks/solve.py cartpole --seeds=10
    python benchmarks/solve.py rainbow,lunarlander --seeds=10 --output=solved.csv
    python benchmarks/solve.py cartpole --target=475 --target_return=inf --total_env_steps=200000

Each seed is one run of `python -m ps_dqn.coordinator` as a person would start it. Solved means
three greedy evaluations in a row, of 20 episodes each, at or above the preset's target return. The
best checkpoint is then played over 100 other episodes by `python -m ps_dqn.evaluator`. Before each
run a process imports TensorFlow and does nothing else, which is what a machine takes at that moment
for what no run can do without.

A run that does not end when it is solved (`--target_return=inf`) is judged by `--target`: after how
many env steps it was, and how many of its evaluations from there to twice as far were below that.
With `--output` each run is a row of that file; runs that it has are not made again.
"""

import argparse
import json
import math
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

from csv_rows import append, read

from ps_dqn.api.run import Run

FIGURES = {
    "solved_env_steps": "env steps until solved",
    "training_seconds": "training (s)",
    "total_seconds": "command to table (s)",
    "imports": "command to table / import of TensorFlow",
    "env_steps": "env steps",
    "updates": "updates",
    "updates_per_second": "updates/s",
    "env_steps_per_second": "env steps/s",
    "best_of_100": "best checkpoint, mean of 100 episodes",
    "later": "evaluations from solved to twice as far",
    "later_below": "of them below the target",
}
COLUMNS = ("preset", "flags", "seed", "reason", *FIGURES)
IN_A_ROW = 3  # evaluations


def judged(evaluations: list[tuple[float, float]], target: float) -> dict[str, float]:
    """When a run was solved, and whether it stayed so.

    Args:
        evaluations: env steps and mean return of each.
        target: the return that solves it.
    """
    for i in range(IN_A_ROW, len(evaluations) + 1):
        if all(value >= target for _, value in evaluations[i - IN_A_ROW : i]):
            solved = evaluations[i - 1][0]
            later = [value for at, value in evaluations[i:] if at <= 2 * solved]
            below = sum(value < target for value in later)
            return {"solved_env_steps": solved, "later": len(later), "later_below": below}
    return {}


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def solve(preset: str, seed: int, folder: pathlib.Path, flags: list[str], target: float) -> dict:
    """One run: a row."""
    run_dir = folder / f"{preset}-{seed}"
    if run_dir.exists():
        sys.exit(f"{run_dir} is there already: a run in it would be resumed, not started")
    imported = seconds([sys.executable, "-c", "import tensorflow"])
    command = [
        *(sys.executable, "-m", "ps_dqn.coordinator"),
        f"--preset={preset}",
        f"--seed={seed}",
        f"--run_dir={run_dir}",
        *flags,
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found = json.loads((run_dir / "summary.json").read_text())
    found |= {"preset": preset, "flags": shlex.join(flags), "seed": seed}
    found["imports"] = found["total_seconds"] / imported
    if found["reason"] == "solved":
        found["solved_env_steps"] = found["env_steps"]
    elif not math.isnan(target):
        found |= judged(list(zip(*Run(run_dir).curve("eval/episode_return"), strict=True)), target)
    command = [sys.executable, "-m", "ps_dqn.evaluator", f"--run_dir={run_dir}", "--episodes=100"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    match = re.search(r"mean return (-?[\d.,]+)", output)
    assert match, output
    found["best_of_100"] = float(match[1].replace(",", ""))
    return {name: str(found.get(name, "")) for name in COLUMNS}


def show(preset: str, rows: list[dict[str, str]]) -> None:
    solved = sum(bool(row["solved_env_steps"]) for row in rows)
    print(f"\n{preset}: solved in {solved} of {len(rows)} seeds")
    print("| | median | lowest | highest |\n|---|---|---|---|")
    for figure, label in FIGURES.items():
        values = [float(row[figure]) for row in rows if row[figure]]
        if values:
            shown = (statistics.median(values), min(values), max(values))
            print(f"| {label} | " + " | ".join(f"{value:,.1f}" for value in shown) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("preset", help="or several, comma separated")
    parser.add_argument("--seeds", type=int, default=10, help="runs, each of another seed")
    parser.add_argument("--first_seed", type=int, default=0, help="the others follow it")
    parser.add_argument("--target", type=float, default=math.nan, help="of runs that go on")
    parser.add_argument("--output", type=pathlib.Path, help="a CSV file, one row for each run")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the run directories here")
    options, flags = parser.parse_known_args()
    there = read(options.output, COLUMNS)
    known = {(row["preset"], row["flags"], row["seed"]): row for row in there}
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            row = known.get((options.preset, shlex.join(flags), str(seed)))
            if row is None:
                folder = options.keep or pathlib.Path(temporary)
                row = solve(options.preset, seed, folder, flags, options.target)
                if options.output:
                    append(options.output, [row])
            rows.append(row)
            print(
                f"seed {seed}: {row['reason']} after {float(row['training_seconds']):.1f} s of "
                f"training, {float(row['total_seconds']):.1f} s in all, {int(row['env_steps']):,} "
                f"env steps, {int(row['updates']):,} updates; best of 100 {row['best_of_100']}",
                flush=True,
            )
    show(options.preset, rows)


if __name__ == "__main__":
    main()
