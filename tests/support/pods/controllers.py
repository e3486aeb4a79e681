"""The controllers that make pods and replace them."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from support.pods.fields import UnknownFieldError
from support.pods.pod import Pod

Object = dict[str, Any]
# Makes the pod of a name from a template, with what the controller adds to its specification.
Make = Callable[..., Pod]

_INDEX = "apps.kubernetes.io/pod-index"
# The Job controller's: before it replaces a failed pod (seconds).
_FIRST_BACKOFF, _LONGEST_BACKOFF = 10.0, 600.0


class StatefulSet:
    """Keeps so many pods, each under its own name."""

    def __init__(self, manifest: Object, make: Make):
        self._name, spec = manifest["metadata"]["name"], manifest["spec"]
        _only(spec, "podManagementPolicy", "Parallel")
        self._replicas = spec["replicas"]
        self._first = spec.get("ordinals", {"start": 0})["start"]
        self._service = spec["serviceName"]
        self._template = spec["template"]
        self._make = make
        self._pods: dict[int, Pod] = {}
        self.is_cordoned = False  # no pod finds a node

    def pods(self) -> Iterator[Pod]:
        yield from self._pods.values()

    def scale(self, replicas: int) -> None:
        """Wants so many pods from now on."""
        self._replicas = replicas

    def tick(self) -> None:
        """Makes the pods that are missing; one that is on its way out is still there."""
        wanted = range(self._first, self._first + self._replicas)
        for i in sorted(self._pods):
            if i not in wanted and not self._pods[i].deleted:
                self._pods[i].delete()
        for i in [] if self.is_cordoned else wanted:
            if i not in self._pods or self._pods[i].gone:
                name = f"{self._name}-{i}"
                self._pods[i] = self._make(
                    name,
                    _labelled(self._template, {_INDEX: str(i)}),
                    hostname=name,
                    subdomain=self._service,
                )


class Job:
    """Has one pod until one has succeeded, or the failure policy says that none will."""

    def __init__(self, manifest: Object, make: Make):
        self.name, spec = manifest["metadata"]["name"], manifest["spec"]
        _only(spec, "podReplacementPolicy", "Failed")
        self._limit = spec.get("backoffLimit", 6)
        self._rules = spec.get("podFailurePolicy", {"rules": []})["rules"]
        self._template = spec["template"]
        self._make = make
        self._pod: Pod | None = None
        self._start_at = time.monotonic()
        self._counted = 0
        self.state = "Active"  # then Complete or Failed
        self.failures: list[int] = []  # exit codes

    def pods(self) -> Iterator[Pod]:
        if self._pod is not None:
            yield self._pod

    def tick(self) -> None:
        """Judges a pod that has ended, and makes the next one once that is due."""
        if self.state != "Active":
            return
        if self._pod is not None and self._pod.gone:
            self._judge(self._pod)
            self._pod = None
        elif self._pod is None and time.monotonic() >= self._start_at:
            number = len(self.failures)
            labels = {"batch.kubernetes.io/job-name": self.name}
            self._pod = self._make(f"{self.name}-{number}", _labelled(self._template, labels))

    def _judge(self, pod: Pod) -> None:
        if pod.phase == "Succeeded":
            self.state = "Complete"
            return
        self.failures.append(pod.exit_codes[-1] if pod.exit_codes else 137)
        action = self._action(pod)
        self._counted += action == "Count"
        if action == "FailJob" or self._counted > self._limit:
            self.state = "Failed"
        # Also a failure that is ignored makes the next pod wait, and each one twice as long.
        backoff = _FIRST_BACKOFF * 2 ** (len(self.failures) - 1)
        self._start_at = time.monotonic() + min(backoff, _LONGEST_BACKOFF)

    def _action(self, pod: Pod) -> str:
        """Of the first rule that fits."""
        for rule in self._rules:
            if "onPodConditions" in rule:
                fits = any(each["type"] in pod.conditions for each in rule["onPodConditions"])
            else:
                codes = rule["onExitCodes"]
                among = self.failures[-1] in codes["values"]
                fits = among if codes["operator"] == "In" else not among
            if fits:
                return rule["action"]
        return "Count"


def _labelled(template: Object, labels: dict[str, str]) -> Object:
    metadata = template["metadata"]
    return {**template, "metadata": {**metadata, "labels": {**metadata["labels"], **labels}}}


def _only(spec: Object, field: str, value: str) -> None:
    if spec.get(field) != value:
        raise UnknownFieldError(f"{field}: {spec.get(field)}, where this runner knows {value} only")
