"""This project beside what people would pick instead, on the same machine, in turns.

    python benchmarks/peers --seeds=10 --first_seed=800 --output=docs/peers.csv
    python benchmarks/peers --until_solved --times=5 --peers=ours,sb3,sb3-2threads

Each peer gets a virtual environment of its own with pinned packages (`--environments`), made where
it is missing. All learn for as many environment steps as the settings of RL-Zoo are made for, times
`--times`, and are evaluated greedily over the same 20 episodes every `--eval_period` steps; ours at
its presets' period. Runs that the output has are not made again.
"""

import argparse
import csv
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import venv
from typing import NamedTuple

from protocol import IN_A_ROW, STEPS, TARGETS

FOLDER = pathlib.Path(__file__).parent


class Peer(NamedTuple):
    """A program."""

    script: str
    packages: tuple[str, ...] = ()  # none: what runs this program has them
    threads: int = 1


_SB3 = ("stable-baselines3==2.9.2", "torch==2.13.0", "gymnasium[box2d]==1.4.0")
PEERS = {
    "ours": Peer("ours.py"),
    "sb3": Peer("sb3.py", _SB3),
    "sb3-2threads": Peer("sb3.py", _SB3, threads=2),
}
KEY = ("env_id", "peer", "seed", "env_steps_asked", "until_solved")
MEASURED = (
    *("env_steps", "updates", "seconds", "eval_seconds", "eval_return"),
    *("solved_env_steps", "solved_seconds", "solved_command_seconds"),
    *("best_of_100", "megabytes", "load"),
)


def interpreter(peer: Peer, environments: pathlib.Path) -> str:
    """The peer's Python, with its packages."""
    if not peer.packages:
        return sys.executable
    place = environments / pathlib.Path(peer.script).stem
    python = place / "bin" / "python"
    wanted = place / "wanted.txt"
    if not wanted.exists() or wanted.read_text() != "\n".join(peer.packages):
        print(f"installing {', '.join(peer.packages)} into {place}", file=sys.stderr, flush=True)
        venv.create(place, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *peer.packages], check=True)
        wanted.write_text("\n".join(peer.packages))
    return str(python)


def measure(peer: Peer, python: str, asked: argparse.Namespace, key: dict) -> dict[str, object]:
    """One run: a row of the results."""
    command = [
        *(python, str(FOLDER / peer.script), f"--env_id={key['env_id']}", f"--seed={key['seed']}"),
        *(f"--env_steps={key['env_steps_asked']}", f"--eval_period={asked.eval_period}"),
        *(["--until_solved"] if asked.until_solved else []),
        *(f"--threads={peer.threads}", f"--started={time.time()}"),
    ]
    threads = str(peer.threads)
    limits = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads} if peer.packages else {}
    load = os.getloadavg()[0]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | limits
    )
    *said, end = map(json.loads, done.stdout.splitlines())
    target, row = TARGETS[key["env_id"]], dict.fromkeys(MEASURED, "")
    for i in range(IN_A_ROW, len(said) + 1):
        if all(each["eval_return"] >= target for each in said[i - IN_A_ROW : i]):
            for name in ("env_steps", "seconds", "command_seconds"):
                row[f"solved_{name}"] = said[i - 1][name]
            break
    row |= {name: value for name, value in (said[-1] | end).items() if name in MEASURED}
    return key | row | {"load": load}


def read(path: pathlib.Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(path: pathlib.Path, row: dict[str, object]) -> None:
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, (*KEY, *MEASURED), lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})


def ranged(values: list[float], digits: int = 0) -> str:
    """The median and the range, for people."""
    if not values:
        return ""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def show(rows: list[dict[str, str]]) -> None:
    print("| problem | | solved | after env steps | after seconds | best of 100 | at or above |")
    print("|---|---|---|---|---|---|---|")
    for env_id, peer in itertools.product(TARGETS, PEERS):
        mine = [row for row in rows if (row["env_id"], row["peer"]) == (env_id, peer)]
        if not mine:
            continue
        solved = [row for row in mine if row["solved_env_steps"]]
        best = [float(row["best_of_100"]) for row in mine]
        cells = (
            f"{len(solved)} of {len(mine)}",
            ranged([float(row["solved_env_steps"]) for row in solved]),
            ranged([float(row["solved_seconds"]) for row in solved], 1),
            ranged(best, 1),
            f"{sum(each >= TARGETS[env_id] for each in best)} of {len(mine)}",
        )
        print(f"| {env_id} | {peer} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", default=",".join(TARGETS))
    parser.add_argument("--peers", default="ours,sb3", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first_seed", type=int, default=0)
    parser.add_argument("--times", type=float, default=1.0, help="so often RL-Zoo's steps")
    parser.add_argument("--eval_period", type=int, default=5000, help="environment steps")
    parser.add_argument("--until_solved", action="store_true", help="runs end where solved")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("peers.csv"))
    parser.add_argument("--environments", type=pathlib.Path, default=pathlib.Path(".peers"))
    options = parser.parse_args()
    problems, peers = options.problems.split(","), options.peers.split(",")
    for number in range(options.first_seed, options.first_seed + options.seeds):
        for env_id, name in itertools.product(problems, peers):
            steps = round(STEPS[env_id] * options.times)
            key = dict(zip(KEY, (env_id, name, number, steps, options.until_solved), strict=True))
            made = [{name: row[name] for name in KEY} for row in read(options.output)]
            if {name: str(value) for name, value in key.items()} in made:
                continue
            python = interpreter(PEERS[name], options.environments.resolve())
            append(options.output, measure(PEERS[name], python, options, key))
            print(f"{env_id} {name} seed {number} done", file=sys.stderr, flush=True)
    show(read(options.output))


if __name__ == "__main__":
    main()
