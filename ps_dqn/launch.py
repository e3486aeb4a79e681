"""Runs on Kubernetes: `python -m ps_dqn.launch k8s --name=… --workers=… --ps=… --image=…`.

What it writes is a small Kustomize overlay and the manifests that it is made of, for people to read
and keep. Kustomize renders it and kubectl applies it. Other commands are about a run that is there.
"""

import dataclasses
import itertools
import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from absl import flags as absl_flags

from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, experiment, launched, launched_tasks, launching, naming
from ps_dqn.kubernetes import control, folder, kubectl, running
from ps_dqn.kubernetes.kubectl import KubectlError
from ps_dqn.kubernetes.names import Place
from ps_dqn.kubernetes.plan import Launch
from ps_dqn.run import paths, signals

SUMMARY = "Writes the Kubernetes manifests of one run, a Kustomize overlay, and applies them."
# What Kubernetes says of another image in a Job; and what flags and counts want too, which tasks
# read when they start.
IMMUTABLE = "field is immutable"
# Of a Role that somebody may not make.
RBAC = "rbac.authorization.k8s.io"
TO_CHANGE = (
    "to change flags, counts, image or overlay, stop it and launch it again: a Job that is there "
    "cannot be changed, and a new one goes on from the newest checkpoint"
)


def main(argv: Sequence[str]) -> int:
    """Reads the command line and does what it says; returns the exit code."""
    command = argv[1] if len(argv) > 1 else ""
    if command in launched.COMMANDS:
        values, (summary, names) = launched.define(command), launched.COMMANDS[command]
        topics: dict[str, Sequence[str]] = {"The run, and what is asked of it.": names}
        first, words = list[str](), dict[str, str]()
    else:
        values, summary = launching.define(), f"{SUMMARY} Then: {', '.join(launched.COMMANDS)}."
        experiment.define(values)
        topics = {**launching.TOPICS, **experiment.topics()}
        first, words = [*itertools.chain(*launching.TOPICS.values())], experiment.topic_words()
    if command_line.asks_for_help(argv):
        program = f"python -m ps_dqn.launch {command if command in launched.COMMANDS else 'k8s'}"
        command_line.print_help(values, program, summary, topics, argv, first, words)
        return 0
    try:
        if command not in ("k8s", *launched.COMMANDS):
            called = naming.this_program("python -m ps_dqn.launch k8s")
            raise UsageError(
                f"say what to do: {called} --name=… --workers=… --ps=…, or "
                f"{', '.join(launched.COMMANDS)} of a run that is there"
            )
        command_line.parse(values, [argv[0], *argv[2:]])
        if command == "k8s":
            return _launch(launching.read(values))
        _do(command, values)
    except (absl_flags.Error, UsageError) as error:
        command_line.refuse(error)
    except KubectlError as error:
        print(f"error: {error}", file=sys.stderr)
        return signals.FAILED
    return 0


def _do(command: str, values: absl_flags.FlagValues) -> None:
    """Does what is asked of a run that is there."""
    place = launched.read_place(values)
    if command == "status":
        from ps_dqn.kubernetes import status  # which imports more

        status.show(running.read(place))
    elif command == "logs":
        control.logs(running.read(place), values.role, values.follow, values.tail)
    elif command == "stop":
        control.stop(place, values.delete_data)
    else:
        _resize(place, values)


def _resize(place: Place, values: absl_flags.FlagValues) -> None:
    launched_tasks.check_count(values, "workers")
    run, workers = running.read(place), values.workers
    control.check_resizable(run, workers)
    with tempfile.NamedTemporaryFile("w", suffix=".flags", encoding="utf-8") as file:
        file.write(run.experiment)
        file.flush()
        launched.read_experiment([f"--flagfile={file.name}"], workers, f"--workers={workers}: ")
    control.resize(run, workers)
    output = paths.named("--output", values.output or f"launch/{place.name}")
    if folder.set_workers(output, workers):
        print(f"{output}: says {workers} workers now")
    else:
        print(f"where {place.name} is launched again, say --workers={workers}")


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
            _check_fits_what_is_there(run)  # before the folder is another run's
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
    try:
        return _rendered(run, render)
    except KubectlError:
        _check_patches(run, render)
        raise


def _rendered(run: Launch, render: Sequence[str]) -> str:
    with tempfile.TemporaryDirectory() as made:
        folder.write(run, Path(made))
        return kubectl.ask([*render, made])


