"""What there is of a run on Kubernetes, as kubectl tells it."""

import dataclasses
import json
from typing import Any

from ps_dqn.errors import UsageError
from ps_dqn.kubernetes import kubectl
from ps_dqn.kubernetes.names import COMPONENT, INSTANCE, MADE_OF, PART_OF, ROLES, Place

Object = dict[str, Any]
KINDS = "configmaps,statefulsets,jobs,deployments,pods"
FLAGS = "experiment.flags"  # a key of a ConfigMap


@dataclasses.dataclass(frozen=True)
class Running:
    """The objects of a run, those of `KINDS`."""

    place: Place
    objects: list[Object]

    @property
    def made_of(self) -> set[str]:
        """The folders of manifests that it was launched with."""
        return made_of(self.objects)

    @property
    def cluster(self) -> Object:
        """The ConfigMap that has the counts."""
        return self._map("NUM_WORKERS")

    @property
    def experiment(self) -> str:
        """The experiment's flags, one a line."""
        return self._map(FLAGS)["data"][FLAGS]

    def owner(self, role: str) -> Object | None:
        """What the pods of a role come from; None where that is a JobSet or a TFJob, or is gone."""
        return next((each for each in self._of(role) if each["kind"] == ROLES[role]), None)

    def pods(self, role: str) -> list[Object]:
        """The pods of a role that are there for it, in order; of a Job that is the newest one."""
        found = [each for each in self._of(role) if each["kind"] == "Pod"]
        if ROLES[role] == "Job":
            return sorted(found, key=lambda pod: pod["metadata"]["creationTimestamp"])[-1:]
        return sorted(found, key=lambda pod: (len(name(pod)), name(pod)))

    def condition(self, role: str, kind: str) -> Object | None:
        """A condition of a role's Job that is true."""
        owner = self.owner(role) or {}
        conditions = owner.get("status", {}).get("conditions", [])
        return next((each for each in conditions if is_true(each, kind)), None)

    def _of(self, role: str) -> list[Object]:
        return [each for each in self.objects if labels(each).get(COMPONENT) == role]

    def _map(self, key: str) -> Object:
        maps = [each for each in self.objects if key in each.get("data", {})]
        if not maps:
            raise UsageError(
                f"--name={self.place.name}: has no ConfigMap with {key}, so it was not launched by "
                f"this program, or is being deleted"
            )
        return maps[0]


def read(place: Place) -> Running:
    """What there is of a run.

    Raises:
        UsageError: there is nothing; which runs there are.
        KubectlError: kubectl failed.
    """
    objects = get(place, KINDS, place.selector())
    if not objects:
        raise missing(place)
    return Running(place, objects)


def get(place: Place, kinds: str, selector: str) -> list[Object]:
    """The objects of some kinds."""
    return json.loads(kubectl.ask([*place.kubectl("get", kinds, "--output=json"), selector]))[
        "items"
    ]


def missing(place: Place) -> UsageError:
    """What to say where there is no such run."""
    found = get(place, "configmaps", f"--selector={PART_OF}")
    others = sorted({labels(each)[INSTANCE] for each in found if INSTANCE in labels(each)})
    return UsageError(
        f"--name={place.name}: no such run in namespace {place.namespace}; there "
        + (f"are: {', '.join(others)}" if others else "is none at all")
    )


def made_of(objects: list[Object]) -> set[str]:
    """The folders of manifests that objects were launched with."""
    notes = [each["metadata"].get("annotations", {}).get(MADE_OF, "") for each in objects]
    return set(" ".join(notes).split())


def name(item: Object) -> str:
    """What an object is called."""
    return item["metadata"]["name"]


def labels(item: Object) -> dict[str, str]:
    """The labels of an object."""
    return item["metadata"].get("labels", {})


def is_true(condition: Object, kind: str) -> bool:
    """Whether a condition is of a kind, and true."""
    return condition["type"] == kind and condition["status"] == "True"
