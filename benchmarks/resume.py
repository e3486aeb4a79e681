"""What a run that is stopped and resumed loses: with its replay kept in files, and without.

    python benchmarks/resume.py --output=docs/resume.csv --picture=docs/resume.png

A preset's run is stopped half-way. Two copies of its run directory go on: one as it is, one whose
workers' files are gone, as if replay had been kept in memory. Beside them a run of the same seed
that nobody stops: how much evaluations waver by themselves.
"""

import argparse
import csv
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from csv_rows import append, read

PRESETS = pathlib.Path(__file__).parent.parent / "flags" / "presets"
# Where each preset is stopped, where it ends, and from one evaluation to the next (env steps).
STEPS = {"cartpole": (80_000, 120_000, 2_500), "lunarlander": (200_000, 280_000, 5_000)}
KEPT, LOST, THROUGH = "replay kept", "replay lost", "never stopped"
BEFORE = 4  # evaluations of the first half that count: the last ones
COLORS = {THROUGH: "C2", KEPT: "C0", LOST: "C1"}
COLUMNS = ("preset", "seed", "way", "half", "env_steps", "eval_return")


def coordinate(*flags: str) -> None:
    command = [sys.executable, "-m", "ps_dqn.coordinator", *flags]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def evaluations(run_dir: pathlib.Path) -> list[tuple[str, str]]:
    """Environment steps and mean return of each evaluation."""
    with (run_dir / "metrics.csv").open(newline="") as file:
        pairs = [(row["env_steps"], row["eval/episode_return"]) for row in csv.DictReader(file)]
    return [(steps, value) for steps, value in pairs if value]


def measure(preset: str, seed: int, folder: pathlib.Path, times: float) -> list[dict[str, str]]:
    """Every evaluation of the three ways, as rows."""
    stop, end, period = (round(times * steps) for steps in STEPS[preset])
    folders = {way: folder / way.replace(" ", "-") for way in COLORS}

    def train(way: str, steps: int) -> None:
        coordinate(
            f"--flagfile={PRESETS / preset}.flags",
            f"--seed={seed}",
            f"--run_dir={folders[way]}",
            f"--total_env_steps={steps}",
            f"--eval_period={period}",
            "--target_return=inf",
            "--replay_files",
        )

    train(KEPT, stop)
    number = len(evaluations(folders[KEPT]))
    shutil.copytree(folders[KEPT], folders[LOST])
    shutil.rmtree(folders[LOST] / "workers")
    for way in (KEPT, LOST):
        coordinate("--resume", f"--run_dir={folders[way]}", f"--total_env_steps={end}")
    train(THROUGH, end)
    rows = []
    for way in COLORS:
        for i, (steps, value) in enumerate(evaluations(folders[way])):
            # Nobody stops one of them: it has no evaluation at the end of its first half.
            is_before = int(steps) <= stop if way == THROUGH else i < number
            half = "before" if is_before else "after"
            known = (preset, str(seed), way, half, steps, value)
            rows.append(dict(zip(COLUMNS, known, strict=True)))
    return rows


def returns(rows: list[dict[str, str]], half: str) -> list[float]:
    """Of one run's evaluations before it was stopped, or after."""
    return [float(row["eval_return"]) for row in rows if row["half"] == half]


def runs_of(rows: list[dict[str, str]], preset: str, way: str) -> list[list[dict[str, str]]]:
    """The rows of each seed."""
    own = [row for row in rows if (row["preset"], row["way"]) == (preset, way)]
    return [[row for row in own if row["seed"] == seed] for seed in {row["seed"] for row in own}]


def show(rows: list[dict[str, str]], preset: str) -> None:
    """A row for each way: medians over the seeds, and their ranges."""
    for way in COLORS:
        runs = runs_of(rows, preset, way)
        # A short run on a busy machine may have no evaluation in one of its halves.
        before = [found for run in runs if (found := returns(run, "before"))]
        after = [found for run in runs if (found := returns(run, "after"))]
        cells = (
            [statistics.mean(found[-BEFORE:]) for found in before],
            [statistics.mean(found) for found in after],
            [min(found) for found in after],
        )
        print(f"| {preset} | {way} | {' | '.join(map(told, cells))} |")


def told(values: list[float]) -> str:
    if not values:
        return "–"
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def draw(rows: list[dict[str, str]], presets: list[str], path: pathlib.Path) -> None:
    size = (6.5 * len(presets), 4)
    figure, axes = plt.subplots(1, len(presets), figsize=size, squeeze=False, layout="constrained")
    for axis, preset in zip(axes[0], presets, strict=True):
        for way, color in COLORS.items():
            label: str | None = way
            for run in runs_of(rows, preset, way):
                steps = [int(row["env_steps"]) for row in run]
                values = [float(row["eval_return"]) for row in run]
                axis.plot(steps, values, color=color, label=label, alpha=0.7, linewidth=1)
                label = None
        own = [row for row in rows if row["preset"] == preset]
        before = [int(row["env_steps"]) for row in own if row["half"] == "before"]
        if before:
            axis.axvline(max(before), color="grey", linestyle=":", label="stopped and resumed")
        axis.set_title(f"{preset}, {len({row['seed'] for row in own})} seeds")
        axis.set_xlabel("environment steps, all workers")
        axis.xaxis.set_major_formatter("{x:,.0f}")
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("episode return, greedy evaluations")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2 * len(presets))
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--presets", default=",".join(STEPS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first_seed", type=int, default=800)
    parser.add_argument("--times", type=float, default=1.0, help="so often their lengths")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="goes on with it")
    parser.add_argument("--picture", type=pathlib.Path)
    options = parser.parse_args()
    presets = options.presets.split(",")
    made = {(row["preset"], row["seed"]) for row in read(options.output, COLUMNS)}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for preset in presets:
            if (preset, str(seed)) not in made:
                with tempfile.TemporaryDirectory() as folder:
                    rows = measure(preset, seed, pathlib.Path(folder), options.times)
                append(options.output, rows)
    rows = read(options.output, COLUMNS)
    means = f"mean of {BEFORE} evaluations before | mean of those after | the lowest of them"
    print(f"| preset | | {means} |")
    print("|---|---|---|---|---|")
    for preset in presets:
        show(rows, preset)
    if options.picture:
        draw(rows, presets, options.picture)


if __name__ == "__main__":
    main()
