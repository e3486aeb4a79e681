"""Tasks that stand still as soon as the coordinator has connected to them, before it trains."""

import os
import pathlib
import signal
import sys

import pytest
from support import processes as real
from support.processes import Processes, Running
from support.remote_tasks import ENDLESS, MODULES
from support.tiers import tiered

from ps_dqn.cluster import ports
from ps_dqn.cluster.spec import Task

TESTS = str(pathlib.Path(__file__).parents[1])
FLAGS = (
    *(flag for flag in ENDLESS if not flag.startswith("--hidden_sizes")),
    "--network=support.stopping_network:dense",
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def ends(running: Running) -> None:
    """Told to, it ends in good order."""
    os.kill(running.pid, signal.SIGTERM)
    assert running.ended(60) == 75, running.text
    assert running.count("Traceback") == 0, running.text


@pytest.mark.parametrize("task", ["worker-1", "ps-0"])
@pytest.mark.parametrize("flags", tiered([(), ("--restart",)], slow=((),)), ids=["", "restart"])
def test_a_local_task_is_replaced(
    processes: Processes, tmp_path: pathlib.Path, task: str, flags: tuple[str, ...]
) -> None:
    mark, folder = tmp_path / "stops", tmp_path / "run"
    mark.write_text(str(folder / "logs" / f"{task}.log"))
    running = processes.start(
        *("-m", "ps_dqn.coordinator", f"--run_dir={folder}", *FLAGS, *flags),
        **{"PYTHONPATH": TESTS, "STOPS": str(mark)},
    )
    running.trains()
    assert not mark.exists()
    assert running.count("s: it is ended") == 1, running.text
    ends(running)
    processes.all_gone(10)


@pytest.mark.parametrize("which", tiered(["worker-1", "ps-0"], slow=("ps-0",)))
def test_a_remote_task_is_taken_again(
    processes: Processes, tmp_path: pathlib.Path, which: str
) -> None:
    spec, mark = ports.on_this_machine(1, 2), tmp_path / "stops"
    environment = {"PYTHONPATH": TESTS, "STOPS": str(mark)}

    def start(job: str, index: int, *flags: str) -> Running:
        place = spec.tf_config(Task(job, index))
        return processes.start("-m", MODULES[job], *flags, TF_CONFIG=place, **environment)

    tasks = {"ps-0": start("ps", 0), "worker-0": start("worker", 0), "worker-1": start("worker", 1)}
    mark.write_text(real.output_of(tasks[which].pid))
    running = start("chief", 0, f"--run_dir={tmp_path / 'run'}", *FLAGS)
    running.line_with("has not answered for ", 120)
    if which == "worker-1":
        running.trains()  # without it
    os.kill(tasks[which].pid, signal.SIGCONT)
    running.line_with("answers again", 60)
    heard = running.count("workers 2/2")
    real.until(lambda: running.count("workers 2/2") > heard, 120, f"both:\n{running.text}")
    ends(running)
