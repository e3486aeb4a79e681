"""A disk that is full: while a run goes on, at its end, and when it begins."""

import csv
import itertools
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support import processes as real
from support.processes import Processes, Running

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="mounts a small file system"),
    pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() != 0, reason="mounting needs root"),
]

FLAGS = (
    "--target_return=inf",
    "--total_env_steps=100000000",
    "--eval_period=5000",
    "--metrics_period=1000",
    "--eval_episodes=2",
    "--log_interval=0.5",
    "--checkpoint_period=0.5",
    "--hidden_sizes=16,16",
    "--jit_compile=none",
)
FULL = "No space left on device"


@pytest.fixture
def disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"cannot mount: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: pathlib.Path) -> pathlib.Path:
    """Takes all the room that is left."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1024))
        except OSError:
            return filler


def start(processes: Processes, disk: pathlib.Path) -> Running:
    return processes.start("-m", "ps_dqn.coordinator", f"--run_dir={disk / 'run'}", *FLAGS)


def ends_with_every_row(running: Running, run: pathlib.Path) -> None:
    """Ctrl-C ends it in good order, and no row of its metrics is missing."""
    os.kill(running.pid, signal.SIGINT)
    assert running.ended() == 128 + signal.SIGINT, running.text
    assert running.count("Traceback") == running.count("error") == 0, running.text
    with (run / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    # From one to the next there is no more than what one closure makes.
    train = [int(row["env_steps"]) for row in rows if row["train/td_loss"]]
    assert train == sorted(train)
    assert max(b - a for a, b in itertools.pairwise(train)) < 15_000


def until_saved(running: Running, disk: pathlib.Path) -> pathlib.Path:
    """Waits for a checkpoint; the folder that it is in."""
    running.trains()
    checkpoints = disk / "run" / "checkpoints"
    real.until(lambda: list(checkpoints.glob("updates-*.npz")), 180, "a checkpoint")
    return checkpoints


def test_training_goes_on_and_everything_is_written_once_there_is_room(
    processes: Processes, disk: pathlib.Path
) -> None:
    running = start(processes, disk)
    checkpoints = until_saved(running, disk)

    filler = fill(disk)

    for what in ("checkpoints", "metrics"):
        # What a checkpoint has left when it was removed may be room enough for some rows.
        said = f"{what} cannot be written ({FULL})"
        real.until(lambda text=said: fill(disk) and running.count(text), 120, said)
    heard = running.count("updates/s")
    real.until(lambda: running.count("updates/s") > heard + 4, 180, "training")
    filler.unlink()
    running.line_with("checkpoints are written again")
    running.line_with("metrics are written again")
    ends_with_every_row(running, disk / "run")
    assert not list(checkpoints.glob("*.tmp"))
    processes.all_gone(10)


def test_a_server_that_is_lost_meanwhile_does_not_end_the_run(
    processes: Processes, disk: pathlib.Path
) -> None:
    running = start(processes, disk)
    until_saved(running, disk)
    for what in ("checkpoints", "metrics"):
        said = f"{what} cannot be written ({FULL})"
        real.until(lambda text=said: fill(disk) and running.count(text), 120, said)

    server = processes.writing_to(disk / "run" / "logs" / "ps-0.log")
    assert server
    os.kill(server, signal.SIGKILL)

    running.line_with("goes on at ", 120)
    heard = running.count("updates/s")
    real.until(lambda: running.count("updates/s") > heard + 4, 120, "training")
    (disk / "filler").unlink()
    running.line_with("metrics are written again")
    ends_with_every_row(running, disk / "run")
    assert not list((disk / "run").glob("*.tmp"))
    processes.all_gone(10)


def test_a_disk_that_stays_full_is_an_error_at_the_end(
    processes: Processes, disk: pathlib.Path
) -> None:
    running = start(processes, disk)
    until_saved(running, disk)
    said = f"checkpoints cannot be written ({FULL})"
    real.until(lambda: fill(disk) and running.count(said), 120, said)

    os.kill(running.pid, signal.SIGTERM)

    assert running.ended() == 1, running.text
    assert running.count("error: the last checkpoint could not be written") == 1, running.text
    assert running.count("Traceback") == 0, running.text
    processes.all_gone(10)
    # What was there is whole: the run can be resumed from it.
    (disk / "filler").unlink()
    again = start(processes, disk)
    again.line_with("resumed at ")
    again.trains()
    os.kill(again.pid, signal.SIGINT)
    assert again.ended() == 128 + signal.SIGINT, again.text


def test_a_full_disk_is_refused_at_the_start(processes: Processes, disk: pathlib.Path) -> None:
    fill(disk)
    running = start(processes, disk)
    assert running.ended() == 2, running.text
    # On a machine under load the environment may take its time, of which people hear.
    lines = [line for line in running.lines if "takes longer than" not in line]
    assert lines == [f"error: --run_dir={disk / 'run'}: cannot be written ({FULL})"]
