"""How much memory a replay takes and may take; known before anything is allocated.

Needs neither NumPy nor TensorFlow, so that a command can refuse a replay that is too large at once.
"""

import contextlib
import dataclasses
import os
import pathlib
import re

from ps_dqn.errors import UsageError

_UNITS = {"": 1, "B": 1} | {
    f"{letter}{suffix}": base**power
    for suffix, base in (("B", 1000), ("IB", 1024))
    for power, letter in enumerate("KMGT", start=1)
}
_FACTS = 4 + 4 + 1 + 1  # bytes of a row: action, reward, end, flags
_CHECKSUM = 4 + 8  # with its position
_COMPRESSED = 8 + 4  # where a row's bytes begin, and how many they are
_TREE_NODE = 8  # a sum
_ANNOUNCED = 4  # an error that came with its row


def is_share(text: str) -> bool:
    """Whether a size is a share of the memory a worker may use, which may differ among them."""
    return text.strip().endswith("%")


def parse(text: str, available_bytes: int | None = None) -> int:
    """The bytes that a size stands for.

    Args:
        text: a number, alone or with B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB
            (powers of 1024); or one with %, a share of what is available.
        available_bytes: of which a share is; None: what this process may use.

    Raises:
        UsageError: it is no such size, less than a byte, or not less than everything.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*|%)", text.strip(), re.ASCII | re.IGNORECASE)
    number, unit = (float(match[1]), match[2].upper()) if match else (0.0, "")
    if unit == "%" and 0 < number < 100:
        available_bytes = available().nbytes if available_bytes is None else available_bytes
        return int(available_bytes * number / 100)
    nbytes = int(number * _UNITS.get(unit, 0))
    if not nbytes:
        raise UsageError(
            f"--replay_memory={text}: not a size: write bytes, a number with a unit, such as "
            f"2GiB, 500MB or 1073741824, or a share of the worker's memory, such as 50%"
        )
    return nbytes


def show(nbytes: int) -> str:
    """A size for people, like 2.0 GiB."""
    if nbytes < 1024:
        return f"{nbytes} bytes"
    size, units = nbytes / 1024, ["KiB", "MiB", "GiB", "TiB"]
    while size >= 1023.95 and len(units) > 1:  # what would be shown as 1024.0
        size, units = size / 1024, units[1:]
    return f"{size:.1f} {units[0]}"


@dataclasses.dataclass(frozen=True)
class Limit:
    """An amount of memory, and what it is of."""

    nbytes: int
    what: str  # goes after the amount: 2.0 GiB of the machine


def available(root: pathlib.Path = pathlib.Path("/"), machine_bytes: int | None = None) -> Limit:
    """The most memory this process may ever use, whatever others use now.

    Args:
        root: where `proc/self/cgroup` and `sys/fs/cgroup` are.
        machine_bytes: memory of the machine; None: ask the system.

    Returns:
        The smallest of the machine's memory and the limits of the process's control groups, of
        both versions, and of the groups they are in.
    """
    if machine_bytes is None:
        machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = min(_container_limits(root), default=machine_bytes)
    if limit < machine_bytes:
        return Limit(limit, "of the container's limit")
    return Limit(machine_bytes, "of the machine")


def _container_limits(root: pathlib.Path) -> list[int]:
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:  # no control groups here
        return []
    mount = root / "sys/fs/cgroup"
    limits = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            limits += _limits(mount, path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits(mount / "memory", path, "memory.limit_in_bytes")
    return limits


def _limits(mount: pathlib.Path, path: str, name: str) -> list[int]:
    """Limits of a control group and all it is in.

    In a container the path is often the machine's, of which only the mount point can be seen.
    """
    group = mount / path.lstrip("/")
    found = []
    for folder in (group, *group.parents):
        if folder == mount.parent:
            break
        # A file that cannot be seen from here, or the word "max", is no limit.
        with contextlib.suppress(OSError, ValueError):
            found.append(int((folder / name).read_text(encoding="utf-8")))
    return found


@dataclasses.dataclass(frozen=True)
class Contents:
    """What a worker's replay keeps for each row, in numbers of bytes."""

    num_envs: int
    observation_bytes: int  # of one row: of the newest frame only if frames are stacked
    frame_stack: int = 1  # 1: observations are stored whole
    # What an observation is expected to become (an Atari frame: a tenth to a 25th); 0: it is stored
    # as it is.
    compressed_bytes: int = 0
    prioritized: bool = False
    announced: bool = False  # first priorities come with their rows
    persistent: bool = False
    mask_bytes: int = 0  # of a row's mask of actions
    state_bytes: int = 0  # of a recurrent state, kept once for each sequence
    period: int = 1  # rows from where a sequence may begin to where the next one may

    def nbytes(self, rows: int) -> int:
        """Bytes of a replay with `rows` rows for each environment, once it is full.

        Args:
            rows: a multiple of `period`.
        """
        total = self.num_envs * rows
        return self._tables(rows) + total * (self.compressed_bytes or self.observation_bytes)

    def rows_that_fit(self, budget: int) -> int:
        """The most rows for each environment, a multiple of `period`, in a budget (bytes).

        Returns:
            0 if not even the first rows fit.
        """
        period = self.period
        low, high = 0, budget // (self.num_envs * period) + 1
        while high - low > 1:  # low fits (or is 0), high does not
            middle = (low + high) // 2
            low, high = (middle, high) if self.nbytes(middle * period) <= budget else (low, middle)
        return low * period

    def arena_bytes(self, budget: int, rows: int) -> int:
        """What a budget leaves for the compressed observations of all environments (bytes)."""
        return max(budget - self._tables(rows), 0) // self.num_envs * self.num_envs

    def _tables(self, rows: int) -> int:
        """Bytes of everything but the observations."""
        total = self.num_envs * rows
        row = _FACTS + self.mask_bytes
        row += _COMPRESSED if self.compressed_bytes else 0
        row += _CHECKSUM if self.persistent else 0
        sequences = total // self.period
        nbytes = total * row + sequences * self.state_bytes
        if self.prioritized:
            leaves = 1 << max(sequences - 1, 1).bit_length()
            nbytes += 2 * leaves * _TREE_NODE
        if self.announced:
            nbytes += sequences * _ANNOUNCED
        # Each environment's newest stack, but for its oldest frame.
        return nbytes + self.num_envs * (self.frame_stack - 1) * self.observation_bytes
