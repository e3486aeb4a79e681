"""A cluster of rendered manifests, run on this machine by a test that waits for what happens."""

import collections
import contextlib
import dataclasses
import itertools
import os
import pathlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from support.manifests import matches, of_kind
from support.pods import memory_group, network
from support.pods.api import Api
from support.pods.controllers import Job, StatefulSet
from support.pods.fields import UnknownFieldError
from support.pods.filesystem import Settings
from support.pods.network import Network
from support.pods.pod import Pod
from support.pods.policy import Firewall, Member, Policy
from support.pods.probes import Prober
from support.pods.template import Volume, read

Object = dict[str, Any]
Found = TypeVar("Found")
_PROGRAMS = ("ip", "iptables-restore", "nsenter", "unshare", "setpriv", "chroot")
_DONE_HERE = {"ConfigMap", "Secret", "Service", "StatefulSet", "Job", "NetworkPolicy"}
_DONE_HERE |= {"ServiceAccount", "Role", "RoleBinding"}
# What there is nothing to do for: a folder is there when it is asked for, and nobody drains nodes.
_NOTHING_TO_DO = {"Namespace", "PersistentVolumeClaim", "PodDisruptionBudget"}
_TICK_SECONDS = 0.05
_TAIL_LINES = 15


def unavailable() -> str:
    """Why manifests cannot be run here, or an empty text."""
    if os.geteuid():
        return "needs root: namespaces and control groups"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} is not installed"
    return memory_group.unavailable()


