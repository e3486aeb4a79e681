"""Tasks that have a network namespace each, whose packets can be lost, refused or slowed down."""

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence

from ps_dqn.cluster.spec import ClusterSpec
from support.pods.network import Network, command

CAN = hasattr(os, "geteuid") and os.geteuid() == 0 and all(map(shutil.which, ("ip", "iptables")))
WHY_NOT = "needs root, iproute2 and iptables"
PORT = 2222
BOTH_WAYS = ("INPUT", "OUTPUT")
RESET = ("-j", "REJECT", "--reject-with", "tcp-reset")
DROP = ("-j", "DROP")


class Places:
    """A coordinator's place, and those of its tasks."""

    def __init__(self, network: Network, servers: int, workers: int):
        """Makes them: `chief-0`, `ps-0` and so on."""
        ps = [f"ps-{index}" for index in range(servers)]
        tasks = [f"worker-{index}" for index in range(workers)]
        self._interfaces = {name: network.attach(name) for name in ["chief-0", *ps, *tasks]}
        self.spec = ClusterSpec(
            self._at("chief-0"), tuple(map(self._at, ps)), tuple(map(self._at, tasks))
        )

    def address(self, name: str) -> str:
        """A task's address, without a port."""
        return self._interfaces[name].address

    def within(self, name: str) -> Sequence[str]:
        """The command that a program comes after to run there."""
        return ("ip", "netns", "exec", self._interfaces[name].namespace)

    @contextlib.contextmanager
    def ruled(self, name: str, chains: Sequence[str], *rule: str) -> Iterator[None]:
        """What becomes of a task's packets while the block runs."""
        for how in ("-A", "-D"):
            for chain in chains:
                command(*self.within(name), "iptables", how, chain, "-p", "tcp", *rule)
            if how == "-A":
                yield

    @contextlib.contextmanager
    def slowed(self, name: str, rate: str) -> Iterator[None]:
        """A task sends no faster than this while the block runs.

        Raises:
            RuntimeError: the kernel cannot do it.
        """
        queue = ("qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate)
        command(*self.within(name), "tc", *queue, "burst", "32kbit", "latency", "400ms")
        yield
        command(*self.within(name), "tc", "qdisc", "del", "dev", "eth0", "root")

    def _at(self, name: str) -> str:
        return f"{self.address(name)}:{PORT}"
