"""Learning curves of several algorithms on several games, over seeds.

    python benchmarks/learning.py --output=docs/minatar.csv --picture=docs/minatar.png

Every run is `python -m ps_dqn.coordinator` with an algorithm's preset and MinAtar's. Runs
that the output has already are not made again, so it may be stopped and started at any time.
Scores are interquartile means over the runs with bootstrap intervals, as of Agarwal et al. 2021
(arXiv:2108.13264), where several games are one with the same weight each.
"""

import argparse
import csv
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from csv_rows import append, read
from matplotlib.ticker import MaxNLocator

from ps_dqn.plot import interquartile

COLUMNS = ("game", "algorithm", "seed", "env_steps", "seconds", "eval_return", "train_return")
# Evaluations, at the end, whose mean is a run's score.
LAST = 3


def run(presets: str, flags: list[str]) -> list[dict[str, str]]:
    """One run: the rows of its metrics in which something was evaluated.

    The workers' own episodes are the last that a row before it told of.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "ps_dqn.coordinator"),
            f"--preset={presets}",
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
            found.append(row | {"train/episode_return": training})
    return found


def of_game(game: str, algorithm: str, seed: int, row: dict[str, str]) -> dict[str, str]:
    measured = (row["env_steps"], row["seconds"])
    returns = (row["eval/episode_return"], row["train/episode_return"])
    return dict(zip(COLUMNS, (game, algorithm, str(seed), *measured, *returns), strict=True))


def curves(rows: list[dict[str, str]], game: str, algorithm: str) -> list[list[dict[str, str]]]:
    """The rows of each seed."""
    mine = [row for row in rows if row["game"] == game and row["algorithm"] == algorithm]
    seeds = sorted({row["seed"] for row in mine})
    return [[row for row in mine if row["seed"] == seed] for seed in seeds]


def score(curve: list[dict[str, str]]) -> float:
    """What a run had learned at its end."""
    return statistics.mean(float(row["eval_return"]) for row in curve[-LAST:])


def show(rows: list[dict[str, str]], games: list[str], algorithms: list[str]) -> None:
    """Tables: each game's scores, and where all were played by all, those of all games."""
    level = f"{interquartile.LEVEL:.0%}"
    print(f"| game | algorithm | seeds | score [{level}] | lowest | highest | training | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    scores: dict[tuple[str, str], np.ndarray] = {}
    for game in games:
        for algorithm in algorithms:
            found = curves(rows, game, algorithm)
            if not found:
                continue
            mine = scores[game, algorithm] = np.array([score(curve) for curve in found])
            low, high = interquartile.interval(mine[:, np.newaxis])
            known = "" if math.isnan(low[0]) else f" [{low[0]:.1f}, {high[0]:.1f}]"
            training = statistics.median(
                float(curve[-1]["train_return"] or "nan") for curve in found
            )
            seconds = statistics.median(float(curve[-1]["seconds"]) for curve in found)
            print(
                f"| {game} | {algorithm} | {len(mine)} | {interquartile.mean(mine):.1f}{known} | "
                f"{mine.min():.1f} | {mine.max():.1f} | {training:.1f} | {seconds:,.0f} |"
            )
    if len(games) > 1 and len(scores) == len(games) * len(algorithms):
        show_all(scores, games, algorithms)


def show_all(
    scores: dict[tuple[str, str], np.ndarray], games: list[str], algorithms: list[str]
) -> None:
    """Scores as multiples of the first algorithm's mean, over all games where that is above 0."""
    units = {game: scores[game, algorithms[0]].mean() for game in games}
    for game in games:
        if units[game] <= 0:
            print(
                f"\n{game} is not in the table of all games: {algorithms[0]}'s mean score there, "
                f"{units[game]:g}, is no unit"
            )
            del units[game]
    if not units:
        return
    counted = f"{len(units)} game" + ("" if len(units) == 1 else "s")
    print(f"\n| {counted} | in units of {algorithms[0]}'s [{interquartile.LEVEL:.0%}] |")
    print("|---|---|")
    for algorithm in algorithms:
        strata = [scores[game, algorithm] / unit for game, unit in units.items()]
        mean, low, high = interquartile.over_strata(strata)
        print(f"| {algorithm} | {mean:.2f} [{low:.2f}, {high:.2f}] |")


def draw(
    rows: list[dict[str, str]], games: list[str], algorithms: list[str], path: pathlib.Path
) -> None:
    """The median curve of each algorithm, and the range over seeds."""
    wide = min(len(games), 3)
    tall = math.ceil(len(games) / wide)
    figure, axes = plt.subplots(tall, wide, figsize=(5 * wide, 3.6 * tall), squeeze=False)
    for axis in axes.flat[len(games) :]:
        axis.remove()
    for axis, game in zip(axes.flat, games, strict=False):
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
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.xaxis.set_major_formatter("{x:,.0f}")
        axis.grid(alpha=0.3)
    for axis in axes[:, 0]:
        axis.set_ylabel("greedy return, median and range")
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
                rows = read(options.output, COLUMNS)
                if wanted in {(row["game"], row["algorithm"], row["seed"]) for row in rows}:
                    continue
                found = run(f"{algorithm},minatar", [f"--env_id={game}", f"--seed={seed}", *flags])
                append(options.output, [of_game(game, algorithm, seed, row) for row in found])
                print(f"{game} {algorithm} seed {seed} done", file=sys.stderr, flush=True)
    rows = read(options.output, COLUMNS)
    show(rows, games, algorithms)
    if options.picture:
        draw(rows, games, algorithms, options.picture)


if __name__ == "__main__":
    main()
