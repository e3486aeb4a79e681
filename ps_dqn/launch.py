"""Runs on Kubernetes: `python -m ps_dqn.launch k8s --name=… --workers=… --ps=… --image=…`.

What it writes is a small Kustomize overlay and the manifests that it is made of, for people to read
and keep. Kustomize renders it and kubectl applies it.
"""

import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from absl import flags as absl_flags

from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, experiment, launching, naming
from ps_dqn.kubernetes import folder, kubectl
from ps_dqn.kubernetes.kubectl import KubectlError
from ps_dqn.kubernetes.plan import Launch
from ps_dqn.run import signals

# What Kubernetes says of another image in a Job; and what flags and counts want too, which tasks
# read when they start.
IMMUTABLE = "field is immutable"
TO_CHANGE = (
    "to change flags, counts, image or overlay, stop it and launch it again: a Job that is there "
    "cannot be changed, and a new one goes on from the newest checkpoint"
)


def main(argv: Sequence[str]) -> int:
    """Reads the command line and does what it says; returns the exit code."""
    values = launching.define()
    experiment.define(values)
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
            called = naming.this_program("python -m ps_dqn.launch k8s")
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
        folder.check_is_free(run.output)
        if run.dry_run or run.patches:
            rendered = _render(run)
        if run.dry_run:
            print(rendered, end="")
            return 0
        if run.apply:
            kubectl.renderer(["kubectl"])
        folder.write(run, run.output)
    except OSError as error:
        raise UsageError(f"--output={run.output}: {error.strerror}") from None
    print(f"wrote {run.output}: {run.experiment.env_id}, {_counts(run)}", flush=True)
    if run.apply:
        _apply(run)
    print(_what_next(run))
    return 0


def _render(run: Launch) -> str:
    """The manifests; so patches that do not fit are refused before anything is written."""
    render = kubectl.renderer(kubectl.RENDERERS)
    with tempfile.TemporaryDirectory() as made:
        folder.write(run, Path(made))
        return kubectl.ask([*render, made])


def _counts(run: Launch) -> str:
    counts = {"worker": run.workers, "parameter server": run.ps}
    return ", ".join(f"{count} {what}{'s' * (count > 1)}" for what, count in counts.items())


def _apply_command(run: Launch) -> list[str]:
    return run.place.kubectl_anywhere("apply", "--kustomize", str(run.output))


def _stop_command(run: Launch) -> list[str]:
    kinds = ["job", "statefulset", *([run.overlay] if run.overlay in ("jobset", "tfjob") else [])]
    # In the foreground it returns when the pods are gone: a coordinator that is started before that
    # would write to the run directory beside the old one.
    place = run.place
    return [*place.kubectl("delete", ",".join(kinds)), place.selector(), "--cascade=foreground"]


def _apply(run: Launch) -> None:
    try:
        kubectl.run(_apply_command(run))
    except KubectlError as error:
        text = str(error)
        if f'namespaces "{run.place.namespace}" not found' in text:
            make = run.place.kubectl_anywhere("create", "namespace", run.place.namespace)
            raise KubectlError(f"{text}; make it: {shlex.join(make)}") from None
        if IMMUTABLE not in text:
            raise
        # Before that word kubectl prints the whole of the new object.
        text = re.sub(f"Invalid value: .*(?={IMMUTABLE})", "", text)
        raise KubectlError(f"{text}; {TO_CHANGE}: {shlex.join(_stop_command(run))}") from None


def _what_next(run: Launch) -> str:
    """What a person may want to do now, as commands."""
    place, output = run.place, str(run.output)
    logs = [*place.kubectl("logs", "--follow", "--tail=-1"), place.selector("coordinator")]
    board = place.kubectl("port-forward", f"service/{place.name}-tensorboard", "6006")
    if run.apply:
        steps = {
            "watch its pods": [*place.kubectl("get", "pods", "--watch"), place.selector()],
            "read the coordinator's log": logs,
            "open TensorBoard at http://localhost:6006": board,
            f"stop it; {TO_CHANGE}": _stop_command(run),
            "delete it, its volume and all results": place.kubectl_anywhere(
                "delete", "--kustomize", output
            ),
        }
    else:
        make = place.kubectl_anywhere("create", "namespace", place.namespace)
        steps = {
            "look at it": ["kubectl", "kustomize", output],
            "make the namespace, if need be": make,
            "apply it": _apply_command(run),
        }
    return "\n".join(f"{what}:\n  {shlex.join(words)}" for what, words in steps.items())


if __name__ == "__main__":
    command_line.run_main(main)
