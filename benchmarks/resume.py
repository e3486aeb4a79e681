"""What a run that is stopped and resumed loses: with its replay kept in files, and without.

    python benchmarks/resume.py --picture=docs/resume.png

A preset's run is stopped half-way. Two copies of its run directory go on: one as it is, one whose
workers' files are gone, as if replay had been kept in memory.
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

PRESETS = pathlib.Path(__file__).parent.parent / "flags" / "presets"
# Where each preset is stopped, where it ends, and from one evaluation to the next (env steps).
STEPS = {"cartpole": (80_000, 120_000, 2_500), "lunarlander": (200_000, 280_000, 5_000)}
SHOWN = 4  # evaluations before and after


def coordinate(*flags: str) -> None:
    command = [sys.executable, "-m", "ps_dqn.coordinator", *flags]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def evaluations(run_dir: pathlib.Path) -> list[tuple[int, float]]:
    """Environment steps and mean return of each evaluation."""
    with (run_dir / "metrics.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["eval/episode_return"]]
    return [(int(row["env_steps"]), float(row["eval/episode_return"])) for row in rows]


def measure(
    preset: str, seed: int, folder: pathlib.Path, times: float
) -> tuple[int, dict[str, list[tuple[int, float]]]]:
    """How many evaluations were before, and all of both ways to go on."""
    stop, end, period = (round(times * steps) for steps in STEPS[preset])
    kept, lost = folder / f"{preset}-{seed}-kept", folder / f"{preset}-{seed}-lost"
    coordinate(
        f"--flagfile={PRESETS / preset}.flags",
        f"--seed={seed}",
        f"--run_dir={kept}",
        f"--total_env_steps={stop}",
        f"--eval_period={period}",
        "--target_return=inf",
        "--replay_files",
    )
    before = len(evaluations(kept))
    shutil.copytree(kept, lost)
    shutil.rmtree(lost / "workers")
    for run_dir in (kept, lost):
        coordinate("--resume", f"--run_dir={run_dir}", f"--total_env_steps={end}")
    return before, {"replay kept": evaluations(kept), "replay lost": evaluations(lost)}


def show(preset: str, seed: int, number: int, found: dict[str, list[tuple[int, float]]]) -> None:
    for way, points in found.items():
        before = [value for _, value in points[:number]][-SHOWN:]
        after = [value for _, value in points[number:]][:SHOWN]
        print(
            f"| {preset} | {seed} | {way} | {statistics.mean(before):.1f} | "
            f"{', '.join(f'{value:.0f}' for value in after)} | {statistics.mean(after):.1f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--presets", default=",".join(STEPS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--times", type=float, default=1.0, help="so often their lengths")
    parser.add_argument("--picture", type=pathlib.Path)
    options = parser.parse_args()
    presets = options.presets.split(",")
    figure, axes = plt.subplots(1, len(presets), figsize=(5 * len(presets), 3.4), squeeze=False)
    print(f"| preset | seed | | {SHOWN} evaluations before | after | their mean |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for axis, preset in zip(axes[0], presets, strict=True):
            for seed in range(options.seeds):
                number, found = measure(preset, seed, pathlib.Path(folder), options.times)
                show(preset, seed, number, found)
                for (way, points), color in zip(found.items(), ("C0", "C1"), strict=True):
                    label = way if not seed else None
                    axis.plot(*zip(*points, strict=True), color=color, label=label, alpha=0.8)
            where = options.times * STEPS[preset][0]
            axis.axvline(where, color="grey", linestyle=":", label="stopped and resumed")
            axis.set_title(f"{preset}, {options.seeds} seeds")
            axis.set_xlabel("environment steps, all workers")
            axis.xaxis.set_major_formatter("{x:,.0f}")
            axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("episode return, greedy evaluations")
    axes[0, -1].legend(loc="lower right")
    figure.tight_layout()
    if options.picture:
        figure.savefig(options.picture, dpi=120)


if __name__ == "__main__":
    main()
