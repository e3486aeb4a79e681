"""This project, asked and answering as its peers do."""

import argparse
import csv
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from protocol import BEST_EPISODES, PONG, TARGETS, arguments
from rates import SAME, WARM_UP

PRESETS = {
    "CartPole-v1": "cartpole",
    "Acrobot-v1": "acrobot",
    "MountainCar-v0": "mountaincar",
    "LunarLander-v3": "lunarlander",
    PONG: "atari",
}
# For a score, not for what is the same for all.
SCORED = PRESETS | {PONG: "atari_fast"}
INTERRUPTED = 75  # what the run exits with where it was ended before its end
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def rows(run_dir: pathlib.Path, having: str) -> list[dict[str, float]]:
    """The rows of a run's metrics that have this one, with its value as `value`."""
    path = run_dir / "metrics.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        found = [row for row in csv.DictReader(file) if row.get(having)]
    return [
        {
            "env_steps": int(float(row["env_steps"])),
            "updates": int(float(row["updates"])),
            "seconds": float(row["seconds"]),
            "value": float(row[having]),
        }
        for row in found
    ]


def evaluations(run_dir: pathlib.Path, start_seconds: float) -> Iterator[dict[str, float]]:
    for row in rows(run_dir, "eval/episode_return"):
        yield {
            "env_steps": row["env_steps"],
            "updates": row["updates"],
            "seconds": row["seconds"],
            "eval_seconds": 0.0,  # they are made beside training
            "command_seconds": start_seconds + row["seconds"],
            "eval_return": row["value"],
        }


def warmed_up(found: list[dict[str, float]], warm_up: float) -> list[dict[str, float]]:
    """Rows of so many seconds after the first one with updates, and later."""
    learning = [row for row in found if row["updates"]]
    return [row for row in learning if row["seconds"] >= learning[0]["seconds"] + warm_up]


def length(found: list[dict[str, float]]) -> float:
    """Seconds from the first to the last of rows."""
    return found[-1]["seconds"] - found[0]["seconds"] if found else 0.0


def rates(found: list[dict[str, float]], warm_up: float = WARM_UP) -> dict[str, float]:
    """Steps and updates for each second, from some seconds after the first update on."""
    warm = warmed_up(found, warm_up)
    if (seconds := length(warm)) <= 0:
        raise SystemExit("the run ended before its rates were measured")
    return {
        "env_steps_per_second": (warm[-1]["env_steps"] - warm[0]["env_steps"]) / seconds,
        "updates_per_second": (warm[-1]["updates"] - warm[0]["updates"]) / seconds,
        "measured_seconds": seconds,
    }


def bytes_per_transition(said: str) -> float | None:
    """What a run said of its replay at its start."""
    size = r"each worker's replay: (?:up to )?([\d,]+) transitions in ([\d.,]+) (B|KiB|MiB|GiB)"
    found = re.search(size, said)
    if found is None:
        return None
    count, number, unit = (each.replace(",", "") for each in found.groups())
    return float(number) * _UNITS[unit] / int(count)


def flags(options: argparse.Namespace) -> list[str]:
    """Of the run."""
    presets = PRESETS if options.rate_seconds else SCORED
    preset = ",".join(filter(None, (options.preset, presets[options.env_id])))
    given = [f"--preset={preset}", f"--seed={options.seed}", f"--num_workers={options.workers}"]
    given.append(f"--total_env_steps={options.env_steps}")
    if not options.rate_seconds:
        target = TARGETS[options.env_id] if options.until_solved else float("inf")
        return [*given, f"--target_return={target}"]
    same = SAME[options.env_id]
    return [
        *(*given, "--target_return=inf", "--eval_period=1000000000", "--confirm_episodes=0"),
        *("--metrics_period=250", f"--hidden_sizes={','.join(map(str, same.hidden))}"),
        *("--layer_norm=false", "--double_dqn=false", "--n_step=1", "--value_distribution=none"),
        # Workers' updates side by side count as one for the period: this is one for each.
        f"--update_period={same.update_period * options.workers}",
        *(f"--batch_size={same.batch_size}", f"--replay_capacity={same.capacity}"),
        *(f"--min_replay_size={same.learning_starts}", f"--learning_rate={same.learning_rate}"),
    ]


def train(options: argparse.Namespace, run_dir: pathlib.Path) -> str:
    """A run, ended where its time is over; what it printed."""
    command = [sys.executable, "-m", "ps_dqn.coordinator", *flags(options), f"--run_dir={run_dir}"]
    if options.cold:
        command.append(f"--compile_cache={run_dir.with_name('compiled')}")
    output = run_dir.with_suffix(".txt")
    with output.open("w") as file:
        process = subprocess.Popen(command, stdout=file)
        while process.poll() is None:
            time.sleep(0.2)
            known = rows(run_dir, "seconds")
            if options.rate_seconds:
                is_over = length(warmed_up(known, WARM_UP)) >= options.rate_seconds
            else:
                is_over = bool(known) and known[-1]["seconds"] > options.max_seconds
            if is_over:
                process.send_signal(signal.SIGTERM)
                process.wait()
    if process.returncode not in (0, INTERRUPTED):
        raise SystemExit(f"the run ended with exit code {process.returncode}")
    return output.read_text()


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        run_dir = pathlib.Path(folder, "run")
        said = train(options, run_dir)
        if options.rate_seconds:
            found: dict[str, float | None] = {**rates(rows(run_dir, "seconds"))}
            found["bytes_per_transition"] = bytes_per_transition(said)
            print(json.dumps(found), flush=True)
            return
        summary = json.loads((run_dir / "summary.json").read_text())
        for each in evaluations(run_dir, summary["start_seconds"]):
            print(json.dumps(each), flush=True)
        tasks = [*summary["workers"].values(), *summary["parameter_servers"]]
        memory = summary["coordinator_memory"] + sum(task["memory"] for task in tasks)
        end: dict[str, float] = {"compile_seconds": 0.0, "megabytes": memory / 2**20}
        if not options.until_solved:
            command = [*(sys.executable, "-m", "ps_dqn.evaluator"), f"--run_dir={run_dir}"]
            command.append(f"--episodes={BEST_EPISODES}")
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            best = re.search(r"mean return (-?[\d.,]+)", output)
            assert best, output
            end["best_of_100"] = float(best[1].replace(",", ""))
    print(json.dumps(end), flush=True)


if __name__ == "__main__":
    # Ended, it removes the run's folder on its way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    main()
