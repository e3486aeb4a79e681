"""What a student leaves: the folder of a run, which all that looks at runs can read."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from ps_dqn import __version__
from ps_dqn.distill.comparing import Compared
from ps_dqn.distill.plan import Plan
from ps_dqn.environments import interface as interfaces
from ps_dqn.environments.interface import Interface
from ps_dqn.networks import weights
from ps_dqn.networks.network import QNetwork
from ps_dqn.run import directory, provenance
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.state import State
from ps_dqn.telemetry import progress
from ps_dqn.telemetry.writers import Writers


@dataclasses.dataclass(frozen=True)
class Student:
    """One that has learned.

    Attributes:
        network: its network.
        state: its parameters and what was counted.
        seconds: that it has learned.
        total_seconds: with playing before and after.
        rows: how it compares; its teacher's first.
    """

    network: QNetwork
    state: State
    seconds: float
    total_seconds: float
    rows: Sequence[Compared]


def write(plan: Plan, interface: Interface, student: Student) -> None:
    """Writes the folder, which is there.

    Raises:
        UsageError: it cannot be written.
    """
    folder, returns = plan.output, student.rows[-1].side.returns
    mean = float(returns.mean())
    directory.create(folder)
    directory.new_identity(folder)
    directory.write_flags(folder, plan.flagfile)
    provenance.write(folder)
    interfaces.write(folder, interface)
    checkpoints = Checkpoints(folder / directory.CHECKPOINTS, plan.student.run.keep_checkpoints)
    checkpoints.save_best(student.state, student.seconds, mean)
    weights.save_model(student.network, student.state.average, folder)
    counters = student.state.counters
    writers = Writers(folder)
    writers.add(counters, progress.evaluation_row(returns, student.seconds))
    writers.flush()
    writers.close()
    directory.write_summary(folder, _summary(plan, student))


def _summary(plan: Plan, student: Student) -> dict[str, Any]:
    """As a run has it, and where it comes from."""
    mean = float(student.rows[-1].side.returns.mean())
    seconds = student.seconds
    counters = student.state.counters
    return {
        "env_id": plan.student.environment.env_id,
        "seed": plan.student.run.seed,
        "reason": "finished",
        "eval_return": mean,
        "best_eval_return": mean,
        "confirm_episodes": 0,
        "training_seconds": round(seconds, 3),
        "total_seconds": round(student.total_seconds, 3),
        **counters._asdict(),
        "env_steps_per_second": counters.env_steps / seconds,
        "updates_per_second": counters.updates / seconds,
        "distilled": {
            "run": str(plan.folder),
            "checkpoint": plan.checkpoint.path.name,
            **dataclasses.asdict(plan.options),
            "episodes": plan.episodes,
            **{row.side.who: _described(row) for row in student.rows},
        },
        "version_of_ps_dqn": __version__,
    }


def _described(row: Compared) -> dict[str, Any]:
    returns = row.side.returns
    return {
        "network": row.side.description,
        "parameters": row.side.network.num_parameters,
        "return_mean": float(returns.mean()),
        "return_min": float(returns.min()),
        "same_actions": row.same_actions,
        "microseconds": round(row.microseconds, 1),
    }
