"""A pod as its template says it, with everything filled in that a kubelet fills in."""

import dataclasses
import math
import re
import sys
from typing import Any

from support.pods.fields import UnknownFieldError, refuse_unknown
from support.pods.filesystem import Identity
from support.pods.probes import Probe

Object = dict[str, Any]

# What a template may say here. Anything else would be obeyed on Kubernetes and not by this runner.
_POD = {
    "containers",
    "initContainers",
    "volumes",
    "hostname",
    "subdomain",
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "securityContext",
    "automountServiceAccountToken",
    "enableServiceLinks",
    "serviceAccountName",
}
_CONTAINER = {
    "name",
    "image",
    "args",
    "env",
    "envFrom",
    "ports",
    "resources",
    "lifecycle",
    "securityContext",
    "startupProbe",
    "livenessProbe",
    "readinessProbe",
    "volumeMounts",
}
# Beside another one for the pod's whole life: a sidecar.
_SIDECAR = {
    "name",
    "image",
    "command",
    "envFrom",
    "ports",
    "resources",
    "restartPolicy",
    "securityContext",
    "volumeMounts",
}
_POD_SECURITY = {
    "runAsNonRoot",
    "runAsUser",
    "runAsGroup",
    "fsGroup",
    "fsGroupChangePolicy",
    "seccompProfile",
}
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
# Every container here is run like this.
_CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
# Of the image, this Python in the place of its own.
_ENTRY_POINT = (sys.executable, "-m")
_UNITS = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNITS |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


@dataclasses.dataclass(frozen=True)
class Volume:
    """Where a container sees a volume: its name, a path, and the volume's source."""

    name: str
    target: str
    source: Object
    read_only: bool


@dataclasses.dataclass(frozen=True)
class Program:
    """What to run in a container."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]
    volumes: tuple[Volume, ...]
    memory: int  # bytes


@dataclasses.dataclass(frozen=True)
class Template:
    """What to run in a pod, and how."""

    name: str
    labels: dict[str, str]
    host_name: str
    subdomain: str
    program: Program
    sidecars: tuple[Program, ...]
    identity: Identity
    probes: dict[str, Probe]  # of startup, liveness, readiness
    pre_stop_seconds: float
    grace_seconds: float
    restart_policy: str


def read(name: str, template: Object, config_maps: dict[str, Object], **spec: str) -> Template:
    """The pod of a name.

    Args:
        name: the pod's.
        template: of its controller, its labels completed.
        config_maps: data of the ConfigMaps, by name.
        spec: what the controller adds to the pod's specification.

    Raises:
        UnknownFieldError: the template says something that this runner does not do.
    """
    pod = {"restartPolicy": "Always", **template["spec"], **spec}
    [container] = pod["containers"]
    security = pod["securityContext"]
    refuse_unknown("pod", pod, _POD)
    refuse_unknown("container", container, _CONTAINER)
    refuse_unknown("pod's securityContext", security, _POD_SECURITY)
    labels = template["metadata"]["labels"]
    sidecars = pod.get("initContainers", [])
    for each in sidecars:
        refuse_unknown("sidecar", each, _SIDECAR)
        if each.get("restartPolicy") != "Always":
            raise UnknownFieldError(f"initContainer {each['name']}, which ends")
    ports = {each["name"]: each["containerPort"] for each in container.get("ports", [])}
    sleep = container.get("lifecycle", {}).get("preStop", {"sleep": {"seconds": 0}})["sleep"]
    return Template(
        name,
        labels,
        pod.get("hostname", name),
        pod.get("subdomain", ""),
        _program(pod, container, labels, config_maps),
        tuple(_program(pod, each, labels, config_maps) for each in sidecars),
        Identity(security["runAsUser"], security["runAsGroup"], (security["fsGroup"],)),
        {
            kind: Probe.read(container[f"{kind}Probe"], ports)
            for kind in ("startup", "liveness", "readiness")
            if f"{kind}Probe" in container
        },
        float(sleep["seconds"]),
        float(pod.get("terminationGracePeriodSeconds", 30)),
        pod["restartPolicy"],
    )


def _program(
    pod: Object, container: Object, labels: dict[str, str], config_maps: dict[str, Object]
) -> Program:
    if container["securityContext"] != _CONTAINER_SECURITY:
        raise UnknownFieldError(f"securityContext: {container['securityContext']}")
    environment = _environment(container, labels, config_maps)
    command = container.get("command", [*_ENTRY_POINT, *container.get("args", [])])
    return Program(
        container["name"],
        tuple(expand(each, environment) for each in command),
        environment,
        _volumes(pod, container),
        int(quantity(container["resources"]["limits"]["memory"])),
    )


def quantity(text: str) -> float:
    """The number a Kubernetes quantity stands for: 1536Mi, 500m, 2."""
    matched = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text))
    if not matched or matched[2] not in _UNITS:
        raise UnknownFieldError(f"quantity {text!r}")
    return float(matched[1]) * _UNITS[matched[2]]


def expand(text: str, environment: dict[str, str]) -> str:
    """Replaces $(NAME) as the kubelet does: $$ is a dollar, unknown names stay as they are."""

    def value(found: re.Match) -> str:
        return "$" if found[0] == "$$" else environment.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", value, text)


def _environment(
    container: Object, labels: dict[str, str], config_maps: dict[str, Object]
) -> dict[str, str]:
    environment: dict[str, str] = {}
    for each in container.get("envFrom", []):
        environment.update(config_maps[each["configMapRef"]["name"]])
    for each in container.get("env", []):
        if "value" in each:
            environment[each["name"]] = expand(each["value"], environment)
        else:
            environment[each["name"]] = _value_from(each["valueFrom"], container, labels)
    return environment


def _value_from(source: Object, container: Object, labels: dict[str, str]) -> str:
    if "resourceFieldRef" in source:
        field = source["resourceFieldRef"]
        kind, _, name = field["resource"].partition(".")
        amount = quantity(container["resources"][kind][name])
        return str(math.ceil(amount / quantity(field.get("divisor", "1"))))
    matched = re.fullmatch(
        r"metadata\.labels\['([^']+)'\]", source.get("fieldRef", {}).get("fieldPath", "")
    )
    if not matched:
        raise UnknownFieldError(f"valueFrom: {source}")
    return labels[matched[1]]


def _volumes(pod: Object, container: Object) -> tuple[Volume, ...]:
    sources = {each["name"]: each for each in pod.get("volumes", [])}
    mounted = [
        Volume(
            each["name"],
            each["mountPath"],
            sources[each["name"]],
            each.get("readOnly", False),
        )
        for each in container.get("volumeMounts", [])
    ]
    if pod.get("automountServiceAccountToken"):
        source = {"serviceAccount": pod["serviceAccountName"]}
        mounted.append(Volume("service-account", _ACCOUNT, source, True))
    return tuple(mounted)
