"""A pod and what a kubelet does with it."""

import dataclasses
import os
import pathlib
import time
from concurrent.futures import Future
from typing import Protocol

from support.pods import filesystem
from support.pods.container import Container
from support.pods.fields import UnknownFieldError
from support.pods.filesystem import Mount
from support.pods.network import Interface, Network
from support.pods.place import Place, Shared
from support.pods.probes import Probe, Prober, Probes
from support.pods.template import Program, Template, Volume

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
        self._sources: dict[str, pathlib.Path] = {}  # of volumes, by name
        self._place = self._make_place(template.program, node.logs / f"{self._folder.name}.log")
        self._sidecars = [
            self._make_place(each, node.logs / f"{self._folder.name}-{each.name}.log")
            for each in template.sidecars
        ]
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
        """Of the container's program."""
        return self._place.log

    @property
    def _container(self) -> Container | None:
        return self._place.container

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
        for sidecar in self._sidecars:
            sidecar.keep_up()
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
        self._place.start()
        self._probes = Probes(self.template.probes, self._ask)
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
        self._place.stop()
        self._probes, self._stopping = None, None
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
        self._probes = None
        for place in (self._place, *self._sidecars):  # the sidecars last
            place.close()
        self._node.network.detach(self.interface)
        self.phase, self.gone = phase, True

    def _make_place(self, program: Program, log: pathlib.Path) -> Place:
        mounts = [Mount(self._node.settings.folder, "/etc", read_only=True)]
        mounts += [self._mount(each) for each in program.volumes]
        shared = Shared(self.template, self.interface, self._folder)
        return Place(program, shared, mounts, log)

    def _mount(self, volume: Volume) -> Mount:
        if volume.name not in self._sources:
            self._sources[volume.name] = self._source(volume)
        folder = self._sources[volume.name]
        if not volume.read_only:
            # fsGroup: whoever is in that group may write, and what is made belongs to it.
            os.chown(folder, 0, self.template.identity.supplementary[0])
            folder.chmod(0o2775)
        return Mount(folder, volume.target, volume.read_only)

    def _source(self, volume: Volume) -> pathlib.Path:
        folder = self._node.shared(volume)
        if folder is not None:
            return folder
        if "emptyDir" not in volume.source:
            raise UnknownFieldError(f"volume: {volume.source}")
        own = self._folder / volume.name
        own.mkdir()
        return own
