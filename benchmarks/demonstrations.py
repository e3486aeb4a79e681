"""What demonstrations bring on CartPole and MountainCar: learned from alone, beside experience.

    python benchmarks/demonstrations.py --output=docs/demonstrations.csv

Rules play, a share of their actions at random: one balances the pole, one drives with the car's
speed. Offline runs make the updates of 100,000 env steps from what they did; the others learn until
solved. Runs that the output has already are not made again.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import gymnasium
import numpy as np
from csv_rows import append, read

ROOT = pathlib.Path(__file__).parent.parent
COLUMNS = ("data", "flags", "seed", "env_steps", "final", "best", "reason")
# Environment, steps, and the share of actions that are random.
DATA = {
    "rule": ("CartPole-v1", 2_000, 0.0),
    "half": ("CartPole-v1", 20_000, 0.5),
    "random": ("CartPole-v1", 20_000, 1.0),
    "valley": ("MountainCar-v0", 4_000, 0.2),
}
RULES = {
    "CartPole-v1": lambda seen: int(seen[2] + 0.3 * seen[3] > 0),
    "MountainCar-v0": lambda seen: 2 if seen[1] >= 0 else 0,
}
_PRESET = "--flagfile=flags/presets/mountaincar.flags"
LONG = f"{_PRESET} --epsilon_decay_steps=150000"
BRIEF = f"{_PRESET} --epsilon_decay_steps=20000 --total_env_steps=300000"
OFFLINE = "--offline --num_workers=1 --total_env_steps=100000 --target_return=inf"
CASES = [
    *(
        (data, f"{OFFLINE} --cql_alpha={alpha}")
        for data in ("half", "random")
        for alpha in ("0.0", "0.1", "1.0")
    ),
    ("rule", OFFLINE),
    ("rule", f"{OFFLINE} --demonstration_loss=1.0"),
    ("none", ""),
    ("rule", ""),
    ("rule", "--demonstration_loss=1.0"),
    ("none", LONG),
    ("valley", LONG),
    ("none", BRIEF),
    ("valley", BRIEF),
]


def collect(path: pathlib.Path, env_id: str, steps: int, share_random: float) -> None:
    """Plays by the rule and writes what happened."""
    rng, env = np.random.default_rng(1), gymnasium.make(env_id)
    names = ("observations", "actions", "rewards", "terminated", "truncated", "next_observations")
    rows = []
    observation, _ = env.reset(seed=1)
    while len(rows) < steps:
        action = RULES[env_id](observation)
        if rng.random() < share_random:
            action = int(rng.integers(env.action_space.n))
        following, reward, terminated, truncated, _ = env.step(action)
        rows.append((observation, action, reward, terminated, truncated, following))
        observation = env.reset()[0] if terminated or truncated else following
    arrays = dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
    np.savez(path, **arrays)


def run(
    data: str, flags: str, seed: int, folder: pathlib.Path, more: list[str]
) -> dict[str, object]:
    """One run, in a row of the table."""
    given = flags.split()
    if data != "none":
        given.append(f"--demonstrations={folder / data}.npz")
    where = folder / f"run-{data}-{seed}"
    command = [sys.executable, "-m", "ps_dqn.coordinator", f"--run_dir={where}", f"--seed={seed}"]
    subprocess.run([*command, *given, *more], check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    summary = json.loads((where / "summary.json").read_text())
    names = ("env_steps", "eval_return", "best_eval_return", "reason")
    values = [data, flags, seed, *(summary[name] for name in names)]
    return dict(zip(COLUMNS, values, strict=True))


def spread(values: list[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def show(rows: list[dict[str, str]]) -> None:
    """A line for each case: medians and ranges over seeds."""
    print("| data | flags | seeds | solved | env steps | final score | best score |")
    print("|---|---|---|---|---|---|---|")
    for data, flags in CASES:
        mine = [row for row in rows if (row["data"], row["flags"]) == (data, flags)]
        if not mine:
            continue
        steps, final, best = (
            [float(row[name]) for row in mine] for name in ("env_steps", "final", "best")
        )
        solved = sum(row["reason"] == "solved" for row in mine)
        shown = f"`{flags}`" if flags else "-"
        print(
            f"| {data} | {shown} | {len(mine)} | {solved} | {spread(steps, ',.0f')} | "
            f"{spread(final, '.0f')} | {spread(best, '.0f')} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first_seed", type=int, default=0)
    parser.add_argument("--data", default=",".join(["none", *DATA]), help="cases with these")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("demonstrations.csv"))
    options, more = parser.parse_known_args()
    cases = [case for case in CASES if case[0] in options.data.split(",")]
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for data, flags in cases:
            rows = read(options.output, COLUMNS)
            if (data, flags, str(seed)) in {(r["data"], r["flags"], r["seed"]) for r in rows}:
                continue
            with tempfile.TemporaryDirectory() as folder:
                if data != "none":
                    collect(pathlib.Path(folder, f"{data}.npz"), *DATA[data])
                row = run(data, flags, seed, pathlib.Path(folder), more)
            append(options.output, [row])
            print(f"{data} {flags} seed {seed} done", file=sys.stderr, flush=True)
    show(read(options.output, COLUMNS))


if __name__ == "__main__":
    main()
