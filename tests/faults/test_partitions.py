"""Networks that drop, refuse or slow down what tasks send each other: noticed, gone on without.

Each task is in a network namespace of its own.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
from collections.abc import Iterator

import pytest
from support import processes as real
from support.pods.network import Network, command
from support.processes import Processes, Running
from support.remote_tasks import ENDLESS, MODULES

from cluster.spec import ClusterSpec, Task
from ps_dqn.run import signals

CAN = hasattr(os, "geteuid") and os.geteuid() == 0 and all(map(shutil.which, ("ip", "iptables")))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CAN, reason="needs root, iproute2 and iptables"),
]

PORT = 2222
BOTH_WAYS = ("INPUT", "OUTPUT")
FLAGS = (*ENDLESS, "--checkpoint_period=1", "--worker_timeout=8")


class Fleet:
    """One parameter server and two workers, which train."""

    def __init__(self, processes: Processes, network: Network, folder: pathlib.Path):
        names = ("chief-0", "ps-0", "worker-0", "worker-1")
        self.places = {name: network.attach(name) for name in names}
        at = {name: f"{place.address}:{PORT}" for name, place in self.places.items()}
        self.spec = ClusterSpec(at["chief-0"], (at["ps-0"],), (at["worker-0"], at["worker-1"]))
        self.tasks: dict[str, Running] = {}
        for name in (*names[1:], names[0]):
            job, _, index = name.partition("-")
            flags = [f"--run_dir={folder}", *FLAGS] if job == "chief" else []
            self.tasks[name] = processes.start(
                *("-m", MODULES[job], *flags),
                within=("ip", "netns", "exec", self.places[name].namespace),
                TF_CONFIG=self.spec.tf_config(Task(job, int(index))),
            )
        self.running = self.tasks["chief-0"]

    @contextlib.contextmanager
    def ruled(self, name: str, chains: tuple[str, ...], *rule: str) -> Iterator[None]:
        """What becomes of a task's packets while the block runs."""
        for how in ("-A", "-D"):
            for chain in chains:
                self._on(name, "iptables", how, chain, "-p", "tcp", *rule)
            if how == "-A":
                yield

    @contextlib.contextmanager
    def slowed(self, name: str, rate: str) -> Iterator[None]:
        """A task sends no faster than this while the block runs; skips where the kernel cannot."""
        queue = ("qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate)
        try:
            self._on(name, "tc", *queue, "burst", "32kbit", "latency", "400ms")
        except RuntimeError as error:
            pytest.skip(f"no network can be slowed down here: {error}")
        yield
        self._on(name, "tc", "qdisc", "del", "dev", "eth0", "root")

    def says(self, text: str, times: int = 1) -> None:
        real.until(
            lambda: self.running.count(text) >= times,
            180,
            f"{times} times {text!r}; there is {self.running.text}",
        )

    def trains(self, workers: int) -> None:
        """Waits until it trains with so many, from now on."""
        text = f"workers {workers}/2"
        self.says(text, self.running.count(text) + 3)

    def ends(self, folder: pathlib.Path) -> dict:
        """Told to end, the coordinator does so in good order, and alone; its summary."""
        os.kill(self.running.pid, signal.SIGTERM)
        assert self.running.ended(60) == signals.START_AGAIN, self.running.text
        assert self.running.count("error") == self.running.count("Traceback") == 0
        others = [task for task in self.tasks.values() if task is not self.running]
        assert all(task.process.poll() is None for task in others)
        return json.loads((folder / "summary.json").read_text())

    def _on(self, name: str, *words: str) -> None:
        command("ip", "netns", "exec", self.places[name].namespace, *words)


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network()
    yield made
    made.close()


def test_whoever_is_cut_off_is_gone_on_without_and_taken_in_again(
    processes: Processes, network: Network, tmp_path: pathlib.Path
) -> None:
    fleet = Fleet(processes, network, tmp_path)
    fleet.trains(2)

    # Nobody hears of the worker, nor it of anybody.
    with fleet.ruled("worker-1", BOTH_WAYS, "-j", "DROP"):
        fleet.says("worker 1 has not answered for ")
        fleet.trains(1)
    fleet.says("worker 1 answers again")
    fleet.trains(2)
    # It hears, and is not heard.
    with fleet.ruled("worker-0", ("OUTPUT",), "-j", "DROP"):
        fleet.says("worker 0 has not answered for ")
        fleet.trains(1)
    fleet.says("worker 0 answers again")
    fleet.trains(2)
    # It is heard by all but the parameter server.
    server = fleet.places["ps-0"].address
    with fleet.ruled("worker-1", ("OUTPUT",), "-d", server, "-j", "DROP"):
        fleet.says("worker 1 has not ended a closure in ")
        fleet.trains(1)
    fleet.trains(2)
    # Connections to the parameter server are refused, and those that there are are reset. The same
    # process is there afterwards, with what it was told before.
    for times in (1, 2, 3):
        with fleet.ruled("ps-0", ("INPUT",), "-j", "REJECT", "--reject-with", "tcp-reset"):
            fleet.says("waiting for parameter server 0", times)
        fleet.says("none is missing", times)
        fleet.trains(2)
    # The coordinator is cut off from everybody.
    with fleet.ruled("chief-0", BOTH_WAYS, "-j", "DROP"):
        fleet.says("parameter server 0 has not answered for ")
    fleet.says("none is missing", 4)
    fleet.trains(2)
    assert fleet.ends(tmp_path)["updates_lost"] == 0


def test_a_slow_network_is_no_failure(
    processes: Processes, network: Network, tmp_path: pathlib.Path
) -> None:
    fleet = Fleet(processes, network, tmp_path)
    with fleet.slowed("ps-0", "10mbit"):
        fleet.trains(2)
        fleet.trains(2)
    summary = fleet.ends(tmp_path)
    assert (summary["task_failures"], summary["recoveries"]) == ([], 0)
