"""What each part of Rainbow is worth: all of it, and all of it but one.

    python benchmarks/ablation.py --first_seed=800 --output=docs/ablation.csv

Two tasks: CartPole, where it counts how soon it is solved, and one MinAtar game, where it counts
what was learned by the end. Seeds are outermost and runs that the output has are not made again, so
it may be stopped and started at any time. Presets were tuned on some of seeds 0 to 4.
"""

import argparse
import pathlib
import sys
from typing import NamedTuple

import numpy as np
from csv_rows import append, read
from learning import LAST, run

from ps_dqn.plot import interquartile

WITHOUT = {
    "nothing": (),
    "Double": ("--nodouble_dqn",),
    "steps": ("--n_step=1",),
    "priorities": ("--replay=uniform",),
    "dueling": ("--nodueling",),
    # Noise is what explores: without it ε does, as in DQN's presets.
    "noise": ("--nonoisy", "--epsilon_start=1", "--epsilon_end=0.05"),
    "distribution": ("--value_distribution=none",),
    "layer norm": ("--nolayer_norm",),
    "average": ("--average_decay=0",),
}


class Task(NamedTuple):
    """What is learned."""

    preset: str
    seeds: int
    flags: tuple[str, ...]


TASKS = {
    "CartPole-v1": Task("rainbow,cartpole", 5, ()),
    "MinAtar/Breakout-v0": Task("rainbow,minatar", 3, ("--total_env_steps=100000",)),
}
COLUMNS = ("task", "without", "seed", "env_steps", "seconds", "eval_return", "solved")


def measure(name: str, without: str, seed: int, flags: list[str]) -> dict[str, str]:
    """One run: its length and the mean of its last evaluations."""
    task = TASKS[name]
    rows = run(task.preset, [*task.flags, *WITHOUT[without], f"--seed={seed}", *flags])
    returns = [float(row["eval/episode_return"]) for row in rows[-LAST:]]
    solved = name == "CartPole-v1" and min(returns) >= 475
    values = (rows[-1]["env_steps"], rows[-1]["seconds"], f"{np.mean(returns):.2f}", int(solved))
    return dict(zip(COLUMNS, (name, without, str(seed), *map(str, values)), strict=True))


def show(rows: list[dict[str, str]]) -> None:
    """A table of each task, of the runs with the whole of it first."""
    level = f"{interquartile.LEVEL:.0%}"
    for name in [name for name in TASKS if any(row["task"] == name for row in rows)]:
        counts = "env steps" if name == "CartPole-v1" else "score"
        print(f"\n| {name} without | seeds | solved | {counts} [{level}] | lowest | highest |")
        print("|---|---|---|---|---|---|")
        for without in WITHOUT:
            mine = [row for row in rows if (row["task"], row["without"]) == (name, without)]
            if not mine:
                continue
            column = "env_steps" if name == "CartPole-v1" else "eval_return"
            values = np.array([float(row[column]) for row in mine])
            low, high = interquartile.interval(values[:, np.newaxis])
            solved = f"{sum(row['solved'] == '1' for row in mine)}"
            print(
                f"| {without} | {len(mine)} | {solved if name == 'CartPole-v1' else ''} | "
                f"{interquartile.mean(values):,.1f} [{low[0]:,.1f}, {high[0]:,.1f}] | "
                f"{values.min():,.1f} | {values.max():,.1f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--without", default=",".join(WITHOUT), help="the parts, comma separated")
    most = max(task.seeds for task in TASKS.values())
    parser.add_argument("--seeds", type=int, default=most, help="of each task, at most")
    parser.add_argument("--first_seed", type=int, default=0)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("ablation.csv"))
    options, flags = parser.parse_known_args()
    tasks, parts = options.tasks.split(","), options.without.split(",")
    for number in range(options.seeds):
        for name in tasks:
            if number >= TASKS[name].seeds:
                continue
            for without in parts:
                seed = options.first_seed + number
                rows = read(options.output, COLUMNS)
                made = {(row["task"], row["without"], row["seed"]) for row in rows}
                if (name, without, str(seed)) not in made:
                    append(options.output, [measure(name, without, seed, flags)])
                    print(f"{name} without {without}, seed {seed}", file=sys.stderr, flush=True)
    show(read(options.output, COLUMNS))


if __name__ == "__main__":
    main()
