"""Which way of aggregating pushes learns fastest, for 1, 2, 4 and 8 workers.

    python benchmarks/aggregation.py --results=docs/aggregation.csv --plot=docs/aggregation.png

Trains a preset to its target return once for each way, number of workers and seed, seeds
outermost, and adds a row to the results after each run; what is there already is not run again, so
it can be stopped at any time. A run that is not solved within `--total_env_steps` counts as
infinitely long.
"""

import argparse
import csv
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

PRESETS = pathlib.Path(__file__).parent.parent / "flags" / "presets"
# With more, a run takes long on a small machine, and only the main ways are compared.
MOST_WORKERS_FOR_ALL = 4
COLUMNS = ("way", "workers", "seed", "reason", "seconds", "env_steps", "updates", "version")


def ways(workers: int) -> dict[str, list[str]]:
    """The flags of each way, named by what a push counts, for this many workers N.

    Nesterov momentum of 0.5 doubles a lasting change, so its step is half as long.
    """

    def outer(rate: float) -> str:
        return f"--outer_learning_rate={rate:.6g}"

    def nesterov(step: float) -> list[str]:
        return [outer(0.5 * step), "--outer_momentum=0.5"]

    plain, root = "--outer_momentum=0", workers**-0.5
    found = {"Nesterov, 1/√N": nesterov(root)}
    if workers == 1:
        return found | {"1": [outer(1), plain]}
    found |= {"1/N": [outer(1 / workers), plain]}
    if workers > MOST_WORKERS_FOR_ALL:
        few = "--local_updates=16"
        return found | {
            "16 local updates, Nesterov, 1/√N": [few, *nesterov(root)],
            "16 local updates, Nesterov, 1/N": [few, *nesterov(1 / workers)],
        }
    age = [f"--staleness_decay={0.25 / workers:.6g}", f"--staleness_cutoff={4 * workers}"]
    sync = ["--aggregation=sync", plain]
    return found | {
        "1": [outer(1), plain],
        "1/√N": [outer(root), plain],
        "1, less with age": [outer(1), plain, *age],
        "sync, 1": [*sync, outer(1)],
        "sync, √N": [*sync, outer(1 / root)],
        "sync, 1, a backup worker": [*sync, outer(1), "--backup_workers=1"],
    }


def run(preset: str, flags: list[str], workers: int, seed: int) -> dict:
    """One training: its summary."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "ps_dqn.coordinator"),
            f"--flagfile={PRESETS / preset}.flags",
            f"--seed={seed}",
            f"--num_workers={workers}",
            f"--run_dir={folder}/run",
            *flags,
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads((pathlib.Path(folder) / "run" / "summary.json").read_text())


def read(path: pathlib.Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def measure(options: argparse.Namespace, extra: list[str]) -> None:
    """Runs what the results lack."""
    for seed in range(options.seeds):
        for workers in map(int, options.workers.split(",")):
            for way, flags in ways(workers).items():
                done = {(row["way"], row["workers"], row["seed"]) for row in read(options.results)}
                if (way, str(workers), str(seed)) in done:
                    continue
                limit = f"--total_env_steps={options.total_env_steps}"
                summary = run(options.preset, [limit, *flags, *extra], workers, seed)
                row = {"way": way, "workers": workers, "seed": seed, "reason": summary["reason"]}
                row |= {"seconds": f"{summary['training_seconds']:.1f}"}
                row |= {name: summary[name] for name in ("env_steps", "updates", "version")}
                is_new = not options.results.exists()
                with options.results.open("a", newline="") as file:
                    writer = csv.DictWriter(file, COLUMNS)
                    if is_new:
                        writer.writeheader()
                    writer.writerow(row)
                print(row, flush=True)


def report(rows: list[dict[str, str]]) -> dict[tuple[str, str], list[float]]:
    """Prints a table; the seconds of each way and number of workers, infinite if not solved."""
    seconds: dict[tuple[str, str], list[float]] = {}
    steps: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        key = (row["workers"], row["way"])
        is_solved = row["reason"] == "solved"
        seconds.setdefault(key, []).append(float(row["seconds"]) if is_solved else math.inf)
        steps.setdefault(key, []).append(int(row["env_steps"]) if is_solved else math.inf)
    print("| workers | way | solved | seconds, median (range) | env steps, median |")
    print("|---|---|---|---|---|")
    for key in sorted(seconds, key=lambda key: (int(key[0]), statistics.median(seconds[key]))):
        found = seconds[key]
        solved = sum(map(math.isfinite, found))
        numbers = [f"{each:.1f}" if math.isfinite(each) else "–" for each in
                   (statistics.median(found), min(found), max(found))]  # fmt: skip
        middle = statistics.median(steps[key])
        shown = f"{middle:,.0f}" if math.isfinite(middle) else "–"
        print(
            f"| {key[0]} | {key[1]} | {solved} of {len(found)} | "
            f"{numbers[0]} ({numbers[1]} to {numbers[2]}) | {shown} |"
        )
    return seconds


def plot(seconds: dict[tuple[str, str], list[float]], limit: float, path: pathlib.Path) -> None:
    """A dot for each run that was solved, a cross for one that was not, a line at the median."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    counts = sorted({int(workers) for workers, _ in seconds})
    names = list(dict.fromkeys(way for _, way in seconds))
    figure, panels = plt.subplots(
        1, len(counts), figsize=(12, 4), sharey=True, sharex=True, layout="constrained"
    )
    for panel, workers in zip(panels, counts, strict=True):
        for i, way in enumerate(names):
            found = seconds.get((str(workers), way), [])
            color = f"C{i}"
            solved = [each for each in found if math.isfinite(each)]
            lost = [i - 0.2 + 0.1 * place for place in range(len(found) - len(solved))]
            panel.plot(solved, [i] * len(solved), "o", color=color, alpha=0.5, markersize=5)
            panel.plot([limit] * len(lost), lost, "x", color=color, markersize=5)
            if found and math.isfinite(middle := statistics.median(found)):
                panel.plot([middle] * 2, [i - 0.35, i + 0.35], color=color)
        panel.set_title(f"{workers} worker{'s' if workers > 1 else ''}")
        panel.set_xlabel("seconds until solved (× never)")
        panel.grid(alpha=0.3)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="cartpole")
    parser.add_argument("--seeds", type=int, default=5, help="runs, of seeds 0, 1, 2, …")
    parser.add_argument("--workers", default="1,2,4,8")
    parser.add_argument("--total_env_steps", type=int, default=300_000)
    parser.add_argument("--results", type=pathlib.Path, default="aggregation.csv")
    parser.add_argument("--plot", type=pathlib.Path, help="a picture to draw")
    options, extra = parser.parse_known_args()
    measure(options, extra)
    rows = read(options.results)
    seconds = report(rows)
    if options.plot:
        plot(seconds, max(float(row["seconds"]) for row in rows), options.plot)


if __name__ == "__main__":
    main()
