"""Sizes for people, and limits of the machine and of containers."""

import pathlib
import subprocess
import sys

import pytest

from ps_dqn.errors import UsageError
from ps_dqn.replay import budget
from ps_dqn.replay.budget import Limit

ROOT = pathlib.Path(__file__).parents[2]
MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("1073741824", 1_073_741_824),
        ("2GiB", 2_147_483_648),
        ("500MB", 500_000_000),
        ("64 KiB", 65_536),
        ("3kB", 3_000),
        ("1.5gib", 1_610_612_736),
        ("0.25TB", 250_000_000_000),
        (" 1TiB ", 1_099_511_627_776),
        ("7B", 7),
        ("2", 2),
    ],
)
def test_sizes_are_read(text: str, nbytes: int) -> None:
    assert budget.parse(text) == nbytes


@pytest.mark.parametrize(("text", "nbytes"), [("50%", 500), (" 12.5 % ", 125), ("99.9%", 999)])
def test_shares_are_of_what_is_available(text: str, nbytes: int) -> None:
    assert budget.is_share(text)
    assert budget.parse(text, available_bytes=1000) == nbytes


def test_a_share_is_of_this_process_where_nothing_else_is_said() -> None:
    assert budget.parse("50%") == budget.available().nbytes // 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GiB",
        "-2GiB",
        "2GiBs",
        "2 G",
        "1e9",
        "2,5GiB",
        "0MB",
        "0.1B",
        "nan",
        "infGB",
        "٣MB",
        "0%",
        "100%",
        "50%%",
        "half%",
    ],
)
def test_what_is_no_size_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        budget.parse(text)
    assert str(caught.value).startswith(f"--replay_memory={text}: ")
    assert "2GiB, 500MB or 1073741824" in str(caught.value)


@pytest.mark.parametrize(
    ("nbytes", "shown"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (MIB - 1, "1.0 MiB"),
        (500_000_000, "476.8 MiB"),
        (2 * GIB, "2.0 GiB"),
        (3 * 1024 * GIB, "3.0 TiB"),
        (5000 * 1024 * GIB, "5000.0 TiB"),
    ],
)
def test_sizes_are_shown(nbytes: int, shown: str) -> None:
    assert budget.show(nbytes) == shown


class Groups:
    """A machine's files about control groups."""

    def __init__(self, root: pathlib.Path, *own: str):
        self.root = root
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/cgroup").write_text("".join(f"{line}\n" for line in own))

    def limit(self, path: str, text: object) -> "Groups":
        file = self.root / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
        return self

    def available(self, machine_bytes: int = 8 * GIB) -> Limit:
        return budget.available(self.root, machine_bytes)


MACHINE, CONTAINER = "of the machine", "of the container's limit"


def test_without_control_groups_the_machine_counts(tmp_path: pathlib.Path) -> None:
    assert budget.available(tmp_path, 8 * GIB) == Limit(8 * GIB, MACHINE)


def test_the_machine_is_asked_for_its_memory(tmp_path: pathlib.Path) -> None:
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    [kib] = [int(line.split()[1]) for line in lines if line.startswith("MemTotal:")]
    assert budget.available(tmp_path) == Limit(1024 * kib, MACHINE)


def test_this_machine_has_an_answer() -> None:
    found = budget.available()
    assert 0 < found.nbytes <= budget.available(pathlib.Path("/nowhere")).nbytes


def test_a_group_without_a_limit_is_no_limit(tmp_path: pathlib.Path) -> None:
    groups = Groups(tmp_path, "0::/session").limit("session/memory.max", "max")
    assert groups.available() == Limit(8 * GIB, MACHINE)


def test_a_limit_above_the_machine_is_no_limit(tmp_path: pathlib.Path) -> None:
    # What version 1 shows where nothing is limited.
    groups = Groups(tmp_path, "4:memory:/").limit("memory/memory.limit_in_bytes", 2**63 - 4096)
    assert groups.available() == Limit(8 * GIB, MACHINE)


def test_the_own_groups_limit_counts(tmp_path: pathlib.Path) -> None:
    groups = Groups(tmp_path, "0::/a/b").limit("a/b/memory.max", 2 * GIB)
    assert groups.available() == Limit(2 * GIB, CONTAINER)


@pytest.mark.parametrize("path", ["memory.max", "a/memory.max"])
def test_limits_of_the_groups_around_it_count(tmp_path: pathlib.Path, path: str) -> None:
    groups = Groups(tmp_path, "0::/a/b").limit("a/b/memory.max", 3 * GIB).limit(path, GIB)
    assert groups.available() == Limit(GIB, CONTAINER)


def test_a_container_sees_its_limit_at_the_mount_point(tmp_path: pathlib.Path) -> None:
    # The path is the host's, and none of its folders can be seen from inside.
    groups = Groups(tmp_path, "0::/../../kubepods/pod1").limit("memory.max", GIB)
    assert groups.available() == Limit(GIB, CONTAINER)


def test_nothing_above_the_mount_point_is_read(tmp_path: pathlib.Path) -> None:
    groups = Groups(tmp_path, "0::/a").limit("a/memory.max", 2 * GIB).limit("../memory.max", GIB)
    assert groups.available() == Limit(2 * GIB, CONTAINER)


def test_version_1_and_2_may_be_there_together(tmp_path: pathlib.Path) -> None:
    groups = Groups(tmp_path, "9:name=systemd:/", "4:cpu,memory:/job", "3:cpuset:/", "0::/")
    groups.limit("memory/job/memory.limit_in_bytes", 3 * GIB)
    assert groups.available() == Limit(3 * GIB, CONTAINER)
    groups.limit("cpuset/memory.limit_in_bytes", GIB)  # of no meaning there
    assert groups.available() == Limit(3 * GIB, CONTAINER)


def test_it_needs_no_numpy() -> None:
    program = (
        "import sys, ps_dqn.replay.budget as memory\n"
        "memory.available()\n"
        "memory.Contents(4, 100, prioritized=True).rows_that_fit(10**6)\n"
        "print(sorted({'numpy', 'tensorflow'} & sys.modules.keys()))\n"
    )
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout == "[]\n"
