"""Makes one run's Kubernetes manifests: `python -m ps_dqn.launch k8s --name=… --workers=… --ps=…`.

What it writes is a small Kustomize overlay of the project's own, for people to read and keep.
Kustomize renders it and kubectl applies it.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence

from absl import flags as absl_flags

from ps_dqn.errors import PsDqnError, UsageError
from ps_dqn.flags import command_line, launching
from ps_dqn.flags.launching import COMPONENTS, MANIFESTS, Image, Launch
from ps_dqn.run import signals

KUSTOMIZATION, FLAGFILE = "kustomization.yaml", "experiment.flags"
# The first line of what may be written anew.
MARK = "# Written by ps_dqn.launch, which overwrites it; take this line away to keep your changes."
INSTANCE = "app.kubernetes.io/instance"
# What renders: how to ask its version, where in the answer that is, how to ask for the rendering.
RENDERERS = {
    "kubectl": (["version", "--client", "--output=json"], r'"kustomizeVersion": *"v', "kustomize"),
    "kustomize": (["version"], "v", "build"),
}
OLDEST_KUSTOMIZE, ITS_KUBECTL = (5, 0), "1.27"
# What Kubernetes says of another image in a Job; and what flags and counts want too, which tasks
# read when they start.
IMMUTABLE = "field is immutable"
TO_CHANGE = (
    "to change flags, counts, image or overlay, stop it and launch it again: a Job that is there "
    "cannot be changed, and a new one goes on from the newest checkpoint"
)


class KubectlError(PsDqnError):
    """kubectl or kustomize failed; the text is the last line it said."""


def main(argv: Sequence[str]) -> int:
    """Reads the command line and does what it says; returns the exit code."""
    values = launching.define()
    if command_line.asks_for_help(argv):
        command_line.print_help(
            values,
            "python -m ps_dqn.launch k8s",
            "Writes the Kubernetes manifests of one run, a Kustomize overlay, and applies them.",
            launching.TOPICS,
        )
        return 0
    try:
        if argv[1:2] != ["k8s"]:
            called = command_line.this_program("python -m ps_dqn.launch k8s")
            raise UsageError(f"say where to launch: {called} --name=… --workers=… --ps=…")
        command_line.parse(values, [argv[0], *argv[2:]])
        return _launch(launching.read(values))
    except (absl_flags.Error, UsageError) as error:
        command_line.refuse(error)
    except KubectlError as error:
        print(f"error: {error}", file=sys.stderr)
        return signals.FAILED


def _launch(run: Launch) -> int:
    try:
        _check_is_free(run.output)
        if run.dry_run:
            render = _renderer(RENDERERS)
            with tempfile.TemporaryDirectory() as folder:
                _write(run, pathlib.Path(folder))
                _call([*render, folder])
            return 0
        if run.apply:
            _renderer(["kubectl"])
        _write(run, run.output)
    except OSError as error:
        raise UsageError(f"--output={run.output}: {error.strerror}") from None
    print(f"wrote {run.output}: {KUSTOMIZATION}, {FLAGFILE}", flush=True)
    if run.apply:
        _apply(run)
    print(_what_next(run))
    return 0


def _check_is_free(folder: pathlib.Path) -> None:
    """Refuses a folder with anything in it that this program did not write."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--output={folder}: is a file; name a folder")
    found = {each.name for each in folder.iterdir()} if folder.exists() else set()
    others = sorted(found - {KUSTOMIZATION, FLAGFILE})
    if others:
        raise UsageError(
            f"--output={folder}: has something else in it ({others[0]}); name another folder"
        )
    file = folder / KUSTOMIZATION
    if found and not (file.exists() and file.read_bytes().startswith(MARK.encode())):
        raise UsageError(
            f"--output={folder}: what is in it is not this program's; name another folder"
        )


def _write(run: Launch, folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FLAGFILE).write_bytes(run.flagfile)
    # Kustomize takes no absolute path, and looks from where a link leads to.
    way = os.path.relpath(MANIFESTS, folder.resolve())
    text = _overlay(run, pathlib.PurePath(way).as_posix())
    (folder / KUSTOMIZATION).write_text(text, encoding="utf-8")


