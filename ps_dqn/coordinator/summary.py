"""The end of a run: its summary, its table, its picture and the network to take away."""

import collections
import math
import pathlib
from typing import Any

from rich.console import Console
from rich.table import Table

from ps_dqn import __version__
from ps_dqn.config import Config
from ps_dqn.coordinator.history import History
from ps_dqn.coordinator.loop import Result
from ps_dqn.networks import weights
from ps_dqn.networks.network import QNetwork
from ps_dqn.run import directory, signals, terminal
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.run.disk import Disk
from ps_dqn.telemetry import learning_curve, memory, tables
from ps_dqn.telemetry.metrics import PHASES
from ps_dqn.telemetry.tables import Column

# Rows of the table of workers.
MOST_WORKERS = 16


def summarize(
    config: Config, result: Result, history: History, total_seconds: float
) -> dict[str, Any]:
    """The content of `summary.json`.

    Args:
        config: the experiment.
        result: how it ended.
        history: of the run in this process.
        total_seconds: from the command until now.
    """
    evaluation = result.evaluation
    return {
        "env_id": config.environment.env_id,
        "seed": config.run.seed,
        "reason": result.reason,
        "eval_return": float(evaluation.returns.mean()) if evaluation else math.nan,
        "best_eval_return": result.best_return,
        "confirm_episodes": config.run.confirming_episodes,
        "start_seconds": round(history.start_seconds, 3),
        "training_seconds": round(result.seconds, 3),
        "total_seconds": round(total_seconds, 3),
        **history.summary(total_seconds),
        **result.counters._asdict(),
        "env_steps_per_second": result.counters.env_steps / result.seconds,
        "updates_per_second": result.counters.updates / result.seconds,
        "worker_seconds": {
            phase: round(math.fsum(row[f"time_{phase}"] for row in result.workers.values()), 3)
            for phase in PHASES
        },
        "workers": {str(worker): row for worker, row in result.workers.items()},
        "parameter_servers": result.servers,
        "coordinator_memory": memory.used(alone=True),
        "version_of_ps_dqn": __version__,
    }


def show(console: Console, summary: dict[str, Any], folder: pathlib.Path) -> None:
    """Prints the table at the end of a run and where everything is."""
    titles = {
        "solved": "Solved: three evaluations in a row reached the target return",
        "finished": "Finished: total_env_steps reached",
        signals.STOPPED: "Stopped; the same command with --resume goes on from here",
    }
    table = Table(title=titles[summary["reason"]], show_header=False, title_justify="left")
    table.add_row("final evaluation", _number(summary["eval_return"], ".1f"))
    confirmed = " over {confirm_episodes:,} further episodes".format(**summary)
    best = _number(summary["best_eval_return"], ".1f")
    table.add_row(
        "best evaluation", best + confirmed * (best != "none" and summary["confirm_episodes"] > 0)
    )
    seconds = {name: summary[f"{name}_seconds"] for name in ("start", "training", "total")}
    time = "{start:.1f} s starting + {training:.1f} s training, {total:.1f} s since the command"
    table.add_row("time", time.format(**seconds))
    if summary["recoveries"]:
        lost = f"{summary['updates_lost']:,} updates" if summary["updates_lost"] else "none"
        table.add_row(
            "recoveries",
            f"{summary['recoveries']} in {summary['recovery_seconds']:.1f} s, "
            f"{summary['pushes_again']:,} pushes made again, {lost} lost",
        )
    if summary["task_failures"]:
        table.add_row("failures of tasks", _failures(summary["task_failures"]))
    for name, rate in (("env_steps", "env_steps_per_second"), ("updates", "updates_per_second")):
        table.add_row(name.replace("_", " "), f"{summary[name]:,} ({summary[rate]:,.0f}/s)")
    table.add_row("episodes", f"{summary['episodes']:,}")
    whole = sum(summary["worker_seconds"].values()) or math.nan
    shares = ", ".join(
        f"{phase} {each / whole:.0%}" for phase, each in summary["worker_seconds"].items() if each
    )
    table.add_row("workers' time", shares or "-")
    if summary["coordinator_memory"]:
        table.add_row("coordinator's memory", tables.num_bytes(summary["coordinator_memory"]))
    shown = [table]
    if summary["workers"]:
        shown.append(_workers(summary["workers"], console.width))
    terminal.show(console, *shown, _servers(summary["parameter_servers"], console.width))
    terminal.say(console, f"everything is in {folder}")


