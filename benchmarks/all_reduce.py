"""One round of gradients: added up by the workers, or pushed to a parameter server and pulled.

    python benchmarks/all_reduce.py --results=docs/all-reduce.csv

All workers push a vector at once and go on when they have the parameters that all of them have
made, as closures with `--local_updates=1` do: the real clients, stores, shard and replicas, with
Adam. Both ways are measured in turns in the same processes; a row is the median of their turns.
`ms` is the time of a round, `core-ms` the processor time that all tasks but the coordinator take.
"""

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from transports import trace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Parameters, and rounds in one turn.
VECTORS = {"70 KB": (17_500, 100), "6.7 MB": (1_687_206, 10), "100 MB": (25_000_000, 3)}
WAYS = ("all_reduce", "parameter_server")
PATIENCE = 900.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", default="1,2,4", help="numbers of workers")
    parser.add_argument("--vectors", default=",".join(VECTORS), help="which sizes")
    parser.add_argument("--turns", type=int, default=5, help="of each way")
    parser.add_argument("--results", type=pathlib.Path, help="a table, as CSV")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    vectors = options.vectors.split(",")
    if options.one:
        cluster(options.one, vectors, options.turns)
        sys.stdout.flush()
        os._exit(0)
    rows = []
    for workers in map(int, options.workers.split(",")):
        # TensorFlow can have one cluster in a process.
        command = [sys.executable, __file__, f"--one={workers}", f"--turns={options.turns}"]
        command += [f"--vectors={options.vectors}"]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("{"):
                rows.append(json.loads(line))
                show(rows[-1])
                if options.results:
                    write(rows, options.results)
        assert child.wait() == 0


def write(rows: list[dict], path: pathlib.Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def show(row: dict) -> None:
    ours, theirs = (row[f"{way} ms"] for way in WAYS)
    print(
        f"{row['workers']} workers, {row['vector']:>6}: all-reduce {ours:,.2f} ms "
        f"({row['all_reduce range']}), {row['all_reduce core-ms']:,.1f} core-ms | "
        f"parameter server {theirs:,.2f} ms ({row['parameter_server range']}), "
        f"{row['parameter_server core-ms']:,.1f} core-ms | {theirs / ours:.2f} times as fast",
        flush=True,
    )


def cluster(num_workers: int, vectors: list[str], turns: int) -> None:
    """Prints a row for each size of a vector."""
    import numpy as np

    from ps_dqn.all_reduce.host import ReplicaHost
    from ps_dqn.all_reduce.store import ReplicaStore
    from ps_dqn.cluster import local, server
    from ps_dqn.cluster.ports import on_this_machine
    from ps_dqn.cluster.spec import Placement, TaskOptions
    from ps_dqn.config import Config
    from ps_dqn.coordinator.connecting import connection
    from ps_dqn.parameter_server.host import ParameterHost
    from ps_dqn.parameter_server.store import ParameterStore
    from ps_dqn.wire import bridge

    configs = {
        way: Config.from_values(
            {"strategy": way, "local_updates": 1, "num_envs_per_worker": 1, "snapshot_period": 0}
        ).shared_by(num_workers)
        for way in WAYS
    }
    configs["parameter_server"] = Config.from_values(
        {**configs["parameter_server"].values, "aggregation": "sync"}
    )

    def work(spec, task):
        bridge.install(
            lambda number: (
                Caller(configs, number) if number >= 0 else ReplicaHost(bridge.server(number))
            )
        )
        server.serve(spec, task, TaskOptions(inter_op_threads=4))

    def hold(spec, task):
        bridge.install(lambda number: ParameterHost())
        server.serve(spec, task, TaskOptions(inter_op_threads=4))

    spec = on_this_machine(num_ps=1, num_workers=num_workers)
    roles = {"worker": local.Role("worker", (), work), "ps": local.Role("ps", (), hold)}
    logs = pathlib.Path(tempfile.mkdtemp())
    with local.running(local.LocalCluster(spec, roles, logs, "fork"), lambda line: None) as tasks:
        pids = [tasks.pid(task) for task in spec.tasks()]
        coordinator = connection.connect(Placement("local", spec, "fork", 1, 2)).coordinator
        for vector in vectors:
            size, count = VECTORS[vector]
            stores = {
                "all_reduce": ReplicaStore(configs["all_reduce"], spec.workers, range(num_workers)),
                "parameter_server": ParameterStore(configs["parameter_server"], 1, num_workers),
            }
            closures = {}
            for way, store in stores.items():
                store.create(f"{way} {vector}", np.zeros(size, np.float32))
                closures[way] = make_closure(way, store, size, count)
            found = {way: [] for way in WAYS}
            for turn in range(turns + 1):
                for way in WAYS:
                    first = 1 + turn * num_workers * count
                    before = sum(map(cpu_seconds, pids))
                    rounds = [
                        coordinator.schedule(
                            closures[way],
                            args=(np.int64(first + i * count), np.int64(first)),
                        )
                        for i in range(num_workers)
                    ]
                    seconds = statistics.median(take(each.fetch()) for each in rounds)
                    spent = (sum(map(cpu_seconds, pids)) - before) / count
                    if turn:  # in the first, everything is compiled
                        found[way].append((seconds, spent))
            print(json.dumps(row_of(num_workers, vector, found)), flush=True)


def row_of(num_workers: int, vector: str, found: dict) -> dict:
    row = {"workers": num_workers, "vector": vector}
    for way, measured in found.items():
        seconds, spent = zip(*measured, strict=True)
        row[f"{way} ms"] = round(1e3 * statistics.median(seconds), 3)
        row[f"{way} range"] = f"{1e3 * min(seconds):.2f} to {1e3 * max(seconds):.2f}"
        row[f"{way} core-ms"] = round(1e3 * statistics.median(spent), 2)
    return row


def take(result) -> float:
    """The seconds that a closure has measured."""
    seconds, error = result
    assert not bytes(error), bytes(error).decode()
    return float(seconds)


def make_closure(way: str, store, size: int, count: int):
    """So many rounds on a worker; the seconds of one in the median, and what has failed."""
    import numpy as np
    import tensorflow as tf

    from ps_dqn.wire import bridge
    from ps_dqn.wire.messages import Status
    from ps_dqn.worker import calls

    sizes = calls.Sizes(store.num_workers, 1, size, 0, 0)
    number = list(WAYS).index(way)
    pulled = calls.Pulled.specs(size, mask_size=0)

    def run(first, oldest):
        worker = tf.distribute.coordinator.experimental_get_current_worker_index()

        def pull(after):
            with tf.control_dependencies([after]):
                requests = bridge.call("requests", worker, [], calls.requests(1))
            return bridge.call("pulled", worker, store.pull(requests), pulled)

        def round_of(i):
            nothing = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), pulled)
            [found] = tf.while_loop(
                lambda found: found.status == int(Status.WAIT),
                lambda found: (pull(found.status),),
                (nothing._replace(status=tf.constant(int(Status.WAIT))),),
                parallel_iterations=1,
            )
            packed = bridge.call("pack", worker, [found.online], calls.Packed.specs(sizes))
            verdict = store.push(packed.header, packed.messages)
            with tf.control_dependencies([bridge.call("pushed", worker, [verdict], calls.MARK)]):
                return i + 1

        given = [np.int64(store.session), np.int64(number), np.array([size]), first, oldest]
        begun = bridge.call("begin", worker, given, calls.MARK)
        with tf.control_dependencies([begun]):
            start = tf.constant(0)
        last = tf.while_loop(lambda i: i < count, round_of, [start], parallel_iterations=1)
        with tf.control_dependencies(last):
            seconds = bridge.call("seconds", worker, [], tf.TensorSpec([], tf.float64))
        return seconds, bridge.take_error(worker, after=[seconds])

    return trace(run, tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.int64))


