"""Tasks that stand still, stopped so that their connections stay: noticed, and gone on without."""

import json
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
from ps_dqn.run import signals

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

FLAGS = (*ENDLESS, "--checkpoint_period=0.5")


def goes_on(running: Running) -> None:
    """Waits until it has trained on."""
    heard = running.count("updates/s")
    real.until(lambda: running.count("updates/s") > heard + 3, 120, f"training:\n{running.text}")


def ends_well(running: Running, folder: pathlib.Path) -> None:
    """Told to stop, the run saves what it has and says so."""
    os.kill(running.pid, signal.SIGINT)
    assert running.ended(60) == 128 + signal.SIGINT, running.text
    assert json.loads((folder / "summary.json").read_text())["reason"] == "stopped"
    assert "Traceback" not in running.text
    assert running.count("error") == 0, running.text


def local_run(processes: Processes, folder: pathlib.Path, *flags: str) -> Running:
    running = processes.start(
        *("-m", "ps_dqn.coordinator", f"--run_dir={folder}", *FLAGS, *flags),
        PYTHONPATH=str(pathlib.Path(__file__).parents[1]),
    )
    running.trains()
    real.until(lambda: list(folder.glob("checkpoints/updates-*.npz")), 60, "a checkpoint")
    return running


def stop(processes: Processes, folder: pathlib.Path, task: str) -> None:
    process = processes.writing_to(folder / "logs" / f"{task}.log")
    assert process
    os.kill(process, signal.SIGSTOP)


