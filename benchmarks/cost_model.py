"""What the model of the cost says of more workers, beside what was measured.

    python benchmarks/cost_model.py docs/scaling-slow.csv --flagfile=flags/presets/cartpole.flags

Calibrates `ps_dqn.cost_model` from the rows of one worker in the results of `scaling.py`, predicts
the others, and prints a table for up to 10,000 workers with all that it assumes. What a run of one
worker does not show is said by flags; their defaults are what docs/scaling-model.md says.
"""

import argparse
import csv
import dataclasses
import math
import pathlib
import shlex
import statistics

from ps_dqn import cost_model
from ps_dqn.config import Config
from ps_dqn.cost_model import Costs
from ps_dqn.flags import command_line, experiment

COUNTS = (1, 10, 100, 1_000, 10_000)
# What a run of one worker does not show: seconds, but for bytes and processors.
KNOWN = {
    "update_seconds": 0.0008,
    "latency_seconds": 0.0024,
    "pull_bytes": 70_664.0,
    "push_bytes": 70_664.0,
    "bandwidth": 1.25e9,
    "pull_seconds": 0.00025,
    "push_seconds": 0.00025,
    "dispatch_seconds": 0.004,
    "coordinator_seconds": 0.003,
    "spread": 0.02,
    "cores": 2.0,  # of the machine that measured; in the table each task has its own
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=pathlib.Path, help="rows of benchmarks/scaling.py")
    for name, value in KNOWN.items():
        parser.add_argument(f"--{name}", type=float, default=value)
    parser.add_argument("--servers", type=int, default=1, help="parameter servers of the table")
    parser.add_argument("--table_flags", default="", help="of the table, beside the run's")
    parser.add_argument("--way", default="rule", help="the rows that are read")
    options, flags = parser.parse_known_args()
    known = Costs(env_step_seconds=0.0, **{name: getattr(options, name) for name in KNOWN})
    config = read_config(flags)
    with options.results.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["way"] == options.way]
    costs = calibrate(known, config, rows)
    print_costs(costs, config)
    compare(costs, config, rows)
    costs = dataclasses.replace(costs, cores=math.inf)
    print_table(costs, read_config(flags + shlex.split(options.table_flags)), options.servers)


def read_config(flags: list[str]) -> Config:
    """The run's; overlap=auto is on, as it is where environments are slow."""
    values = command_line.new_flags()
    experiment.define(values)
    command_line.parse(values, ["cost_model", *flags])
    config = experiment.read(values)
    options = config.parameter_server
    if options.overlap == "auto":
        options = dataclasses.replace(options, overlap="on")
    return dataclasses.replace(config, parameter_server=options)


def calibrate(known: Costs, config: Config, rows: list[dict[str, str]]) -> Costs:
    """The median of each cost over the runs of one worker."""
    ones = [
        dataclasses.asdict(cost_model.calibrated(known, config, row))
        for row in rows
        if row["workers"] == row["servers"] == "1"
    ]
    return Costs(**{name: statistics.median(one[name] for one in ones) for name in ones[0]})


def print_costs(costs: Costs, config: Config) -> None:
    options = config.parameter_server
    print("| assumed | |\n|---|---|")
    for name, value in dataclasses.asdict(costs).items():
        print(f"| {name} | {value:.4g} |")
    for name in ("update_period", "local_updates", "pushes_per_closure", "overlap", "aggregation"):
        print(f"| --{name} | {getattr(options, name)} |")
    print(f"| --num_envs | {config.environment.num_envs} |\n")


def compare(costs: Costs, config: Config, rows: list[dict[str, str]]) -> None:
    """Prints each run beside what is predicted of it, start included."""
    print(
        "| workers | servers | seed | env steps/s | predicted | updates/s | predicted | off |\n"
        + "|---" * 8
        + "|"
    )
    for row in sorted(rows, key=lambda row: (int(row["workers"]), int(row["servers"]))):
        prediction = cost_model.predict(costs, config, int(row["workers"]), int(row["servers"]))
        env_steps = float(row["env_steps"])
        rate = env_steps / prediction.seconds(env_steps)
        updates = rate * prediction.updates_per_second / prediction.env_steps_per_second
        measured = float(row["env_steps_per_second"])
        print(
            f"| {row['workers']} | {row['servers']} | {row['seed']} | {measured:,.1f} | "
            f"{rate:,.1f} | {float(row['updates_per_second']):,.1f} | {updates:,.1f} | "
            f"{rate / measured - 1:+.0%} |"
        )
    print_saturation(costs, config, servers=1)
    print()


def print_saturation(costs: Costs, config: Config, servers: int) -> None:
    for name, workers in cost_model.saturation(costs, config, servers).items():
        print(f"\nThe {name} would be saturated by {workers:,.0f} workers.")


def print_table(costs: Costs, config: Config, servers: int) -> None:
    """Prints what so many workers bring, and where each part saturates."""
    in_rounds, config = (
        dataclasses.replace(
            config,
            parameter_server=dataclasses.replace(config.parameter_server, aggregation=way),
        )
        for way in ("sync", "async")
    )
    one = cost_model.predict(costs, config, 1)
    stations = list(one.utilisation)
    print(
        "| workers | env steps/s | of N times one | updates/s | sequential updates/s | staleness "
        "(versions) | in rounds, env steps/s | " + " | ".join(stations) + " |"
    )
    print("|---" * (7 + len(stations)) + "|")
    for workers in COUNTS:
        each = cost_model.predict(costs, config, workers, servers)
        rate = each.env_steps_per_second
        together = cost_model.predict(costs, in_rounds, workers, servers)
        used = " | ".join(f"{each.utilisation[name]:.1%}" for name in stations)
        print(
            f"| {workers:,} | {rate:,.1f} | {rate / (workers * one.env_steps_per_second):.3f} | "
            f"{each.updates_per_second:,.1f} | {each.sequential_updates_per_second:,.1f} | "
            f"{each.staleness:,.1f} | {together.env_steps_per_second:,.1f} | {used} |"
        )
    print_saturation(costs, config, servers)
    collecting = config.parameter_server.update_period * costs.env_step_seconds
    balance = collecting / costs.update_seconds
    print(f"\nA push's updates take as long as its environment steps with {balance:,.0f} workers.")


if __name__ == "__main__":
    main()