def save(
    folder: pathlib.Path,
    summary: dict[str, Any],
    target_return: float,
    checkpoints: Checkpoints,
    network: QNetwork,
    disk: Disk,
) -> None:
    """Writes the summary, the best network as a Keras model and the learning curve."""
    disk.write("results", lambda: directory.write_summary(folder, summary))
    disk.write("results", lambda: _save_model(folder, checkpoints, network))
    title = f"{summary['env_id']}, seed {summary['seed']}"
    disk.write("results", lambda: learning_curve.draw(folder, title, target_return))


def _save_model(folder: pathlib.Path, checkpoints: Checkpoints, network: QNetwork) -> None:
    best = checkpoints.best()
    if best is not None:
        weights.save_model(network, best.state.average, folder)


def _failures(rows: list[dict[str, Any]]) -> str:
    """How many of each kind, how soon they were noticed, and how soon the tasks worked again."""
    kinds = collections.Counter[str]()
    for row in rows:
        kinds[row["kind"]] += row["failures"]
    numbers = ("failures", "detection_seconds", "recoveries", "recovery_seconds")
    count, detecting, back, recovering = (sum(row[name] for row in rows) for name in numbers)
    parts = [f"{count:,} {kind}" for kind, count in sorted(kinds.items())]
    parts.append(f"noticed after {detecting / count:.1f} s")
    if back:
        parts.append(f"{back:,} back {recovering / back:.1f} s later")
    return ", ".join(parts)


def _workers(rows: dict[str, dict[str, float]], width: int) -> Table:
    """What each worker did and what its pushes and pulls cost; the slowest where there are many."""
    title = "Workers"
    if len(rows) > MOST_WORKERS:
        title = f"Workers: the {MOST_WORKERS} slowest of {len(rows)}; workers.csv has all"
        slowest = sorted(rows, key=lambda worker: -_or_zero(rows[worker]["slowness"]))
        rows = {worker: rows[worker] for worker in slowest[:MOST_WORKERS]}
    return tables.make(_OF_WORKERS, list(rows.items()), width, title)


def _servers(servers: list[dict[str, Any]], width: int) -> Table:
    """Requests and load of each parameter server."""
    return tables.make(_OF_SERVERS, list(enumerate(servers)), width, "Parameter servers")


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _number(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "none"


def _memory(row: dict[str, Any]) -> str:
    return tables.num_bytes(row.get("memory") or math.nan)


_OF_WORKERS = (
    Column("", lambda of: of[0]),
    Column("updates", lambda of: f"{of[1]['updates_made']:,.0f}"),
    Column("pushes", lambda of: f"{of[1]['pushes_applied']:,.0f}", 2),
    Column("lost", lambda of: f"{of[1]['pushes_refused'] + of[1]['pushes_withheld']:,.0f}", 3),
    Column(
        "staleness",
        lambda of: f"{_number(of[1]['staleness'], '.1f')} ≤ {of[1]['staleness_max']:.0f}",
        1,
    ),
    Column("pulled", lambda of: tables.num_bytes(of[1]["bytes_pulled"]), 5),
    Column("pushed", lambda of: tables.num_bytes(of[1]["bytes_pushed"]), 5),
    Column(
        "ms for both",
        lambda of: f"{_number(of[1]['pull_ms'], '.1f')} + {_number(of[1]['push_ms'], '.1f')}",
        6,
    ),
    Column("slowness", lambda of: _number(of[1]["slowness"], ".2f"), 4),
    Column("memory", lambda of: _memory(of[1]), 1),
)
_OF_SERVERS = (
    Column("", lambda of: str(of[0])),
    Column("pulls", lambda of: f"{of[1]['pulls']:,}"),
    Column("pushes", lambda of: f"{of[1]['pushes']:,}"),
    Column("repeated", lambda of: f"{of[1]['duplicates']:,}", 3),
    Column("sent", lambda of: tables.num_bytes(of[1]["bytes_out"]), 1),
    Column("received", lambda of: tables.num_bytes(of[1]["bytes_in"]), 2),
    Column("busy", lambda of: f"{of[1]['seconds']:.1f} s", 1),
    Column("memory", lambda of: _memory(of[1]), 1),
)
