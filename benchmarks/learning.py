"""Learning curves of several algorithms on several games, over seeds.

    python benchmarks/learning.py --output=docs/minatar.csv --picture=docs/minatar.png

Every run is `python -m ps_dqn.coordinator` with an algorithm's preset and MinAtar's. Runs
that the output has already are not made again, so it may be stopped and started at any time.
"""

import argparse
import csv
import pathlib
import statistics
import subprocess
import sys
import tempfile

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

COLUMNS = ("game", "algorithm", "seed", "env_steps", "seconds", "eval_return", "train_return")
# Evaluations, at the end, whose mean is a run's score.
LAST = 3


def run(game: str, algorithm: str, seed: int, flags: list[str]) -> list[dict[str, object]]:
    """One run: a row for each evaluation."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "ps_dqn.coordinator"),
            f"--preset={algorithm},minatar",
            f"--env_id={game}",
            f"--seed={seed}",
            f"--run_dir={folder}/run",
            *flags,
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with pathlib.Path(folder, "run", "metrics.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
    found, training = [], ""
    for row in rows:
        training = row["train/episode_return"] or training
        if row["eval/episode_return"]:
            values = [game, algorithm, seed, row["env_steps"], row["seconds"]]
            values += [row["eval/episode_return"], training]
            found.append(dict(zip(COLUMNS, values, strict=True)))
    return found


def read(path: pathlib.Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(path: pathlib.Path, rows: list[dict[str, object]]) -> None:
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(rows)


def curves(rows: list[dict[str, str]], game: str, algorithm: str) -> list[list[dict[str, str]]]:
    """The rows of each seed."""
    mine = [row for row in rows if row["game"] == game and row["algorithm"] == algorithm]
    seeds = sorted({row["seed"] for row in mine})
    return [[row for row in mine if row["seed"] == seed] for seed in seeds]


def show(rows: list[dict[str, str]], games: list[str], algorithms: list[str]) -> None:
    """A table: the mean of each run's last evaluations, over seeds."""
    print("| game | algorithm | median | lowest | highest | training episodes | seconds |")
    print("|---|---|---|---|---|---|---|")
    for game in games:
        for algorithm in algorithms:
            found = curves(rows, game, algorithm)
            if not found:
                continue
            scores = [
                statistics.mean(float(row["eval_return"]) for row in curve[-LAST:])
                for curve in found
            ]
            training = statistics.median(float(curve[-1]["train_return"]) for curve in found)
            seconds = statistics.median(float(curve[-1]["seconds"]) for curve in found)
            print(
                f"| {game} | {algorithm} | {statistics.median(scores):.1f} | {min(scores):.1f} | "
                f"{max(scores):.1f} | {training:.1f} | {seconds:,.0f} |"
            )


def draw(
    rows: list[dict[str, str]], games: list[str], algorithms: list[str], path: pathlib.Path
) -> None:
    """The median curve of each algorithm, and the range over seeds."""
    figure, axes = plt.subplots(1, len(games), figsize=(5 * len(games), 3.6), squeeze=False)
    for axis, game in zip(axes[0], games, strict=True):
        for algorithm in algorithms:
            found = curves(rows, game, algorithm)
            if not found:
                continue
            steps = [np.array([float(row["env_steps"]) for row in curve]) for curve in found]
            grid = np.linspace(max(s[0] for s in steps), min(s[-1] for s in steps), 50)
            values = [
                np.interp(grid, s, [float(row["eval_return"]) for row in curve])
                for s, curve in zip(steps, found, strict=True)
            ]
            axis.plot(grid, np.median(values, axis=0), label=algorithm)
            axis.fill_between(grid, np.min(values, axis=0), np.max(values, axis=0), alpha=0.2)
        axis.set_title(game)
        axis.set_xlabel("environment steps")
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("greedy return, median and range over seeds")
    axes[0, 0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", default="MinAtar/Breakout-v0,MinAtar/SpaceInvaders-v0")
    parser.add_argument("--algorithms", default="dqn,rainbow,munchausen_iqn")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first_seed", type=int, default=0)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("minatar.csv"))
    parser.add_argument("--picture", type=pathlib.Path)
    options, flags = parser.parse_known_args()
    games, algorithms = options.games.split(","), options.algorithms.split(",")
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for game in games:
            for algorithm in algorithms:
                wanted = (game, algorithm, str(seed))
                rows = read(options.output)
                if wanted in {(row["game"], row["algorithm"], row["seed"]) for row in rows}:
                    continue
                append(options.output, run(game, algorithm, seed, flags))
                print(f"{game} {algorithm} seed {seed} done", file=sys.stderr, flush=True)
    rows = read(options.output)
    show(rows, games, algorithms)
    if options.picture:
        draw(rows, games, algorithms, options.picture)


if __name__ == "__main__":
    main()