def _check_patches(run: Launch, render: Sequence[str]) -> None:
    """Refuses the first patch that does not fit, where the manifests are good without it."""
    for count in range(len(run.patches) + 1):
        try:
            _rendered(dataclasses.replace(run, patches=run.patches[:count]), render)
        except KubectlError as error:
            if count == 0:
                return
            raise UsageError(
                f"{run.patches[count - 1].said}: does not fit the manifests ({error}): it must be "
                f"an object of theirs, by its kind and name, and what that should say"
            ) from None


def _counts(run: Launch) -> str:
    counts = {"worker": run.workers, "parameter server": run.ps}
    counts |= {each.role.replace("-", " "): each.pods for each in run.extra}
    return ", ".join(
        f"{count} {what}{'s' * (count > 1)}" for what, count in counts.items() if count
    )


def _apply_command(run: Launch) -> list[str]:
    return run.place.kubectl_anywhere("apply", "--kustomize", str(run.output))


def _check_fits_what_is_there(run: Launch) -> None:
    """Refuses to change a run that is there.

    The Job of one that is over stays so, and pods would wait for it. Of one that goes on Kubernetes
    refuses another image for the coordinator alone, and takes flags and counts, with which its next
    pod would begin, whenever that comes.
    """
    place = run.place
    there = running.Running(place, running.get(place, running.KINDS, place.selector()))
    for kind in ("Complete", "Failed"):
        if there.condition("coordinator", kind):
            raise UsageError(
                f"--name={place.name}: there is a run of this name that is over ({kind}); to "
                f"launch it again, stop it first: {place.launch('stop')}"
            )
    said: dict[str, str] = {}  # of what is being deleted, a part may be gone
    for each in there.objects:
        said |= each.get("data", {})
    flags = run.experiment.content.decode()
    images = [_image(there, role) for role in ("coordinator", "worker")]
    wanted = [str(run.image), run.worker_image or str(run.image)]
    # Of those that are there; pods of a JobSet and of a TFJob are made otherwise.
    others = {
        "flags": said.get(running.FLAGS, flags) != flags,
        "workers": said.get("NUM_WORKERS", str(run.workers)) != str(run.workers),
        "parameter servers": said.get("NUM_PS", str(run.ps)) != str(run.ps),
        "image": any(found not in ("", each) for found, each in zip(images, wanted, strict=True)),
    }
    if any(others.values()):
        what = " and ".join(name for name, is_other in others.items() if is_other)
        raise UsageError(
            f"--name={place.name}: there is a run of this name, with other {what}; {TO_CHANGE}: "
            f"{place.launch('stop')}"
        )


def _image(there: running.Running, role: str) -> str:
    """The image of a role's container; empty where there is none."""
    owner = there.owner(role) or {"spec": {"template": {"spec": {"containers": []}}}}
    containers = owner["spec"]["template"]["spec"]["containers"]
    return next((str(each["image"]) for each in containers if each["name"] == role), "")


def _apply(run: Launch) -> None:
    try:
        kubectl.run(_apply_command(run))
    except KubectlError as error:
        text = str(error)
        if f'namespaces "{run.place.namespace}" not found' in text:
            make = run.place.kubectl_anywhere("create", "namespace", run.place.namespace)
            raise KubectlError(f"{text}; make it: {shlex.join(make)}") from None
        if RBAC in text and "forbidden" in text:
            raise KubectlError(f"{text}; --nofree_nodes needs no Role") from None
        if IMMUTABLE not in text:
            raise
        # Before that word kubectl prints the whole of the new object.
        text = re.sub(f"Invalid value: .*(?={IMMUTABLE})", "", text)
        raise KubectlError(f"{text}; {TO_CHANGE}: {run.place.launch('stop')}") from None


def _what_next(run: Launch) -> str:
    """What a person may want to do now, as commands."""
    place, output = run.place, str(run.output)
    board = place.kubectl("port-forward", f"service/{place.name}-tensorboard", "6006")
    if run.apply:
        steps = {
            "see how it is": place.launch("status"),
            "follow the coordinator's log": place.launch("logs"),
            "open TensorBoard at http://localhost:6006": shlex.join(board),
            f"stop it; {TO_CHANGE}": place.launch("stop"),
            "delete it, its volume and all results": f"{place.launch('stop')} --delete_data",
        }
    else:
        make = place.kubectl_anywhere("create", "namespace", place.namespace)
        steps = {
            "look at it": shlex.join(["kubectl", "kustomize", output]),
            "make the namespace, if need be": shlex.join(make),
            "apply it": shlex.join(_apply_command(run)),
        }
    return "\n".join(f"{what}:\n  {command}" for what, command in steps.items())


if __name__ == "__main__":
    command_line.run_main(main)