@pytest.mark.slow
def test_a_local_worker_that_stands_still_is_replaced(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    running = local_run(processes, tmp_path)

    stop(processes, tmp_path, "worker-1")

    said = running.line_with("has not answered", 60)
    assert said.startswith("worker 1 has not answered for ")
    assert said.endswith(" s: it is ended")
    running.line_with("worker 1 was killed by SIGKILL; started again (1 of 5)", 30)
    goes_on(running)
    running.line_with("rounds wait for worker 1 again: it pushes", 120)
    ends_well(running, tmp_path)
    processes.all_gone(10)


@pytest.mark.slow
def test_a_local_parameter_server_that_stands_still_is_replaced(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    running = local_run(processes, tmp_path, "--num_ps=2")

    stop(processes, tmp_path, "ps-1")

    running.line_with("parameter server 1 has not answered for ", 60)
    running.line_with("parameter server 1 was killed by SIGKILL; started again (1 of 5)", 60)
    assert running.line_with("goes on at ", 180).endswith("none is missing")
    goes_on(running)
    ends_well(running, tmp_path)
    processes.all_gone(10)


@pytest.mark.slow
def test_a_worker_whose_environment_stands_still_is_replaced(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    # The first process to make the mark is the one that hangs, once.
    mark = tmp_path / "hangs"
    mark.touch()
    running = local_run(
        processes,
        tmp_path / "run",
        *("--env_module=support.hanging_env", "--env_id=Hanging-v0", "--worker_timeout=10"),
        f'--env_kwargs={{"mark": "{mark}"}}',
    )

    said = running.line_with("has not ended a closure in ", 120)
    assert said.endswith(" s: it is ended")
    assert not mark.exists()
    goes_on(running)
    running.line_with("again: it pushes", 120)
    ends_well(running, tmp_path / "run")
    processes.all_gone(10)


@pytest.mark.parametrize("which", tiered(["worker-1", "ps-0"], slow=("ps-0",)))
def test_a_remote_task_that_stands_still_is_gone_on_without_and_taken_again(
    processes: Processes, tmp_path: pathlib.Path, which: str
) -> None:
    spec = ports.on_this_machine(1, 2)

    def start(job: str, index: int, *flags: str) -> Running:
        place = spec.tf_config(Task(job, index))
        return processes.start("-m", MODULES[job], *flags, TF_CONFIG=place)

    tasks = {"ps-0": start("ps", 0), "worker-0": start("worker", 0), "worker-1": start("worker", 1)}
    running = start("chief", 0, f"--run_dir={tmp_path}", *FLAGS)
    running.trains()
    real.until(lambda: list(tmp_path.glob("checkpoints/updates-*.npz")), 60, "a checkpoint")

    os.kill(tasks[which].pid, signal.SIGSTOP)

    running.line_with("has not answered for ", 60)
    if which == "worker-1":
        running.line_with("worker 1 is lost: rounds go on without it until it pushes", 60)
        goes_on(running)
    else:
        running.line_with("waiting for parameter server 0", 60)
    os.kill(tasks[which].pid, signal.SIGCONT)
    running.line_with("answers again", 60)
    if which == "worker-1":
        running.line_with("rounds wait for worker 1 again: it pushes", 120)
    goes_on(running)
    ends_well(running, tmp_path)
    assert all(task.process.poll() is None for task in tasks.values())


@pytest.mark.slow
def test_a_remote_worker_whose_environment_stands_still_ends(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    spec, mark = ports.on_this_machine(1, 2), tmp_path / "hangs"
    mark.touch()
    tests = str(pathlib.Path(__file__).parents[1])

    def start(job: str, index: int, *flags: str) -> Running:
        place = spec.tf_config(Task(job, index))
        return processes.start("-m", MODULES[job], *flags, TF_CONFIG=place, PYTHONPATH=tests)

    tasks = [start("ps", 0), start("worker", 0), start("worker", 1)]
    running = start(
        *("chief", 0, f"--run_dir={tmp_path / 'run'}", *FLAGS, "--env_timeout=10"),
        *("--env_module=support.hanging_env", "--env_id=Hanging-v0"),
        f'--env_kwargs={{"mark": "{mark}"}}',
    )
    gone = real.until(
        lambda: next((task for task in tasks if task.process.poll() is not None), None),
        120,
        "a worker to end",
    )
    assert gone.ended(10) == 1
    assert gone.count("did not return within --env_timeout=10 s: this process ends") == 1, gone.text
    goes_on(running)
    worker = tasks.index(gone) - 1
    start("worker", worker)
    running.line_with(f"rounds wait for worker {worker} again: it pushes", 120)
    ends_well(running, tmp_path / "run")


@pytest.mark.slow
def test_a_parameter_server_that_stays_away_ends_the_run(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    spec = ports.on_this_machine(1, 1)
    ps = processes.start("-m", MODULES["ps"], TF_CONFIG=spec.tf_config(Task("ps", 0)))
    worker = processes.start("-m", MODULES["worker"], TF_CONFIG=spec.tf_config(Task("worker", 0)))
    running = processes.start(
        *("-m", MODULES["chief"], f"--run_dir={tmp_path}", *FLAGS, "--ps_recovery_timeout=3"),
        TF_CONFIG=spec.tf_config(Task("chief", 0)),
    )
    running.trains()
    real.until(lambda: list(tmp_path.glob("checkpoints/updates-*.npz")), 60, "a checkpoint")

    os.kill(ps.pid, signal.SIGKILL)

    address = spec.addresses("ps")[0]
    running.line_with(
        f"error: parameter server 0 at {address} did not serve within 3 s (--ps_recovery_timeout)",
        60,
    )
    assert running.ended(30) == 1, running.text
    assert worker.process.poll() is None


@pytest.mark.slow
def test_what_a_server_that_stands_still_held_is_saved_when_the_run_is_told_to_end(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    running = processes.start(
        *("-m", "ps_dqn.coordinator", f"--run_dir={tmp_path}", *ENDLESS),
        *("--checkpoint_period=100000", "--snapshot_period=0.1"),
        PYTHONPATH=str(pathlib.Path(__file__).parents[1]),
    )
    running.trains()
    goes_on(running)
    stop(processes, tmp_path, "ps-0")
    os.kill(running.pid, signal.SIGTERM)
    assert running.ended(60) == signals.START_AGAIN, running.text
    line = running.line_with("saved what the parameter servers held")
    [newest] = tmp_path.glob("checkpoints/updates-*.npz")
    assert line.endswith(f" at {int(newest.stem.rpartition('-')[2]):,} updates")
    processes.all_gone(10)
