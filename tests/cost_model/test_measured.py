"""The model against runs: CartPole whose environments wait 40 ms, real processes on two cores."""

import csv
import pathlib

import pytest

from ps_dqn import cost_model
from ps_dqn.config import Config
from ps_dqn.cost_model import Costs

MEASURED = pathlib.Path(__file__).parents[2] / "docs" / "scaling-slow.csv"
TOLERANCE = 0.15
CONFIG = Config.from_values({"overlap": "on", "eval_period": 5000})
# What a run with overlap does not show, as the documents have it.
KNOWN = Costs(
    env_step_seconds=0.0,
    update_seconds=0.0008,
    latency_seconds=0.0024,
    pull_seconds=0.00025,
    push_seconds=0.00025,
    dispatch_seconds=0.004,
    coordinator_seconds=0.003,
    spread=0.02,
    cores=2,
)


def rows(seed: int = 0) -> dict[int, dict[str, str]]:
    """Of a seed, by the number of workers."""
    with MEASURED.open(newline="") as file:
        found = [row for row in csv.DictReader(file) if int(row["seed"]) == seed]
    return {int(row["workers"]): row for row in found}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("workers", [4, 8, 16])
def test_one_worker_tells_what_more_bring(workers: int, seed: int) -> None:
    costs = cost_model.calibrated(KNOWN, CONFIG, rows(seed)[1])
    row = rows(seed)[workers]
    prediction = cost_model.predict(costs, CONFIG, workers)
    env_steps = float(row["env_steps"])
    seconds = prediction.seconds(env_steps)
    updates = env_steps * prediction.updates_per_second / prediction.env_steps_per_second
    assert env_steps / seconds == pytest.approx(float(row["env_steps_per_second"]), rel=TOLERANCE)
    assert updates / seconds == pytest.approx(float(row["updates_per_second"]), rel=TOLERANCE)


def test_calibration_gives_one_worker_back() -> None:
    row = rows()[1]
    prediction = cost_model.predict(cost_model.calibrated(KNOWN, CONFIG, row), CONFIG, 1)
    seconds = prediction.seconds(float(row["env_steps"]))
    assert seconds == pytest.approx(float(row["training_seconds"]), rel=0.02)


def test_without_overlap_the_gradient_phase_is_updates() -> None:
    row = rows()[1]
    config = Config.from_values({"overlap": "off"})
    costs = cost_model.calibrated(KNOWN, config, row)
    seconds = float(row["gradient"]) * float(row["training_seconds"])
    assert costs.update_seconds == pytest.approx(seconds / float(row["updates"]))
    assert costs.start_seconds == 0
