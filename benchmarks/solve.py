"""How long a preset takes to be solved, over seeds, and what its best network is worth.

    python benchmarks/solve.py cartpole --seeds=10
    python benchmarks/solve.py rainbow,lunarlander --seeds=10

Each seed is one run of `python -m ps_dqn.coordinator` as a person would start it. Solved means
three greedy evaluations in a row, of 20 episodes each, at or above the preset's target return. The
best checkpoint is then played over 100 other episodes by `python -m ps_dqn.evaluator`.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

FIGURES = {
    "training_seconds": "training (s)",
    "total_seconds": "command to table (s)",
    "env_steps": "env steps",
    "updates": "updates",
    "updates_per_second": "updates/s",
    "env_steps_per_second": "env steps/s",
    "best_of_100": "best checkpoint, mean of 100 episodes",
}


def solve(preset: str, seed: int, folder: pathlib.Path, flags: list[str]) -> dict:
    """One run: its summary and the value of its best checkpoint."""
    run_dir = folder / f"{preset}-{seed}"
    if run_dir.exists():
        sys.exit(f"{run_dir} is there already: a run in it would be resumed, not started")
    command = [
        *(sys.executable, "-m", "ps_dqn.coordinator"),
        f"--preset={preset}",
        f"--seed={seed}",
        f"--run_dir={run_dir}",
        *flags,
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    summary = json.loads((run_dir / "summary.json").read_text())
    command = [sys.executable, "-m", "ps_dqn.evaluator", f"--run_dir={run_dir}", "--episodes=100"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    match = re.search(r"mean return (-?[\d.]+)", output)
    assert match, output
    return summary | {"best_of_100": float(match[1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("preset", help="or several, comma separated")
    parser.add_argument("--seeds", type=int, default=10, help="runs, each of another seed")
    parser.add_argument("--first_seed", type=int, default=0, help="the others follow it")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the run directories here")
    options, flags = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        results = []
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            result = solve(options.preset, seed, folder, flags)
            results.append(result)
            print(
                f"seed {seed}: {result['reason']} after {result['training_seconds']:.1f} s of "
                f"training, {result['total_seconds']:.1f} s in all, {result['env_steps']:,} env "
                f"steps, {result['updates']:,} updates; best of 100 {result['best_of_100']:.1f}",
                flush=True,
            )
    solved = sum(result["reason"] == "solved" for result in results)
    print(f"\n{options.preset}: solved in {solved} of {len(results)} seeds")
    print("| | median | lowest | highest |\n|---|---|---|---|")
    for figure, label in FIGURES.items():
        values = [result[figure] for result in results]
        shown = (statistics.median(values), min(values), max(values))
        print(f"| {label} | " + " | ".join(f"{value:,.1f}" for value in shown) + " |")


if __name__ == "__main__":
    main()
