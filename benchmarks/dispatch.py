"""Closures per second that one coordinator hands out, by the number of workers.

    python benchmarks/dispatch.py --results=docs/dispatch.csv
    py-spy record --gil --format=raw --output=profile.txt -- python benchmarks/dispatch.py --one=16

A vector as large as a training closure's report is returned at once, so that all time is the
coordinator's and the transport's. The closures go through the `Schedule` of training, with
its window, to gRPC servers in the coordinator's own process: that needs no process for each
worker, and the processor's time of a closure is of both sides. Where the cores are busy otherwise,
rates fall; the processor's time of a closure falls less.
"""

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

COLUMNS = ("workers", "closures_per_second", "idle_seconds", "cpu_seconds_per_closure")
WARM_UP_SECONDS = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", default="1,2,4,8,16,32,64", help="numbers of workers")
    parser.add_argument("--closures_per_worker", type=int, default=2, help="the window")
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measurement")
    parser.add_argument("--rounds", type=int, default=3, help="the median of these is shown")
    parser.add_argument("--results", type=pathlib.Path, help="a CSV file to write")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        row = measure(options.one, options.closures_per_worker, options.seconds)
        print(json.dumps(row))
        sys.stdout.flush()
        os._exit(0)
    counts = list(map(int, options.workers.split(",")))
    rows = [[child(count, options) for count in counts] for _ in range(options.rounds)]
    medians = [
        {name: statistics.median(row[name] for row in column) for name in COLUMNS}
        for column in zip(*rows, strict=True)
    ]
    print(
        "| workers | closures/s | a worker waits between two (ms) | processor for a closure (ms) |"
        "\n|---|---|---|---|"
    )
    for row in medians:
        print(
            f"| {row['workers']:.0f} | {row['closures_per_second']:,.0f} | "
            f"{1e3 * row['idle_seconds']:.1f} | {1e3 * row['cpu_seconds_per_closure']:.2f} |"
        )
    if options.results:
        with options.results.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(medians)


def child(workers: int, options: argparse.Namespace) -> dict[str, float]:
    """A cluster in a process of its own: TensorFlow can have one in a process."""
    command = [
        *(sys.executable, __file__, f"--one={workers}", f"--seconds={options.seconds}"),
        f"--closures_per_worker={options.closures_per_worker}",
    ]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(ran.stdout.splitlines()[-1])


def measure(workers: int, window: int, seconds: float) -> dict[str, float]:
    """Rates of one cluster; a closure's result is heard before the next is handed out."""
    import numpy as np
    import tensorflow as tf

    from ps_dqn.cluster import in_process
    from ps_dqn.cluster.ports import on_this_machine
    from ps_dqn.cluster.spec import Placement
    from ps_dqn.coordinator.connecting import connection
    from ps_dqn.coordinator.scheduling.dispatch import Schedule
    from ps_dqn.telemetry.report import Report

    spec = on_this_machine(num_ps=1, num_workers=workers)
    in_process.start(spec, intra_op_threads=1, inter_op_threads=2)
    coordinator = connection.connect(Placement("in_process", spec, "fork", 1, 2)).coordinator
    schedule = Schedule(coordinator, workers * (window + 1) + 1, in_order=workers == 1)
    tickets = np.array([1, 1], np.int64)

    def report(tickets):
        return tf.zeros([len(Report._fields)], tf.float64)

    function = tf.function(report, autograph=False)
    closure = function.get_concrete_function(tf.TensorSpec([2], tf.int64))

    def run(seconds: float) -> int:
        """Keeps the window full for so long; how many closures have ended."""
        heard, deadline = 0, time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            while schedule.outstanding("train") < workers * window:
                schedule.submit("train", closure, [tickets])
            heard += schedule.next(0.25) is not None
        return heard

    run(WARM_UP_SECONDS)
    wall, cpu = time.perf_counter(), time.process_time()
    heard = run(seconds)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    numbers = (workers, heard / wall, workers * wall / heard, cpu / heard)
    return dict(zip(COLUMNS, numbers, strict=True))


if __name__ == "__main__":
    main()
