"""kubectl and Kustomize: which of them there is, and what they say."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence

from ps_dqn.errors import PsDqnError, UsageError

# What renders: how to ask its version, where in the answer that is, how to ask for the rendering.
RENDERERS = {
    "kubectl": (["version", "--client", "--output=json"], r'"kustomizeVersion": *"v', "kustomize"),
    "kustomize": (["version"], "v", "build"),
}
# How `kubectl kustomize` logs why it failed.
_LOGGED = re.compile(r'[EF]\d{4} .*\] "command failed" err="(.*)"')
OLDEST_KUSTOMIZE, ITS_KUBECTL = (5, 0), "1.27"


class KubectlError(PsDqnError):
    """kubectl or kustomize failed; the text is the last line it said."""


def renderer(tools: Iterable[str]) -> list[str]:
    """The first of these tools that can render an overlay, and its word for that.

    Raises:
        UsageError: none is installed, or those are too old.
    """
    too_old = []
    for tool in tools:
        if shutil.which(tool) is None:
            continue
        version, before, command = RENDERERS[tool]
        said = subprocess.run([tool, *version], capture_output=True, text=True, check=False).stdout
        match = re.search(rf"{before}(\d+)\.(\d+)", said)
        if match and (int(match[1]), int(match[2])) >= OLDEST_KUSTOMIZE:
            return [tool, command]
        found = f"Kustomize {match[1]}.{match[2]}" if match else "an older Kustomize"
        too_old.append(f"{tool} has {found}")
    wanted = f"{' or '.join(tools)} with Kustomize {'.'.join(map(str, OLDEST_KUSTOMIZE))} or newer"
    what_to_do = f"install kubectl {ITS_KUBECTL} or newer"
    if too_old:
        raise UsageError(f"{' and '.join(too_old)}, but {wanted} is needed: {what_to_do}")
    raise UsageError(f"{wanted} is needed and not installed: {what_to_do}")


def run(command: Sequence[str]) -> None:
    """Runs a command that says on this program's output what it does.

    Raises:
        KubectlError: it failed.
        UsageError: there is no such program.
    """
    _finish(command, None)


def ask(command: Sequence[str]) -> str:
    """What a command says.

    Raises:
        KubectlError: it failed.
        UsageError: there is no such program.
    """
    return _finish(command, subprocess.PIPE)


def _finish(command: Sequence[str], output: int | None) -> str:
    try:
        ran = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    except FileNotFoundError:
        raise UsageError(
            f"{command[0]} is not installed: install kubectl {ITS_KUBECTL} or newer"
        ) from None
    if ran.returncode == 0:
        sys.stderr.write(ran.stderr)  # warnings
        return ran.stdout or ""
    said = [line.strip(" \t`:") for line in ran.stderr.splitlines()]
    # The last line may be a bracket, where an error has several.
    last = [line for line in said if re.search(r"\w", line)] or [f"exit code {ran.returncode}"]
    logged = _LOGGED.fullmatch(last[-1])
    why = logged[1].replace('\\"', '"') if logged else last[-1].removeprefix("error: ")
    raise KubectlError(f"{command[0]}: {why}")
