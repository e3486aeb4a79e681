"""The end of a run: its summary, its table, its picture and the network to take away."""

import collections
import math
import pathlib
import statistics
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from ps_dqn import __version__, user_code
from ps_dqn.config import Config
from ps_dqn.coordinator.keeping.history import History
from ps_dqn.coordinator.reporting import sparsity
from ps_dqn.coordinator.reporting.result import Result
from ps_dqn.errors import UsageError
from ps_dqn.networks import weights
from ps_dqn.networks.network import QNetwork
from ps_dqn.profiling import timeline
from ps_dqn.run import directory, signals, terminal
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.run.disk import Disk
from ps_dqn.telemetry import learning_curve, memory, tables
from ps_dqn.telemetry.metrics import PHASES
from ps_dqn.telemetry.tables import Column

_SPANS = {
    directory.SUMMARY: "writing the summary",
    directory.MODEL: "saving the model",
    directory.CURVE: "drawing the learning curve",
}
# Rows of the table of workers.
MOST_WORKERS = 16


def summarize(
    config: Config,
    result: Result,
    history: History,
    total_seconds: float,
    actors: Sequence[float] = (),
) -> dict[str, Any]:
    """The content of `summary.json`.

    Args:
        config: the experiment.
        result: how it ended.
        history: of the run in this process.
        total_seconds: from the command until now.
        actors: the memory of each that is no worker (bytes).
    """
    evaluation = result.evaluation
    roles = {str(worker): config.topology.role(worker) for worker in result.workers}
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
        **({"roles": roles} if any(roles.values()) else {}),
        "precision": config.precision.precision,
        "scales_loss": config.precision.scales_loss,
        "parameter_servers": result.servers,
        **({"replay_servers": result.replay_servers} if result.replay_servers else {}),
        **({"actors": [{"memory": each} for each in actors]} if actors else {}),
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
    if summary["scales_loss"]:
        skipped = sum(row["updates_skipped"] for row in summary["workers"].values())
        told = f"{skipped:,.0f} updates, which overflowed {summary['precision']}"
        table.add_row("skipped", told)
    if "sparsity" in summary:
        table.add_row("sparsity", sparsity.told(summary["sparsity"]))
    table.add_row("episodes", f"{summary['episodes']:,}")
    whole = sum(summary["worker_seconds"].values()) or math.nan
    shares = ", ".join(
        f"{phase} {each / whole:.0%}" for phase, each in summary["worker_seconds"].items() if each
    )
    table.add_row("workers' time", shares or "-")
    if inferred := _inference(list(summary["workers"].values())):
        table.add_row("inference", inferred)
    if summary["coordinator_memory"]:
        table.add_row("coordinator's memory", tables.num_bytes(summary["coordinator_memory"]))
    if taken := _memory_of_all(summary.get("actors", [])):
        table.add_row("actors' memory", taken)
    shown = [table]
    if summary["workers"]:
        shown.append(_workers(summary["workers"], summary.get("roles", {}), console.width))
    if summary["parameter_servers"]:
        shown.append(_servers(summary["parameter_servers"], console.width))
    if replay := summary.get("replay_servers"):
        shown.append(
            tables.make(_OF_REPLAY, list(enumerate(replay)), console.width, "Replay servers")
        )
    terminal.show(console, *shown)
    terminal.say(console, f"everything is in {folder}")


def save(
    folder: pathlib.Path,
    summary: dict[str, Any],
    target_return: float,
    checkpoints: Checkpoints,
    network: QNetwork,
    disk: Disk,
    say: Callable[[str], None],
) -> list[str]:
    """Writes the summary, the best network as a Keras model and the learning curve.

    Returns:
        What could not be written, for people; of the learning curve they are told here.
    """
    title = f"{summary['env_id']}, seed {summary['seed']}"
    writes: dict[str, Callable[[], object]] = {
        directory.SUMMARY: lambda: directory.write_summary(folder, summary),
        directory.MODEL: lambda: _save_model(folder, checkpoints, network),
        directory.CURVE: lambda: learning_curve.draw(folder, title, target_return),
    }
    errors = []
    for name, write in writes.items():
        with timeline.span(_SPANS[name]):
            try:
                why = disk.write_last(name, write)
            except UsageError as error:  # the best checkpoint is damaged
                why = str(error)
            except Exception as error:  # of Keras or Matplotlib, which a user's settings may break
                traceback.print_exception(error)  # into the log
                why = user_code.one_line(error)
        if why and name == directory.CURVE:  # it can be drawn again, of metrics.csv
            say(f"{name} could not be drawn ({why})")
        elif why:
            errors.append(f"{name} could not be written ({why})")
    return errors


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