def cpu_seconds(pid: int) -> float:
    """Processor time a process has used."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Caller:
    """Hosted by a worker: a client of each way, timed."""

    recording = figures = pulse = None

    def __init__(self, configs, worker: int):
        self._configs, self._worker = configs, worker
        self._clients = {}
        self._times = []

    @property
    def methods(self):
        names = ("begin", "requests", "pulled", "pack", "pushed", "seconds")
        return {name: getattr(self, name) for name in names}

    def leave(self) -> None:
        self._clients.clear()

    def begin(self, session, number, sizes, first, oldest):
        import numpy as np

        from ps_dqn.worker.pushes import replica_client

        key = int(session)
        if key not in self._clients:
            config = self._configs[list(WAYS)[int(number)]]
            made = replica_client.make(config, key, self._worker, [int(each) for each in sizes])
            self._clients = {each: self._clients[each] for each in list(self._clients)[-1:]}
            self._clients[key] = made
        self._client = self._clients[key]
        self._client.begin(int(first), int(oldest))
        self._times = [time.perf_counter()]
        return np.int32(1)

    def requests(self):
        return self._client.requests()

    def pulled(self, *replies):
        import numpy as np

        from ps_dqn.wire.messages import Status
        from ps_dqn.worker.calls import Pulled
        from ps_dqn.worker.pushes.parameter_client import Parameters

        answer = self._client.pulled(replies)
        if isinstance(answer, Parameters):
            return Pulled(np.int32(Status.READY), answer.online, answer.target, answer.mask)
        assert answer is Status.WAIT or time.perf_counter() - self._times[-1] < PATIENCE
        nothing = np.zeros(sum(self._client._sizes), np.float32)
        return Pulled(np.int32(Status.WAIT), nothing, nothing, self._client.mask)

    def pack(self, vector):
        from ps_dqn.wire.messages import Kind
        from ps_dqn.worker.calls import Packed

        # As a gradient it is as good as any other of its size.
        header, packed = self._client.pack(vector, Kind.APPLIED, 1, 1, 0, 1e-4)
        return Packed(header, packed)

    def pushed(self, numbers):
        import numpy as np

        from ps_dqn.wire import messages
        from ps_dqn.wire.messages import Verdict

        self._client.pushed(messages.unpack(Verdict, numbers))
        self._times.append(time.perf_counter())
        return np.int32(1)

    def seconds(self):
        import numpy as np

        return np.float64(np.median(np.diff(self._times)))


if __name__ == "__main__":
    main()
