"""One run on Kubernetes, as `python -m ps_dqn.launch k8s` was asked for it."""

import dataclasses
import pathlib
from typing import NamedTuple

from ps_dqn.kubernetes.dns import Dns
from ps_dqn.kubernetes.names import Place


class Image(NamedTuple):
    """A container image: its name, and the tag or the digest that says which; one is empty."""

    name: str
    tag: str
    digest: str

    def __str__(self) -> str:
        """As Kubernetes has it."""
        return f"{self.name}@{self.digest}" if self.digest else f"{self.name}:{self.tag}"


@dataclasses.dataclass(frozen=True)
class Storage:
    """The volume of the run directory; what is empty is as the manifests have it."""

    size: str
    storage_class: str
    access_mode: str


class Patch(NamedTuple):
    """What the manifests should say beside what flags do."""

    name: str  # of the file in the run's folder
    said: str  # the flag that asks for it
    content: bytes


class ExtraRole(NamedTuple):
    """Tasks that some runs have beside workers and parameter servers."""

    component: str  # the folder of their manifests
    role: str
    pods: int

    @property
    def variable(self) -> str:
        """What their Service's name is called in the ConfigMap `cluster`."""
        return self.role.replace("-", "_").upper()


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What is trained: the flagfile, and of what is in it what people are told."""

    content: bytes
    env_id: str
    topology: str = "local"
    num_actors: int = 0  # that have pods of their own
    has_servers: bool = True  # or the workers hold the parameters


@dataclasses.dataclass(frozen=True)
class Launch:
    """One run on Kubernetes; whoever has it need not check it again."""

    place: Place
    image: Image
    worker_image: str  # empty: as the others
    tls_image: Image | None  # None: tasks speak without TLS
    workers: int  # of Ape-X and of SEED the learners
    ps: int
    extra: tuple[ExtraRole, ...]
    experiment: Experiment
    overlay: str
    cpu: dict[str, str]  # by role; of those that are not there, as the manifests have it
    memory: dict[str, str]
    storage: Storage
    dns: Dns | None  # None: as the manifests have it
    free_nodes: bool  # of workers and parameter servers, when the run is over
    patches: tuple[Patch, ...]
    output: pathlib.Path
    dry_run: bool
    apply: bool