def _overlay(run: Launch, way: str) -> str:
    """The run as a kustomization.

    Args:
        run: what is to be run.
        way: the manifests' folder as seen from the overlay's.
    """
    # Strings are JSON, which YAML reads as they are: a tag may look like a number.
    name, way = json.dumps(run.name), json.dumps(way)[1:-1]
    resources = "base" if run.overlay == "base" else f"overlays/{run.overlay}"
    component = "tls" if run.tls_image else ""
    assemble = ""
    if run.overlay in COMPONENTS:
        resources = "base"
        component = run.overlay
        assemble = f'  - "{way}/components/{run.overlay}/assemble"\n'
    components = f'components:\n  - "{way}/components/{component}"\n' if component else ""
    return f"""\
{MARK}
# It runs with: kubectl apply --kustomize {shlex.quote(str(run.output))}
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: {json.dumps(run.namespace)}
namePrefix: {json.dumps(f"{run.name}-")}
resources:
  - "{way}/{resources}"
{components}labels:
  - pairs: {{{INSTANCE}: {name}}}
    includeSelectors: true # so that runs can share a namespace
    includeTemplates: true
replicas:
  - {{name: worker, count: {run.workers}}}
  - {{name: parameter-server, count: {run.ps}}}
{_images(run)}configMapGenerator:
  - {{name: experiment, behavior: replace, files: [{FLAGFILE}]}}
patches:
  - target: {{kind: ConfigMap, name: cluster}}
    patch: |-
      - {{op: replace, path: /data/RUN, value: {name}}}
  - target: {{kind: Namespace}} # deleting this run must not take the namespace's others with it
    patch: |-
      {{$patch: delete, apiVersion: v1, kind: Namespace, metadata: {{name: any}}}}
transformers:
  - "{way}/counts"
{_worker_image(run)}{assemble}"""


def _images(run: Launch) -> str:
    named = {"ps-dqn": run.image, "ps-dqn-tls": run.tls_image}
    lines = [f"  - {json.dumps(_image(name, image))}\n" for name, image in named.items() if image]
    return "".join(["images:\n", *lines]) if lines else ""


def _image(name: str, image: Image) -> dict[str, str]:
    which = {"newTag": image.tag} if image.tag else {"digest": image.digest}
    return {"name": name, "newName": image.name, **which}


def _worker_image(run: Launch) -> str:
    """A transformer and no patch: `images:` would change what a patch has said."""
    if not run.worker_image:
        return ""
    return f"""\
  - |-
    apiVersion: builtin
    kind: PatchTransformer
    metadata: {{name: worker-image}}
    target: {{kind: StatefulSet, name: worker}}
    patch: |-
      - op: replace
        path: /spec/template/spec/containers/0/image
        value: {json.dumps(run.worker_image)}
"""


def _renderer(tools: Iterable[str]) -> list[str]:
    """The first of these tools that can render the overlay, and its word for that.

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


def _call(command: Sequence[str]) -> None:
    """Runs a command that says on this program's output what it does.

    Raises:
        KubectlError: it failed.
    """
    ran = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if ran.returncode == 0:
        sys.stderr.write(ran.stderr)  # warnings
        return
    last = (ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"])[-1]
    raise KubectlError(f"{command[0]}: {last.removeprefix('error: ')}")


def _kubectl(run: Launch) -> list[str]:
    return ["kubectl", *([f"--context={run.context}"] if run.context else [])]


def _apply_command(run: Launch) -> list[str]:
    return [*_kubectl(run), "apply", "--kustomize", str(run.output)]


def _stop_command(run: Launch) -> list[str]:
    kinds = ["job", "statefulset", *([run.overlay] if run.overlay in COMPONENTS else [])]
    # In the foreground it returns when the pods are gone: a coordinator that is started before that
    # would write to the run directory beside the old one.
    return [*_kubectl(run), *_within(run, "delete", ",".join(kinds)), "--cascade=foreground"]


def _within(run: Launch, *words: str) -> list[str]:
    """What is asked of everything that belongs to the run."""
    return [*words, f"--namespace={run.namespace}", f"--selector={INSTANCE}={run.name}"]


def _apply(run: Launch) -> None:
    try:
        _call(_apply_command(run))
    except KubectlError as error:
        if IMMUTABLE not in str(error):
            raise
        # Before that word kubectl prints the whole of the new object.
        text = re.sub(f"Invalid value: .*(?={IMMUTABLE})", "", str(error))
        raise KubectlError(f"{text}; {TO_CHANGE}: {shlex.join(_stop_command(run))}") from None


def _what_next(run: Launch) -> str:
    """What a person may want to do now, as commands."""
    kubectl, folder = _kubectl(run), str(run.output)
    logs = _within(run, "logs", "--follow", "--tail=-1")
    logs[-1] += ",app.kubernetes.io/component=coordinator"
    board = [f"--namespace={run.namespace}", f"service/{run.name}-tensorboard", "6006"]
    if run.apply:
        steps = {
            "watch its pods": [*kubectl, *_within(run, "get", "pods"), "--watch"],
            "read the coordinator's log": [*kubectl, *logs],
            "open TensorBoard at http://localhost:6006": [*kubectl, "port-forward", *board],
            f"stop it; {TO_CHANGE}": _stop_command(run),
            "delete it, its volume and all results": [*kubectl, "delete", "--kustomize", folder],
        }
    else:
        steps = {
            "look at it": ["kubectl", "kustomize", folder],
            "make the namespace, if need be": [*kubectl, "create", "namespace", run.namespace],
            "apply it": _apply_command(run),
        }
    return "\n".join(f"{what}:\n  {shlex.join(words)}" for what, words in steps.items())


if __name__ == "__main__":
    command_line.run_main(main)
