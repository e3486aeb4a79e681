"""What a run on Kubernetes is called, and how kubectl is told which one is meant."""

import dataclasses
import re

from ps_dqn.errors import UsageError

# The roles, and the kinds of the objects that they come from.
ROLES = {
    "coordinator": "Job",
    "parameter-server": "StatefulSet",
    "worker": "StatefulSet",
    "replay-server": "StatefulSet",  # of Ape-X
    "actor": "StatefulSet",  # of Ape-X and of SEED, where workers have no environments
    "evaluator": "Job",
    "tensorboard": "Deployment",
}
# These move all pods into one object of theirs, once everything else has been done.
COMPONENTS = ("jobset", "tfjob")
PART_OF = "app.kubernetes.io/part-of=ps-dqn"
INSTANCE = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"
# An annotation of the ConfigMap `cluster`: the folders of manifests that the run is made of.
MADE_OF = "ps-dqn/made-of"
# Characters of a DNS label, and of a DNS subdomain.
MOST_CHARACTERS, MOST_OF_SUBDOMAIN = 63, 253
# What a run is called becomes names of Services, which begin with a letter (RFC 1035), and labels.
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Place:
    """A run, and where it is."""

    name: str
    namespace: str
    context: str = ""  # kubectl's; empty: its present one

    def kubectl(self, *words: str) -> list[str]:
        """A command of kubectl in the run's namespace."""
        return [*self.kubectl_anywhere(*words), f"--namespace={self.namespace}"]

    def kubectl_anywhere(self, *words: str) -> list[str]:
        """A command of kubectl that says its namespace itself, or is about none."""
        return ["kubectl", *([f"--context={self.context}"] if self.context else []), *words]

    def selector(self, role: str = "") -> str:
        """Selects what belongs to the run, or to a role of it."""
        of_role = f",{COMPONENT}={role}" if role else ""
        return f"--selector={INSTANCE}={self.name}{of_role}"

    def launch(self, command: str) -> str:
        """A command of this program about the run, for people to copy."""
        context = f" --context={self.context}" if self.context else ""
        where = f"--name={self.name} --namespace={self.namespace}{context}"
        return f"python -m ps_dqn.launch {command} {where}"


def check(place: Place) -> None:
    """Refuses names that Kubernetes would not take.

    Raises:
        UsageError: with the rule.
    """
    if not _NAME.fullmatch(place.name) or len(place.name) > MOST_CHARACTERS:
        raise UsageError(
            f"--name={place.name}: must be lower-case letters, digits and -, the first a letter, "
            f"the last no -, {MOST_CHARACTERS} at most (a DNS label, RFC 1035)"
        )
    if not _LABEL.fullmatch(place.namespace) or len(place.namespace) > MOST_CHARACTERS:
        raise UsageError(
            f"--namespace={place.namespace}: must be lower-case letters, digits and -, neither "
            f"first nor last a -, {MOST_CHARACTERS} at most (a DNS label, RFC 1123)"
        )


def check_length(name: str, overlay: str, servers: int) -> None:
    """Refuses a name of which Kubernetes would make something too long.

    Raises:
        UsageError: with how long it may be.
    """
    # What is longest of all that Kubernetes makes of the name: the label with the revision of a
    # StatefulSet, or what JobSet calls its pods.
    longest = "-parameter-server-0123456789"
    if overlay == "jobset":
        longest = f"-ps-dqn-parameter-server-0-{servers - 1}-abcde"
    most = MOST_CHARACTERS - len(longest)
    if len(name) > most:
        raise UsageError(
            f"--name={name}: {len(name)} characters; with --overlay={overlay} {most} at most, so "
            f"that {MOST_CHARACTERS} hold {name}{longest}"
        )


def check_storage_class(name: str) -> None:
    """Refuses what no StorageClass can be called.

    Raises:
        UsageError: with the rule.
    """
    parts = name.split(".")
    if not all(_LABEL.fullmatch(part) for part in parts) or len(name) > MOST_OF_SUBDOMAIN:
        raise UsageError(
            f"--storage_class={name}: must be lower-case letters, digits, - and ., between two . "
            f"neither first nor last a -, {MOST_OF_SUBDOMAIN} at most (a DNS subdomain, RFC 1123)"
        )
