"""This project, asked and answering as its peers do."""

import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from protocol import BEST_EPISODES, arguments

PRESETS = {
    "CartPole-v1": "cartpole",
    "Acrobot-v1": "acrobot",
    "MountainCar-v0": "mountaincar",
    "LunarLander-v3": "lunarlander",
}


def evaluations(run_dir: pathlib.Path, start_seconds: float) -> Iterator[dict[str, float]]:
    with (run_dir / "metrics.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["eval/episode_return"]:
                yield {
                    "env_steps": int(float(row["env_steps"])),
                    "updates": int(float(row["updates"])),
                    "seconds": float(row["seconds"]),
                    "eval_seconds": 0.0,  # they are made beside training
                    "command_seconds": start_seconds + float(row["seconds"]),
                    "eval_return": float(row["eval/episode_return"]),
                }


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        run_dir = pathlib.Path(folder, "run")
        command = [
            *(sys.executable, "-m", "ps_dqn.coordinator", f"--preset={PRESETS[options.env_id]}"),
            *(f"--seed={options.seed}", f"--total_env_steps={options.env_steps}"),
            *([] if options.until_solved else ["--target_return=inf"]),
            f"--run_dir={run_dir}",
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        summary = json.loads((run_dir / "summary.json").read_text())
        for said in evaluations(run_dir, summary["start_seconds"]):
            print(json.dumps(said), flush=True)
        command = [*(sys.executable, "-m", "ps_dqn.evaluator"), f"--run_dir={run_dir}"]
        command.append(f"--episodes={BEST_EPISODES}")
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"mean return (-?[\d.,]+)", output)
    assert found, output
    tasks = [*summary["workers"].values(), *summary["parameter_servers"]]
    memory = summary["coordinator_memory"] + sum(task["memory"] for task in tasks)
    said = {"best_of_100": float(found[1].replace(",", "")), "megabytes": memory / 2**20}
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
