"""Round trips and MB/s of pull and push, against what this machine can copy, in one run.

    python benchmarks/parameter_server.py --results=docs/parameter-server.csv \
        --plot=docs/parameter-server.png

With results that are there already and `--rounds=0`, nothing is measured, and the picture is drawn
anew.

A pull is timed on the worker from its request until the vector is decoded, a push from the vector
until the verdict: the real `ParameterClient`, `ParameterStore` and `Shard`, in processes of their
own. Beside them, in turns with them: the same bytes through a plain TCP socket of this machine
(asked for by one process, sent by another), through plain gRPC where grpcio is installed, and
TensorFlow's own transport of a variable of that size, with none of our code in it.
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

from transports import raw_grpc, raw_tcp, tensorflow_pull, trace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Parameters, and pulls and pushes in one measurement.
NETWORKS = {
    "MLP": (17_666, 300),
    "Nature CNN": (1_687_206, 30),
    "100 MB": (25_000_000, 5),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", default="1,2,4", help="numbers of parameter servers")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="which sizes")
    parser.add_argument("--rounds", type=int, default=3, help="the median of these is shown")
    parser.add_argument("--inter_op_threads", type=int, default=4, help="of every task")
    parser.add_argument("--results", type=pathlib.Path, help="a table of seconds, as CSV")
    parser.add_argument("--plot", type=pathlib.Path, help="a picture to draw")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options, flags = parser.parse_known_args()
    if options.one:
        network, servers = options.one
        print(json.dumps(cluster(network, int(servers), options.inter_op_threads, flags)))
        sys.stdout.flush()
        os._exit(0)
    if not options.rounds:
        return plot(read(options.results), options.plot)
    rows = []
    for network in options.networks.split(","):
        size, _ = NETWORKS[network]
        raw = []
        for servers in map(int, options.servers.split(",")):
            measured = []
            for _ in range(options.rounds):
                raw.append(raw_tcp(4 * size) | raw_grpc(4 * size))
                measured.append(child(network, servers, options.inter_op_threads, flags))
            rows.append({"network": network, "servers": servers} | medians(measured))
        copied = medians(raw)
        for row in rows:
            if row["network"] == network:
                row |= copied
                show(row, 4 * size)
    if options.results:
        with options.results.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
            writer.writeheader()
            writer.writerows(rows)
    if options.plot:
        plot(rows, options.plot)


def read(path: pathlib.Path) -> list[dict]:
    """What an earlier call has measured."""
    with path.open(newline="") as file:
        return [
            {name: value if name == "network" else float(value) for name, value in row.items()}
            for row in csv.DictReader(file)
        ]


def show(row: dict, num_bytes: int) -> None:
    """One line for each number of servers; times are medians."""
    line = f"{row['network']:11} {row['servers']} PS "
    for name in ("pull", "pull with target", "push", "tf pull", "tcp", "grpc"):
        if name in row:
            moved = num_bytes * (2 if name == "pull with target" else 1)
            rate = moved / row[name] / 1e6
            line += f" | {name} {1e3 * row[name]:.2f} ms, {rate:,.0f} MB/s"
            if name in ("pull", "pull with target", "push"):
                line += f" ({rate / (num_bytes / row['tcp'] / 1e6):.2f} of tcp)"
    line += f" | server: {1e3 * row['server cpu']:.2f} ms of a core for a pull and a push, "
    line += f"{row['server memory'] / 2**20:,.0f} MiB at most"
    print(line, flush=True)


def medians(measured: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(each[name] for each in measured) for name in measured[0]}


def child(network: str, servers: int, threads: int, flags: list[str]) -> dict[str, float]:
    """A cluster in a process of its own: TensorFlow can have one in a process."""
    command = [sys.executable, __file__, "--one", network, str(servers)]
    command += [f"--inter_op_threads={threads}", *flags]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(ran.stdout.splitlines()[-1])


# What the parameter servers do.


def cluster(network: str, servers: int, threads: int, flags: list[str]) -> dict[str, float]:
    """Medians of pull and push of one worker (seconds)."""
    import numpy as np
    import tensorflow as tf

    from ps_dqn.cluster import local, server
    from ps_dqn.cluster.ports import on_this_machine
    from ps_dqn.cluster.spec import Placement, Task, TaskOptions
    from ps_dqn.coordinator.connecting import connection
    from ps_dqn.flags import command_line, experiment
    from ps_dqn.parameter_server.host import ParameterHost
    from ps_dqn.parameter_server.store import ParameterStore
    from ps_dqn.wire import bridge
    from ps_dqn.worker import calls

    size, count = NETWORKS[network]
    values = command_line.new_flags()
    experiment.define(values)
    # Nothing is pushed that moves the target, which is timed by itself.
    defaults = ["--local_updates=2", "--num_envs_per_worker=1", f"--target_update_period={10**9}"]
    command_line.parse(values, ["parameter_server", *defaults, *flags])
    config = experiment.read(values)

    def serve(spec, task):
        bridge.install(lambda number: Caller(config) if number >= 0 else ParameterHost())
        server.serve(spec, task, TaskOptions(inter_op_threads=threads))

    spec = on_this_machine(num_ps=servers, num_workers=1)
    role = local.Role("parameter_server", (), serve)
    logs = pathlib.Path(tempfile.mkdtemp())
    with local.running(
        local.LocalCluster(spec, {"ps": role, "worker": role}, logs, "fork")
    ) as tasks:
        first_server = tasks.pid(Task("ps", 0))
        coordinator = connection.connect(Placement("local", spec, "fork", 1, 2)).coordinator
        store = ParameterStore(config, servers, 1)
        store.create("run", np.zeros(size, np.float32))
        sizes = calls.Sizes(1, servers, size, num_slots=0, num_moments=0)
        vector = tf.TensorSpec([size], tf.float32)

        def exchange(first):
            def body(i):
                with tf.control_dependencies([i]):
                    replies = store.pull(bridge.call("requests", 0, [], calls.requests(servers)))
                change = bridge.call("pulled", 0, replies, vector)
                packed = bridge.call("pack", 0, [change], calls.Packed.specs(sizes))
                verdict = store.push(packed.header, packed.messages)
                return i + bridge.call("pushed", 0, [verdict], calls.MARK)

            begun = bridge.call("begin", 0, [store.session, store.sizes, first], calls.MARK)
            last = tf.while_loop(lambda i: i <= count, body, [begun], parallel_iterations=1)
            with tf.control_dependencies(last):
                return bridge.call("times", 0, [], tf.TensorSpec([3], tf.float64))

        closure = trace(exchange, tf.TensorSpec([], tf.int64))
        coordinator.schedule(closure, args=(np.int64(1),)).fetch()
        before = cpu_seconds(first_server)
        times = coordinator.schedule(closure, args=(np.int64(count + 1),)).fetch()
        found = dict(zip(("pull", "pull with target", "push"), map(float, times), strict=True))
        # Every second pull brings the target too.
        found["server cpu"] = (cpu_seconds(first_server) - before) / count
        found["server memory"] = most_memory(first_server)
        found["tf pull"] = tensorflow_pull(coordinator, servers, store.sizes, count)
        return found


def cpu_seconds(pid: int) -> float:
    """Processor time a process has used."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def most_memory(pid: int) -> float:
    """The most resident memory a process has had (bytes)."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


class Caller:
    """Hosted by the worker: a `ParameterClient`, timed."""

    recording = None

    def __init__(self, config):
        self._config = config
        self._client = None
        self._times = {"pull": [], "pull with target": [], "push": []}

    @property
    def methods(self):
        names = ("begin", "requests", "pulled", "pack", "pushed", "times")
        return {name: getattr(self, name) for name in names}

    def close(self) -> None:
        self._client = None

    def begin(self, session, sizes, first):
        import numpy as np

        from ps_dqn.worker.pushes.parameter_client import ParameterClient

        if self._client is None:
            options = self._config.parameter_server
            self._client = ParameterClient(options, int(session), 0, [int(each) for each in sizes])
        self._client.begin(int(first), int(first))
        return np.int32(1)

    def requests(self):
        from ps_dqn.wire import messages

        requests = self._client.requests()
        # Every second pull brings the target too.
        self._with_target = len(self._times["pull"]) > len(self._times["pull with target"])
        if self._with_target:
            requests[:, messages.PullRequest._fields.index("target_version")] = -1
        self._started = time.perf_counter()
        return requests

    def pulled(self, *replies):
        pulled = self._client.pulled(replies)
        name = "pull with target" if self._with_target else "pull"
        self._times[name].append(time.perf_counter() - self._started)
        return pulled.online

    def pack(self, vector):
        from ps_dqn.wire.messages import Kind
        from ps_dqn.worker import calls

        self._started = time.perf_counter()
        header, packed = self._client.pack(vector, Kind.APPLIED, 2, 0, 0, 0.0)
        return calls.Packed(header, packed)

    def pushed(self, verdict):
        import numpy as np

        from ps_dqn.wire import messages

        self._client.pushed(messages.unpack(messages.Verdict, verdict))
        self._times["push"].append(time.perf_counter() - self._started)
        return np.int32(1)

    def times(self):
        import numpy as np

        medians = [statistics.median(each) for each in self._times.values()]
        self._times = {name: [] for name in self._times}
        return np.array(medians)


def plot(rows: list[dict], path: pathlib.Path) -> None:
    """Bars of MB/s: a group for each network and number of servers; magnitudes are what differs."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = {"tcp": "plain TCP", "tf pull": "TensorFlow alone", "pull": "pull", "push": "push"}
    networks = list(dict.fromkeys(row["network"] for row in rows))
    shape = {"figsize": (11, 4), "sharey": True, "squeeze": False, "layout": "constrained"}
    figure, ((*panels,),) = plt.subplots(1, len(networks), **shape)
    for panel, network in zip(panels, networks, strict=True):
        chosen = [row for row in rows if row["network"] == network]
        num_bytes = 4 * NETWORKS[network][0]
        for i, (name, label) in enumerate(names.items()):
            places = [j + 0.2 * (i - 1.5) for j in range(len(chosen))]
            rates = [num_bytes / row[name] / 1e6 for row in chosen]
            panel.bar(places, rates, 0.19, label=label)
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter("{x:,.0f}")
        panel.set_xticks(range(len(chosen)), [f"{row['servers']:.0f}" for row in chosen])
        panel.set_xlabel("parameter servers")
        panel.set_title(f"{network} ({num_bytes / 1e6:,.1f} MB)")
        panel.grid(axis="y", alpha=0.3)
    panels[0].set_ylabel("bytes of the vector by time (MB/s)")
    figure.suptitle("A vector to one worker (pull) and back (push), on one machine")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