class Cluster:
    """Pods and who looks after them. Time passes for them in `until` only."""

    def __init__(self, objects: Sequence[Object], folder: pathlib.Path):
        """Makes the network; no pod yet.

        Args:
            objects: all manifests, of one namespace.
            folder: for volumes and logs.

        Raises:
            UnknownFieldError: the manifests say something that this runner does not do.
        """
        unknown = {each["kind"] for each in objects} - _DONE_HERE - _NOTHING_TO_DO
        if unknown:
            raise UnknownFieldError(f"kind: {', '.join(sorted(unknown))}")
        memory_group.clear_leftovers()
        self._folder = folder
        self._numbers = itertools.count()
        self._objects = objects
        self._maps = {
            each["metadata"]["name"]: each["data"] for each in of_kind(objects, "ConfigMap")
        }
        self._secrets = {
            each["metadata"]["name"]: each["stringData"] for each in of_kind(objects, "Secret")
        }
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.settings = Settings(folder / "etc")
        self.stateful_sets = {
            each["metadata"]["name"]: StatefulSet(each, self._make)
            for each in of_kind(objects, "StatefulSet")
        }
        self.jobs = {
            each["metadata"]["name"]: Job(each, self._make) for each in of_kind(objects, "Job")
        }
        self._firewall = Firewall([Policy(each) for each in of_kind(objects, "NetworkPolicy")])
        self._outsiders: list[Member] = []
        self._members: list[Member] = []
        self._published: dict[str, str] = {}
        self.network = Network()
        self.prober = Prober(self.network.node)
        self.api: Api | None = None
        if of_kind(objects, "ServiceAccount"):
            at = self.outsider("kubernetes-api", {}).interface
            self.api = Api(objects, at, folder / "api", self._scale)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        """Ends everything, whatever of it fails to end."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.network.close)  # last
            if self.api is not None:
                stack.callback(self.api.close)
            for pod in self.pods():
                stack.callback(pod.close)
            stack.callback(self.prober.close)

    def pods(self) -> list[Pod]:
        """Those that are there."""
        controllers = [*self.stateful_sets.values(), *self.jobs.values()]
        return [pod for each in controllers for pod in each.pods() if not pod.gone]

    def pod(self, name: str) -> Pod | None:
        """The pod of a name, or the present one of a Job, if there is one."""
        job = self.jobs.get(name)
        found = [*job.pods()] if job else [pod for pod in self.pods() if pod.name == name]
        return found[0] if found and not found[0].gone else None

    def configure(self, name: str, key: str, text: str) -> None:
        """Changes a ConfigMap. Pods that mount it see it, those that took variables do not."""
        self._maps[name] = {**self._maps[name], key: text}
        self._write_map(name)

    @contextlib.contextmanager
    def cordoned(self) -> Iterator[None]:
        """No node takes another pod of a StatefulSet meanwhile."""
        for each in self.stateful_sets.values():
            each.is_cordoned = True
        yield
        for each in self.stateful_sets.values():
            each.is_cordoned = False

    def outsider(self, name: str, labels: dict[str, str]) -> Member:
        """Something else in the same network."""
        self._outsiders.append(Member(name, labels, self.network.attach(name)))
        self._refresh()
        return self._outsiders[-1]

    def connections(self) -> collections.Counter[tuple[str, str, str]]:
        """`Firewall.counts`."""
        self._refresh()  # some may have gone, and their namespaces with them
        return self._firewall.counts()

    def get(self, pod: Pod, port: int, path: str) -> tuple[int, str]:
        """A page of a pod as the node it runs on gets it: status and text."""
        return self.prober.get(pod.address, port, path, seconds=5.0)

    def until(self, found: Callable[[], Found], seconds: float, what: str) -> Found:
        """What `found` returns once that is true; time passes in the cluster meanwhile.

        Raises:
            AssertionError: it takes longer; the text has the pods and the ends of their logs.
        """
        deadline = time.monotonic() + seconds
        while not (value := found()):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {seconds} s for {what}\n{self.describe()}")
            self._tick()
            time.sleep(_TICK_SECONDS)
        return value

    def describe(self) -> str:
        """Where everything is, for a person."""
        lines = [
            f"job {job.name}: {job.state}, failures {job.failures}" for job in self.jobs.values()
        ]
        for pod in self.pods():
            ready = "ready" if pod.is_ready else "not ready"
            lines.append(f"{pod.name} {pod.address}: {pod.phase}, {ready}, ends {pod.exit_codes}")
        for log in sorted(self.logs.iterdir()):
            tail = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
            lines += [f"--- {log.name}", *tail]
        return "\n".join(lines)

    def shared(self, volume: Volume) -> pathlib.Path | None:
        """The folder of a claim, a ConfigMap or a Secret; None for one that is a pod's own."""
        if "persistentVolumeClaim" in volume.source:
            folder = self._folder / "claims" / volume.source["persistentVolumeClaim"]["claimName"]
            folder.mkdir(parents=True, exist_ok=True)
            return folder
        if "configMap" in volume.source:
            return self._write_map(volume.source["configMap"]["name"])
        if "serviceAccount" in volume.source:
            assert self.api is not None
            return self.api.account(volume.source["serviceAccount"])
        if "secret" in volume.source:
            return self._write("secrets", volume.source["secret"]["secretName"], self._secrets)
        return None

    def own(self, pod: str) -> pathlib.Path:
        """A new folder for a pod."""
        folder = self._folder / "pods" / f"{pod}-{next(self._numbers)}"
        folder.mkdir(parents=True)
        return folder

    def _write_map(self, name: str) -> pathlib.Path:
        return self._write("config", name, self._maps)

    def _write(self, kind: str, name: str, sources: dict[str, dict[str, str]]) -> pathlib.Path:
        folder = self._folder / kind / name
        folder.mkdir(parents=True, exist_ok=True)
        for key, text in sources[name].items():
            (folder / key).write_text(text)
        return folder

    def _make(self, name: str, template: Object, **spec: str) -> Pod:
        made = read(name, template, self._maps, **spec)
        if self.api is not None:
            environment = {**self.api.environment, **made.program.environment}
            program = dataclasses.replace(made.program, environment=environment)
            made = dataclasses.replace(made, program=program)
        return Pod(made, self)

    def _scale(self, name: str, replicas: int) -> None:
        self.stateful_sets[name].scale(replicas)

    def _tick(self) -> None:
        for controller in [*self.stateful_sets.values(), *self.jobs.values()]:
            controller.tick()
        self._refresh()  # before a new pod starts
        for pod in self.pods():
            pod.tick()

    def _refresh(self) -> None:
        """Tells everybody's address and lets through who may pass."""
        if self._names() != self._published:
            self._published = self._names()
            self.settings.publish(self._published)
        members = [Member(pod.name, pod.labels, pod.interface) for pod in self.pods()]
        if members + self._outsiders != self._members:
            self._members = members + self._outsiders
            self._firewall.enforce(self._members)

    def _names(self) -> dict[str, str]:
        """Host names with addresses: of the pods of headless Services."""
        names = {}
        for service in of_kind(self._objects, "Service"):
            spec, name = service["spec"], service["metadata"]["name"]
            for pod in self.pods():
                is_named = spec.get("clusterIP") == "None" and pod.template.subdomain == name
                is_published = spec.get("publishNotReadyAddresses", False) or pod.is_ready
                if (
                    is_named
                    and is_published
                    and matches({"matchLabels": spec["selector"]}, pod.labels)
                ):
                    names[f"{pod.template.host_name}.{name}"] = pod.address
        return names


def left_here() -> list[str]:
    """Namespaces and control groups this process has."""
    return [*network.made_here(), *memory_group.made_here()]
