"""The run directory that is asked for, and one run at a time in it."""

import os
import pathlib
import socket
import subprocess
import sys

import pytest
from support import seen_by
from support.command_lines import only_error
from support.programs import inherited_environment

from ps_dqn.coordinator import __main__ as coordinator
from ps_dqn.errors import UsageError
from ps_dqn.run import directory, lock

HOLDS = """
import pathlib, sys
from ps_dqn.run import directory

directory.create(pathlib.Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: pathlib.Path):
    """Another process that writes into the folder until its input is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=inherited_environment(),
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.communicate()


def test_second_process_is_refused_until_the_first_has_ended(tmp_path, holder) -> None:
    (tmp_path / directory.SUMMARY).write_text("of the first")
    unfinished = tmp_path / directory.CHECKPOINTS / "updates-000000000010.7-7.tmp"
    unfinished.touch()  # which it is writing
    with pytest.raises(UsageError) as refused:
        directory.create(tmp_path)
    assert str(refused.value) == (
        f"--run_dir={tmp_path}: process {holder.pid} on {socket.gethostname()} writes into it; "
        f"wait until it has ended, or say another folder"
    )
    assert (tmp_path / directory.SUMMARY).read_text() == "of the first"
    assert unfinished.exists()
    holder.kill()
    holder.wait()
    directory.create(tmp_path)
    assert not unfinished.exists()
    directory.create(tmp_path)  # again, as one that connects anew does
    held = f"{os.getpid()} {socket.gethostname()} {lock.boot()}\n"
    assert (tmp_path / lock.LOCK).read_text() == held


NAMESAKE = f"7 {socket.gethostname()} 00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (f"{NAMESAKE}", f"7 on {socket.gethostname()}"),  # as all coordinators of Kubernetes are
        ("7 elsewhere 00000000-0000-0000-0000-000000000000", "7 on elsewhere"),
        ("7 elsewhere", "7 on elsewhere"),  # an older version's
    ],
)
def test_process_of_another_machine_is_waited_for(
    tmp_path, holder, monkeypatch, capsys, written: str, shown: str
) -> None:
    (tmp_path / lock.LOCK).write_text(f"{written}\n")
    monkeypatch.setattr(lock, "OTHERS_SECONDS", 0.0)
    seen_by.clock(monkeypatch, lock, sleep=lambda _: None)
    with pytest.raises(UsageError, match=f"process {shown} writes into it"):
        lock.hold(tmp_path)
    capsys.readouterr()
    monkeypatch.setattr(lock, "OTHERS_SECONDS", 60.0)
    seen_by.clock(monkeypatch, lock, sleep=lambda _: (holder.kill(), holder.wait()))
    lock.hold(tmp_path)
    assert capsys.readouterr().out == f"waiting for process {shown} to let go of {tmp_path}\n"


def test_a_lease_of_nfs_is_outlasted() -> None:
    assert lock.OTHERS_SECONDS > 90


def test_a_machine_without_a_boot_id_goes_by_its_name(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(lock, "_BOOT", tmp_path / "nowhere")
    assert lock.boot() == socket.gethostname()


def test_forked_tasks_do_not_hold_it(tmp_path) -> None:
    code = (
        "import os, pathlib, sys, time\n"
        "from ps_dqn.run import lock\n"
        "lock.hold(pathlib.Path(sys.argv[1]))\n"
        "child = os.fork()\n"
        "print(child, flush=True) if child else sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=inherited_environment(),
    )
    child = int(process.stdout.readline())
    process.wait()
    os.kill(child, 0)  # it is there
    lock.hold(tmp_path)
    process.stdin.close()
    process.stdout.close()


def test_command_is_refused_before_anything_starts(tmp_path, holder) -> None:
    command = [sys.executable, "-m", "ps_dqn.coordinator", f"--run_dir={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, env=inherited_environment())
    assert done.returncode == 2
    assert f"process {holder.pid} on" in only_error(done.stderr)
    assert not (tmp_path / directory.FLAGFILE).exists()


def test_run_directory_may_be_under_the_home(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    flags = coordinator._define()
    assert coordinator._parse(flags, ["program", "--run_dir=~/run"]) == tmp_path / "run"


def test_it_is_seen_whether_a_run_goes_on(
    holder: subprocess.Popen[str], tmp_path: pathlib.Path
) -> None:
    assert lock.may_be_held(tmp_path)
    holder.communicate()
    assert not lock.may_be_held(tmp_path)  # the file stays
    assert not lock.may_be_held(tmp_path / "nowhere")
    (tmp_path / lock.LOCK).write_text("7 elsewhere\n")
    assert lock.may_be_held(tmp_path)
    (tmp_path / lock.LOCK).write_text(NAMESAKE)
    assert not lock.may_be_held(tmp_path)  # of before this machine was started, and nobody's now
    (tmp_path / lock.LOCK).write_text(f"{2**22 + 1} {socket.gethostname()}\n")
    assert not lock.may_be_held(tmp_path)  # an older version's


def test_one_of_another_machine_of_that_name_is_asked_for_by_its_lock(
    holder: subprocess.Popen[str], tmp_path: pathlib.Path
) -> None:
    (tmp_path / lock.LOCK).write_text(NAMESAKE)  # what is in it says nothing of who has it
    assert lock.may_be_held(tmp_path)
    assert lock.may_be_held(tmp_path), "to ask does not let go of it"
