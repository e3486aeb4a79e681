"""Where a program of a pod runs: its limits, its volumes and its containers, one after another."""

import pathlib
from typing import NamedTuple

from support.pods import filesystem
from support.pods.container import Container
from support.pods.filesystem import Mount
from support.pods.memory_group import MemoryGroup
from support.pods.network import Interface
from support.pods.template import Program, Template


class Shared(NamedTuple):
    """What the programs of a pod have in common."""

    template: Template
    interface: Interface
    folder: pathlib.Path


class Place:
    """Of one program, for as long as its pod is there."""

    def __init__(self, program: Program, shared: Shared, mounts: list[Mount], log: pathlib.Path):
        self._program, self._shared, self.log = program, shared, log
        self._root = shared.folder / f"root-{program.name}"
        self._root.mkdir()
        self._group = MemoryGroup(f"{shared.folder.name}-{program.name}", program.memory)
        group = Mount(self._group.folder, str(self._group.seen_at), read_only=True)
        self._mounts = [*mounts, group]
        self.container: Container | None = None

    def start(self) -> Container:
        """Runs the program in a new container."""
        template = self._shared.template
        environment = {"HOSTNAME": template.host_name, **self._program.environment}
        script = filesystem.script(
            self._root, template.host_name, self._mounts, template.identity, self._program.command
        )
        interface = self._shared.interface
        self.container = Container(interface, self._group, script, environment, self.log)
        return self.container

    def keep_up(self) -> None:
        """Starts a sidecar, and starts it once more where it has ended."""
        if self.container is None or self.container.exit_code() is not None:
            self.stop()
            self.start()

    def stop(self) -> None:
        """Ends the container, whatever it does."""
        if self.container is not None:
            self.container.close()
            self.container = None

    def close(self) -> None:
        """Ends the container and lets the limits go."""
        self.stop()
        self._group.close()
