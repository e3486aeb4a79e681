"""A pod and what a kubelet does with it."""

import dataclasses
import os
import pathlib
import sys
import time
from concurrent.futures import Future
from typing import Protocol

from support.pods import filesystem
from support.pods.container import Container
from support.pods.fields import UnknownFieldError
from support.pods.filesystem import Mount
from support.pods.memory_group import MemoryGroup
from support.pods.network import Interface, Network
from support.pods.probes import Probe, Prober, Probes
from support.pods.template import Template, Volume

# The kubelet's: before a container is started once more, from its second end on (seconds).
_FIRST_BACKOFF, _LONGEST_BACKOFF = 10.0, 300.0
# What is left to a container after a preStop that takes the whole grace period (seconds).
_LEAST_GRACE = 2.0


class Node(Protocol):
    """What pods are given by where they run."""

    network: Network
    prober: Prober
    settings: filesystem.Settings
    logs: pathlib.Path

    def shared(self, volume: Volume) -> pathlib.Path | None:
        """The folder of a volume that is not a pod's own."""

    def own(self, pod: str) -> pathlib.Path:
        """A new folder for a pod."""


@dataclasses.dataclass
class _Stopping:
    """A container on its way out: when it is told, and when it is killed (time.monotonic())."""

    told_at: float
    killed_at: float
    told: bool = False


class Pod:
    """Starts when it is first ticked, and lives by being ticked."""

    def __init__(self, template: Template, node: Node):
        self.template = template
        self.interface: Interface = node.network.attach(template.name)
        self.phase = "Pending"
        self.conditions: set[str] = set()
        self.exit_codes: list[int] = []
        self.deleted = False
        self.gone = False  # wholly: no process and no address
        self._node = node
        self._folder = node.own(template.name)
        self._group = MemoryGroup(self._folder.name, template.memory)
        self._mounts = [Mount(node.settings.folder, "/etc", read_only=True), *self._volumes()]
        self._container: Container | None = None
        self._probes: Probes | None = None
        self._stopping: _Stopping | None = None
        self._start_at = time.monotonic()

    @property
    def name(self) -> str:
        return self.template.name

    @property
    def labels(self) -> dict[str, str]:
        return self.template.labels

    @property
    def address(self) -> str:
        return self.interface.address

    @property
    def is_over(self) -> bool:
        """Whether it has ended and is not started again."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_ready(self) -> bool:
        return self._probes is not None and self._probes.ready

    @property
    def pid(self) -> int:
        """Of the container's program, on this machine; 0 where it does not run."""
        return self._container.pid if self._container else 0

    @property
    def log(self) -> pathlib.Path:
        return self._node.logs / f"{self._folder.name}.log"

    def delete(self) -> None:
        """Has it stopped in the way its template says, and not started again."""
        self.deleted = True
        self._stop()

    def evict(self) -> None:
        """Deletes it as a drain of its node does."""
        self.conditions.add("DisruptionTarget")
        self.delete()

    def tick(self) -> None:
        """Does what is due."""
        if self.gone:
            return
        if self._container is None:
            if self.deleted:
                self._end("Failed")
            elif time.monotonic() >= self._start_at:
                self._start()
            return
        code = self._container.exit_code()
        if code is not None:
            self._ended(code)
        elif self._stopping is not None:
            self._go_on_stopping(self._container, self._stopping)
        else:
            assert self._probes is not None
            self._probes.tick()
            if self._probes.failed is not None:
                self._stop(self._probes.failed.grace_seconds)

    def close(self) -> None:
        """Ends it at once."""
        if not self.gone:
            self._end("Failed")

    def _start(self) -> None:
        template = self.template
        root = self._folder / "root"
        root.mkdir(exist_ok=True)
        mounts = [*self._mounts, self._group_mount()]
        program = [sys.executable, "-m", *template.arguments]
        environment = {"HOSTNAME": template.host_name, **template.environment}
        script = filesystem.script(root, template.host_name, mounts, template.identity, program)
        self._container = Container(self.interface, self._group, script, environment, self.log)
        self._probes = Probes(template.probes, self._ask)
        self.phase = "Running"

    def _ask(self, probe: Probe) -> Future:
        return self._node.prober.ask(self.address, probe)

    def _stop(self, grace_seconds: float | None = None) -> None:
        if self._stopping is None:
            now, template = time.monotonic(), self.template
            grace = template.grace_seconds if grace_seconds is None else grace_seconds
            told_at = now + min(template.pre_stop_seconds, grace)
            killed_at = max(now + grace, told_at + _LEAST_GRACE)
            self._stopping = _Stopping(told_at, killed_at)

    def _go_on_stopping(self, container: Container, stopping: _Stopping) -> None:
        now = time.monotonic()
        if now >= stopping.killed_at:
            container.kill()
        elif now >= stopping.told_at and not stopping.told:
            stopping.told = True
            container.ask_to_stop()

    def _ended(self, code: int) -> None:
        """As the restart policy says."""
        assert self._container is not None
        self._container.close()
        self._container, self._probes, self._stopping = None, None, None
        self.exit_codes.append(code)
        restart = self.template.restart_policy == "Always" or (
            self.template.restart_policy == "OnFailure" and code != 0
        )
        if self.deleted or not restart:
            self._end("Failed" if code else "Succeeded")
            return
        ends = len(self.exit_codes)
        backoff = min(_FIRST_BACKOFF * 2 ** (ends - 2), _LONGEST_BACKOFF) if ends > 1 else 0.0
        self._start_at = time.monotonic() + backoff

    def _end(self, phase: str) -> None:
        if self._container is not None:
            self._container.close()
            self._container, self._probes = None, None
        self._group.close()
        self._node.network.detach(self.interface)
        self.phase, self.gone = phase, True

    def _volumes(self) -> list[Mount]:
        mounts = []
        for volume in self.template.volumes:
            folder = self._node.shared(volume)
            if folder is None:
                if "emptyDir" not in volume.source:
                    raise UnknownFieldError(f"volume: {volume.source}")
                folder = self._folder / volume.name
                folder.mkdir()
            if not volume.read_only:
                # fsGroup: whoever is in that group may write, and what is made belongs to it.
                os.chown(folder, 0, self.template.identity.supplementary[0])
                folder.chmod(0o2775)
            mounts.append(Mount(folder, volume.target, volume.read_only))
        return mounts

    def _group_mount(self) -> Mount:
        return Mount(self._group.folder, str(self._group.seen_at), read_only=True)