def _inference(rows: list[dict[str, float]]) -> str:
    """What it was like for actors, in the mean of the learners; nothing where there are none."""
    rows = [row for row in rows if not math.isnan(row.get("inference_batch_size", math.nan))]
    if not rows:
        return ""
    names = ("inference_batch_size", "inference_latency_ms", "inference_latency_ms_max")
    size, mean, longest = ([row[name] for row in rows] for name in names)
    return (
        f"{statistics.fmean(size):,.1f} environments at once; actors waited "
        f"{statistics.fmean(mean):,.1f} ms for actions, {max(longest):,.0f} at most"
    )


def _workers(rows: dict[str, dict[str, float]], roles: dict[str, str], width: int) -> Table:
    """What each worker did and what its pushes and pulls cost; the slowest where there are many."""
    title = "Workers"
    if len(rows) > MOST_WORKERS:
        title = f"Workers: the {MOST_WORKERS} slowest of {len(rows)}; workers.csv has all"
        slowest = sorted(rows, key=lambda worker: -_or_zero(rows[worker]["slowness"]))
        rows = {worker: rows[worker] for worker in slowest[:MOST_WORKERS]}
    shown = [(worker, row, roles.get(worker, "")) for worker, row in rows.items()]
    return tables.make(_OF_WORKERS, shown, width, title)


def _servers(servers: list[dict[str, Any]], width: int) -> Table:
    """Requests and load of each parameter server."""
    return tables.make(_OF_SERVERS, list(enumerate(servers)), width, "Parameter servers")


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _number(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "none"


def _memory(row: dict[str, Any]) -> str:
    return tables.num_bytes(row.get("memory") or math.nan)


def _memory_of_all(rows: list[dict[str, Any]]) -> str:
    """Of many that are alike, in a line; nothing where none is known."""
    known = [row["memory"] for row in rows if not math.isnan(row["memory"])]
    if not known:
        return ""
    total, most = tables.num_bytes(math.fsum(known)), tables.num_bytes(max(known))
    return total if len(known) == 1 else f"{total} of {len(known)}, {most} at most"


_OF_WORKERS = (
    Column("", lambda of: of[0]),
    Column("role", lambda of: of[2], left=True),
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
    Column("memory", lambda of: _memory(of[1])),
)
_OF_SERVERS = (
    Column("", lambda of: str(of[0])),
    Column("pulls", lambda of: f"{of[1]['pulls']:,}"),
    Column("pushes", lambda of: f"{of[1]['pushes']:,}"),
    Column("repeated", lambda of: f"{of[1]['duplicates']:,}", 3),
    Column("sent", lambda of: tables.num_bytes(of[1]["bytes_out"]), 1),
    Column("received", lambda of: tables.num_bytes(of[1]["bytes_in"]), 2),
    Column("busy", lambda of: f"{of[1]['seconds']:.1f} s", 1),
    Column("memory", lambda of: _memory(of[1])),
)
_OF_REPLAY = (
    Column("", lambda of: str(of[0])),
    Column("rows", lambda of: f"{of[1]['rows']:,}", 3),
    Column("adds", lambda of: f"{of[1]['adds']:,}", 4),
    Column("adds/s", lambda of: f"{of[1]['adds'] / of[1]['alive_seconds']:,.0f}"),
    Column("samples", lambda of: f"{of[1]['samples']:,}", 4),
    Column("samples/s", lambda of: f"{of[1]['samples'] / of[1]['alive_seconds']:,.0f}"),
    Column("received", lambda of: tables.num_bytes(of[1]["bytes_in"]), 1),
    Column("sent", lambda of: tables.num_bytes(of[1]["bytes_out"]), 1),
    Column("busy", lambda of: f"{of[1]['seconds']:.1f} s", 2),
    Column("memory", lambda of: _memory(of[1])),
)
