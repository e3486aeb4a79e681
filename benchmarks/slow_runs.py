"""CartPole's preset with environments that take their time (`slow_cartpole`): what is measured."""

import csv
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence

FOLDER = pathlib.Path(__file__).parent


def measured(
    words: Sequence[str], step_seconds: float, num_envs: int, total_env_steps: int
) -> list[dict[str, str]]:
    """Trains once; the rows of `metrics.csv` from the second on that has learned.

    Args:
        words: further flags.
        step_seconds: what a step of one environment takes more.
        num_envs: of the run.
        total_env_steps: of the run.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "ps_dqn.coordinator", "--preset=cartpole", *words),
            *("--env_module=slow_cartpole", "--env_id=SlowCartPole-v1"),
            f'--env_kwargs={{"step_seconds": {step_seconds}}}',
            '--eval_env_kwargs={"step_seconds": 0}',
            f"--num_envs={num_envs}",
            f"--total_env_steps={total_env_steps}",
            f"--eval_period={10 * total_env_steps}",
            f"--metrics_period={total_env_steps // 10}",
            *("--target_return=inf", f"--run_dir={folder}/run"),
        ]
        path = os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"PYTHONPATH": path}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        with (pathlib.Path(folder) / "run" / "metrics.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["train/td_loss"]]
    return rows[1:]
