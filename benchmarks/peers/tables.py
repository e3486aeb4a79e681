"""What the runs come to: numbers for JSON, tables for people."""

import itertools
from typing import Any

from known import PEERS
from protocol import TARGETS
from results import Row, numbers, ratios, spread


def training(row: Row) -> float | None:
    """Seconds from the first environment step until solved, without evaluations between."""
    if not row["solved_seconds"]:
        return None
    return float(row["solved_seconds"]) - float(row["solved_eval_seconds"] or 0)


def command(row: Row) -> float | None:
    """Seconds from the command until solved, without evaluations between."""
    if not row["solved_command_seconds"]:
        return None
    return float(row["solved_command_seconds"]) - float(row["solved_eval_seconds"] or 0)


def computing(row: Row) -> float | None:
    """CPU-seconds of all processes of a run that solved it."""
    return of(row, "cpu_seconds") if row["solved_seconds"] else None


def of(row: Row, name: str) -> float | None:
    """A column's number."""
    return float(row[name]) if row[name] else None


def scores(rows: list[Row]) -> list[dict[str, Any]]:
    """Each problem and peer: medians and ranges."""
    found = []
    for env_id, name in itertools.product(TARGETS, PEERS):
        every = [row for row in rows if row["env_id"] == env_id]
        mine = [row for row in every if row["peer"] == name]
        if not mine:
            continue
        made = [row for row in mine if not row["unavailable"]]
        solved = [row for row in made if row["solved_seconds"]]
        best = numbers(made, "best_of_100")
        one: dict[str, Any] = {
            "problem": env_id,
            "peer": name,
            "runs": len(made),
            "solved": len(solved),
            "unavailable": next((row["unavailable"] for row in mine if row["unavailable"]), ""),
            "training_seconds": spread([each for each in map(training, solved) if each]),
            "command_seconds": spread([each for each in map(command, solved) if each]),
            "env_steps": spread(numbers(solved, "solved_env_steps")),
            "updates": spread(numbers(solved, "solved_updates")),
            "best_of_100": spread(best),
            "reached_by_best": sum(each >= TARGETS[env_id] for each in best),
            "training_ratio": spread(ratios(every, name, training)),
            "command_ratio": spread(ratios(every, name, command)),
            "cpu_ratio": spread(ratios(every, name, computing)),
        }
        names = ("start_seconds", "compile_seconds", "updates_per_second", "env_steps_per_second")
        for column in (*names, "peak_megabytes", "cpu_seconds", "load"):
            one[column] = spread(numbers(made, column))
        found.append(one)
    return found


def rates(rows: list[Row]) -> list[dict[str, Any]]:
    """Each peer's rates, and ours by them."""
    found = []
    for env_id, name in itertools.product(sorted({row["env_id"] for row in rows}), PEERS):
        every = [row for row in rows if row["env_id"] == env_id]
        mine = [row for row in every if row["peer"] == name]
        if not mine:
            continue
        one: dict[str, Any] = {
            "problem": env_id,
            "peer": name,
            "runs": sum(not row["unavailable"] for row in mine),
            "unavailable": next((row["unavailable"] for row in mine if row["unavailable"]), ""),
        }
        for column in ("env_steps_per_second", "updates_per_second"):
            one[column] = spread(numbers(mine, column))
            shares = ratios(every, name, lambda row, column=column: of(row, column))
            one[f"ours_by_{column}"] = spread([1 / each for each in shares])
        for column in ("bytes_per_transition", "peak_megabytes", "cpu_seconds", "load"):
            one[column] = spread(numbers(mine, column))
        found.append(one)
    return found


def ranged(values: dict[str, float] | None, digits: int = 0) -> str:
    """The median and the range, for people."""
    if values is None:
        return ""
    low, middle, high = (f"{values[each]:,.{digits}f}" for each in ("least", "median", "most"))
    return middle if low == high else f"{middle} ({low} to {high})"


_SCORES = {
    "training (s)": ("training_seconds", 1),
    "from the command (s)": ("command_seconds", 1),
    "start (s)": ("start_seconds", 1),
    "env steps": ("env_steps", 0),
    "updates": ("updates", 0),
    "updates/s": ("updates_per_second", 0),
    "env steps/s": ("env_steps_per_second", 0),
    "peak MB": ("peak_megabytes", 0),
    "CPU-seconds": ("cpu_seconds", 0),
    "load": ("load", 1),
    "training by ours": ("training_ratio", 1),
    "command by ours": ("command_ratio", 1),
    "CPU by ours": ("cpu_ratio", 1),
    "best of 100": ("best_of_100", 1),
}
_RATES = {
    "updates/s": ("updates_per_second", 0),
    "env steps/s": ("env_steps_per_second", 0),
    "bytes a transition": ("bytes_per_transition", 0),
    "peak MB": ("peak_megabytes", 0),
    "CPU-seconds": ("cpu_seconds", 0),
    "load": ("load", 1),
    "ours by it, updates/s": ("ours_by_updates_per_second", 2),
    "ours by it, env steps/s": ("ours_by_env_steps_per_second", 2),
}


def show(summary: list[dict[str, Any]], of_rates: bool) -> str:
    """A table in Markdown; columns that no row has are left out."""
    columns = _RATES if of_rates else _SCORES
    columns = {
        title: column
        for title, column in columns.items()
        if any(one[column[0]] is not None for one in summary)
    }
    titles = ["problem", "", *([] if of_rates else ["solved"]), *columns]
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    for one in summary:
        cells = [one["problem"], one["peer"]]
        if not one["runs"]:
            cells.append(f"unavailable: {one['unavailable']}")
            cells += [""] * (len(titles) - len(cells))
        else:
            cells += [] if of_rates else [f"{one['solved']} of {one['runs']}"]
            cells += [ranged(one[name], digits) for name, digits in columns.values()]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
