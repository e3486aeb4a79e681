"""Networks that drop, refuse or slow down what tasks send each other: noticed, gone on without.

Each task is in a network namespace of its own.
"""

import contextlib
import json
import os
import pathlib
import signal
from collections.abc import Iterator

import pytest
from support import processes as real
from support.places import BOTH_WAYS, CAN, DROP, RESET, WHY_NOT, Places
from support.pods.network import Network
from support.processes import Processes, Running
from support.remote_tasks import ENDLESS, MODULES

from ps_dqn.cluster.spec import Task
from ps_dqn.run import signals

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CAN, reason=WHY_NOT)]

FLAGS = (*ENDLESS, "--checkpoint_period=1", "--worker_timeout=8")


class Fleet:
    """One parameter server and two workers, which train."""

    def __init__(self, processes: Processes, network: Network, folder: pathlib.Path):
        self.places = Places(network, servers=1, workers=2)
        self.tasks: dict[str, Running] = {}
        for task in (*self.places.spec.tasks(), Task("chief", 0)):
            name = f"{task.job}-{task.index}"
            flags = [f"--run_dir={folder}", *FLAGS] if task.job == "chief" else []
            self.tasks[name] = processes.start(
                *("-m", MODULES[task.job], *flags),
                within=self.places.within(name),
                TF_CONFIG=self.places.spec.tf_config(task),
            )
        self.running = self.tasks["chief-0"]

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
    with fleet.places.ruled("worker-1", BOTH_WAYS, *DROP):
        fleet.says("worker 1 has not answered for ")
        fleet.trains(1)
    fleet.says("worker 1 answers again")
    fleet.trains(2)
    # It hears, and is not heard.
    with fleet.places.ruled("worker-0", ("OUTPUT",), *DROP):
        fleet.says("worker 0 has not answered for ")
        fleet.trains(1)
    fleet.says("worker 0 answers again")
    fleet.trains(2)
    # It is heard by all but the parameter server.
    server = fleet.places.address("ps-0")
    with fleet.places.ruled("worker-1", ("OUTPUT",), "-d", server, *DROP):
        fleet.says("worker 1 has not ended a closure in ")
        fleet.trains(1)
    fleet.trains(2)
    # Connections to the parameter server are refused, and those that there are are reset. The same
    # process is there afterwards, with what it was told before.
    for times in (1, 2, 3):
        with fleet.places.ruled("ps-0", ("INPUT",), *RESET):
            fleet.says("waiting for parameter server 0", times)
        fleet.says("none is missing", times)
        fleet.trains(2)
    # The coordinator is cut off from everybody.
    with fleet.places.ruled("chief-0", BOTH_WAYS, *DROP):
        fleet.says("parameter server 0 has not answered for ")
    fleet.says("none is missing", 4)
    fleet.trains(2)
    assert fleet.ends(tmp_path)["updates_lost"] == 0


def test_a_slow_network_is_no_failure(
    processes: Processes, network: Network, tmp_path: pathlib.Path
) -> None:
    fleet = Fleet(processes, network, tmp_path)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(fleet.places.slowed("ps-0", "10mbit"))
        except RuntimeError as error:
            pytest.skip(f"no network can be slowed down here: {error}")
        fleet.trains(2)
        fleet.trains(2)
    summary = fleet.ends(tmp_path)
    assert (summary["task_failures"], summary["recoveries"]) == ([], 0)
