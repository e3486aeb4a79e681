"""What the manifests should say beside what other flags do: files of the user's, and values."""

import json
import re
from collections.abc import Sequence
from typing import Any

from ps_dqn.errors import UsageError
from ps_dqn.kubernetes.names import ROLES
from ps_dqn.kubernetes.plan import Patch
from ps_dqn.run import paths

_VERSIONS = {"Job": "batch/v1", "StatefulSet": "apps/v1", "Deployment": "apps/v1"}
_DOT = re.compile(r"(?<!\\)\.")


def read(files: Sequence[str], values: Sequence[str]) -> tuple[Patch, ...]:
    """The files of `--patch` and after them the values of `--set`, which so go before them.

    Raises:
        UsageError: a file cannot be read, or a value says no place.
    """
    contents = [(f"--patch={file}", _content(file)) for file in files]
    contents += [(f"--set={value}", json.dumps(_object(value)).encode()) for value in values]
    return tuple(
        Patch(f"{number}.yaml", said, content)
        for number, (said, content) in enumerate(contents, start=1)
    )


def _content(file: str) -> bytes:
    try:
        return paths.named("--patch", file).read_bytes()
    except OSError as error:
        raise UsageError(f"--patch={file}: {error.strerror}") from None


def _object(said: str) -> dict[str, object]:
    """The object of a role with a value somewhere in it, of ROLE.KEY.KEY=VALUE."""
    place, equals, text = said.partition("=")
    role, *keys = (key.replace("\\.", ".") for key in _DOT.split(place))
    if role not in ROLES:
        raise UsageError(f"--set={said}: {role!r} is no role: {', '.join(ROLES)}")
    # What the object is called stays; of its metadata, annotations and labels may be said.
    is_inside = keys[:1] == ["spec"] and len(keys) > 1
    is_note = keys[:1] == ["metadata"] and len(keys) > 2
    if not (equals and all(keys) and (is_inside or is_note)):
        raise UsageError(
            f"--set={said}: say a role, the keys to a place in its object, from spec or metadata "
            f"on, and a value, like {role}.spec.template.spec.priorityClassName=cheap; a dot in a "
            f"key is \\."
        )
    value: Any
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = text
    for key in reversed(keys[1:]):
        value = {key: value}
    found = {keys[0]: value}
    metadata = {**found.pop("metadata", {}), "name": role}
    return {
        "apiVersion": _VERSIONS[ROLES[role]],
        "kind": ROLES[role],
        "metadata": metadata,
        **found,
    }
