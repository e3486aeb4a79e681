"""What each fault costs a training: the table of docs/reliability.md.

    python benchmarks/fault_table.py --seeds=3 --results=docs/reliability.csv
    python benchmarks/fault_table.py --scenarios "SEED: an actor killed" "SEED: the learner killed"

Runs the scenarios of `tests/support/scenarios.py`, of which the slow tests run one seed each, and
adds a row for each run to the results; what is there already is not run again. Then it prints the
table: medians over the seeds, ranges in brackets.
"""

import argparse
import contextlib
import math
import pathlib
import statistics
import sys
import tempfile

import csv_rows

PROJECT = pathlib.Path(__file__).parent.parent
sys.path[:0] = [str(PROJECT), str(PROJECT / "tests")]

from support import processes  # noqa: E402 - of the tests, whose folder is known only now
from support.scenarios import SCENARIOS  # noqa: E402
from support.trial import Row, Scenario, Trial  # noqa: E402

TITLES = {
    "detect": "noticed after (s)",
    "recover": "90 % of updates/s after (s)",
    "updates_lost": "updates lost",
    "goodput": "goodput",
    "training_seconds": "training (s)",
    "eval_return": "final return",
}


def measure(scenario: Scenario, seed: int, steps: int) -> Row:
    """One training."""
    with (
        tempfile.TemporaryDirectory() as temporary,
        contextlib.ExitStack() as stack,
        processes.gone_at_the_end() as started,
    ):
        folder = pathlib.Path(temporary) / "run"
        return Trial(started, folder, scenario, seed, steps, stack).row()


def table(rows: list[dict[str, str]]) -> str:
    """In Markdown, a line for each scenario in the order of the suite."""
    lines = ["| " + " | ".join(["what happens", *TITLES.values()]) + " |"]
    lines.append("|" + "---|" * (1 + len(TITLES)))
    for scenario in SCENARIOS:
        own = [row for row in rows if row["scenario"] == scenario.name]
        if own:
            cells = [_range([float(row[name]) for row in own]) for name in TITLES]
            lines.append("| " + " | ".join([scenario.name, *cells]) + " |")
    return "\n".join(lines)


def _range(values: list[float]) -> str:
    known = sorted(value for value in values if math.isfinite(value))
    if not known:
        return "-"
    middle, low, high = statistics.median(known), known[0], known[-1]
    texts = [f"{value:.3g}" for value in (middle, low, high)]
    return texts[0] if low == high else f"{texts[0]} ({texts[1]} to {texts[2]})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--first_seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3)
    names = [scenario.name for scenario in SCENARIOS]
    parser.add_argument(
        "--scenarios", nargs="+", choices=names, default=names, metavar="NAME", help="of its rows"
    )
    parser.add_argument("--steps", type=int, default=60_000, help="of the environments, each")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("fault-table.csv"))
    options = parser.parse_args()
    there = csv_rows.read(options.results, Row._fields)
    done = {(row["scenario"], row["seed"]) for row in there}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for scenario in SCENARIOS:
            if scenario.name not in options.scenarios or (scenario.name, str(seed)) in done:
                continue
            row = measure(scenario, seed, options.steps)
            print(row, flush=True)
            csv_rows.append(options.results, [row._asdict()])
    print(table(csv_rows.read(options.results, Row._fields)))


if __name__ == "__main__":
    main()
