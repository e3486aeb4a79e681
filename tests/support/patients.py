"""Runs for the doctor that no program has made: their flags, their measures and their end."""

import math
import pathlib
from collections.abc import Sequence
from typing import Any

from ps_dqn.doctor import diagnosis
from ps_dqn.doctor.patient import Finding, Patient
from ps_dqn.flags import experiment
from ps_dqn.telemetry.measured import Measured
from support.command_lines import parsed
from support.made_runs import Row

STEPS = 1000  # environment steps from row to row


def trained(rows: int = 9, **metrics: float | Sequence[float]) -> list[Row]:
    """Rows of a run that does well, unless metrics say otherwise: a number for all rows or each.

    Names have two underscores for the slash.
    """
    usual: dict[str, float | Sequence[float]] = {
        "train__episode_return": [20.0 + 50.0 * i for i in range(rows)],
        "train__td_loss": 0.5,
        "train__q_values": [1.0 + i for i in range(rows)],
        "train__grad_norm": 2.0,
        "train__epsilon": [max(1.0 - i / 5, 0.05) for i in range(rows)],
        "train__returns_outside_atoms": 0.0,
        "train__staleness": 1.0,
        "train__staleness_max": 3.0,
        "workers__slowest": 1.2,
        "push__applied": 10.0,
        "replay__size": [STEPS * (i + 1) for i in range(rows)],
        "time__gradient": 6.0,
        "time__environment": 3.0,
        "time__evaluation": 0.5,
        "eval__episode_return": [30.0 + 50.0 * i for i in range(rows)],
        "episodes": [20 * (i + 1) for i in range(rows)],
        "updates": [STEPS * (i + 1) / 8 for i in range(rows)],
        "sequential_updates": [STEPS * (i + 1) / 8 for i in range(rows)],
    }
    found = []
    for i in range(rows):
        row = {"env_steps": float(STEPS * (i + 1)), "seconds": 10.0 * (i + 1)}
        for name, values in (usual | metrics).items():
            value = values if isinstance(values, (int, float)) else values[i]
            row[name.replace("__", "/")] = float(value)
        found.append(row)
    return found


def patient(
    *flags: str,
    rows: Sequence[Row] | None = None,
    state: str = "finished",
    failure_file: str = "",
    last_words: str = "",
    can_go_on: bool = True,
    dormant_units: float = math.nan,
    **summary: Any,
) -> Patient:
    """A run of 9,000 steps with flags of its own."""
    values = parsed("--total_env_steps=9000", "--target_update_period=64", *flags)
    run = Measured(
        pathlib.Path("runs/patient"),
        {},
        [dict(row) for row in (trained() if rows is None else rows)],
        summary,
    )
    return Patient(
        experiment.read(values),
        values.num_workers,
        run,
        state,
        last_words,
        failure_file,
        can_go_on,
        dormant_units,
    )


def findings(who: Patient) -> dict[str, Finding]:
    """What all rules find, by rule."""
    return {finding.rule: finding for finding in diagnosis.make(who).findings}
