"""The flags of `python -m ps_dqn.launch k8s`: which run, where, and what is done about it."""

import pathlib
import re
from collections.abc import Sequence

from absl import flags as absl_flags

from ps_dqn import __version__
from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, experiment, launched, launched_tasks, servers
from ps_dqn.kubernetes import dns, names, patches, quantities
from ps_dqn.kubernetes.names import COMPONENTS
from ps_dqn.kubernetes.plan import Experiment, Image, Launch, Storage
from ps_dqn.run import directory, paths

OVERLAYS = ("base", "local", "cpu-fleet", "gpu-worker", "jobset", "tfjob")
MOST_WITH_TLS = 256  # of a role; k8s/components/tls/relay.sh refuses more, too
_IMAGE = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9._-]*(:\d+(?=/))?(/[a-z0-9][a-z0-9._-]*)*)"
    r"(:(?P<tag>\w[\w.-]{0,127})|@(?P<digest>sha256:[0-9a-f]{64}))",
    re.ASCII,
)

TOPICS = {
    "The run; flags of its experiment may stand beside these.": (
        "name",
        "preset",
        "flagfile",
        "workers",
        "ps",
        "replay_servers",
    ),
    "Its manifests.": (
        *("overlay", "namespace", "image", "worker_image", "tls_image", "patch", "set"),
    ),
    "What it is given.": (
        *("cpu", "memory", "storage", "storage_class", "access_mode", "free_nodes", "dns"),
    ),
    "What to do.": ("output", "dry_run", "apply", "context"),
}


class _Flags(absl_flags.FlagValues):
    """Here --flagfile names the experiment's flags, which are not this command's."""

    def read_flags_from_files(self, argv: Sequence[str], force_gnu: bool = True) -> list[str]:
        return list(argv)


def define() -> absl_flags.FlagValues:
    """The flags of one run, without those of its experiment."""
    values = _Flags()
    launched.define_place(values)
    strings = {
        "flagfile": (
            "",
            "The experiment: flags of ps_dqn.coordinator, one a line. Those that are said here go "
            "before it.",
        ),
        "image": ("", "Container image, repository:tag or repository@digest."),
        "worker_image": ("", "Container image of the workers, where it is not --image."),
        "tls_image": (
            "",
            "Container image with stunnel: beside every task, it encrypts what tasks say to each "
            "other and asks for the certificate in the Secret ps-dqn-tls. Default: no TLS.",
        ),
        "storage": (
            "",
            "Size of the run directory's volume, like 50Gi. Default: the manifests' own.",
        ),
        "storage_class": (
            "",
            "StorageClass of that volume. Default: the cluster's default class.",
        ),
        "dns": (
            "",
            "Pods that answer names in this cluster, whom tasks may ask: NAMESPACE/LABEL=VALUE, "
            "with :PORT where that is not 53. Default: kube-system/k8s-app=kube-dns.",
        ),
        "output": ("", "Folder for the run's overlay. Default: launch/ and the name."),
    }
    for name, (default, text) in strings.items():
        absl_flags.DEFINE_string(name, default, text, flag_values=values)
    of_role = "of all roles, or of one, like 2,worker=4 (comma separated). Asked for and limit."
    lists = {"cpu": f"Processors {of_role}", "memory": f"Memory {of_role}"}
    for name, text in lists.items():
        absl_flags.DEFINE_list(name, [], f"{text} Default: the manifests' own.", flag_values=values)
    counted = {
        "workers": "Workers (pods); with --topology=apex or seed the learners, beside which "
        "--num_actors pods act.",
        "ps": "Parameter servers (pods).",
    }
    for name, text in counted.items():
        absl_flags.DEFINE_integer(name, None, text, 1, flag_values=values)
    absl_flags.DEFINE_integer(
        "replay_servers",
        None,
        "With --topology=apex, replay servers (pods). Default: 1.",
        1,
        flag_values=values,
    )
    absl_flags.DEFINE_enum(
        "overlay",
        "base",
        OVERLAYS,
        "Which manifests the run's are made of: see the folder k8s.",
        flag_values=values,
    )
    absl_flags.DEFINE_enum(
        "access_mode",
        None,
        ["ReadWriteMany", "ReadWriteOnce"],
        "Who may mount that volume: any node, or one, on which the pods that need it are placed "
        "then. Default: the manifests' own.",
        flag_values=values,
    )
    said_often = {
        "patch": "File with anything else that the manifests should say: objects as Kustomize "
        "merges them, by their kind and name in the manifests. May be said several times.",
        "set": "One value of a role's object, like worker.spec.template.spec.priorityClassName="
        "cheap; it goes before what files say, and is JSON or else text. May be said several "
        "times.",
    }
    for name, text in said_often.items():
        absl_flags.DEFINE_multi_string(name, [], text, flag_values=values)
    switches = {
        "free_nodes": "When the run is over, the coordinator scales workers and parameter servers "
        "to zero, so that their nodes are free. Needs leave to make a Role. A JobSet and a TFJob "
        "free theirs without.",
        "dry_run": "Print the rendered manifests; write and apply nothing.",
        "apply": "Write the overlay and apply it with kubectl. Without: write it only.",
    }
    for name, text in switches.items():
        absl_flags.DEFINE_bool(name, name == "free_nodes", text, flag_values=values)
    return values


def read(values: absl_flags.FlagValues) -> Launch:
    """The run that parsed flags describe, those of the experiment among them.

    Raises:
        absl.flags.Error: the flagfile has a flag that is unknown or cannot be read.
        UsageError: a value cannot be used, here or by the coordinator.
    """
    _check_what_to_do(values)
    place = launched.read_place(values)
    launched_tasks.check_count(values, "workers")
    run = _read_experiment(values)
    launched_tasks.check(values, run)
    names.check_length(place.name, values.overlay, values.ps or 0)
    image = _read_image(values, "image")
    if image is None:
        raise UsageError(
            "--image is missing: say the image that the nodes can pull; to make one, in a checkout "
            f"of this project: docker build --tag REPOSITORY/ps-dqn:{__version__} . && docker push "
            f"REPOSITORY/ps-dqn:{__version__} (docs/kubernetes.md says how without Docker, and for "
            f"kind)"
        )
    if values.worker_image:
        _read_image(values, "worker_image")
    elif values.overlay == "gpu-worker":
        raise UsageError(
            f"--image={values.image}: with --overlay=gpu-worker, say which image the workers take "
            f"too, one of TensorFlow with CUDA: --worker_image"
        )
    return Launch(
        place=place,
        image=image,
        worker_image=values.worker_image,
        tls_image=_read_tls_image(values),
        workers=values.workers,
        ps=values.ps or 0,
        extra=launched_tasks.extra_roles(values, run),
        experiment=run,
        overlay=values.overlay,
        cpu=quantities.by_role("cpu", values.cpu),
        memory=quantities.by_role("memory", values.memory),
        storage=_read_storage(values),
        dns=dns.read(values.dns),
        free_nodes=_read_free_nodes(values),
        patches=patches.read(values.patch, values["set"].value),
        output=paths.named("--output", values.output or f"launch/{values.name}"),
        dry_run=values.dry_run,
        apply=values.apply,
    )


def _check_what_to_do(values: absl_flags.FlagValues) -> None:
    if values.dry_run and values.apply:
        raise UsageError(
            "--dry_run --apply: one changes nothing, the other the cluster; leave one of them out"
        )
    if values.dry_run and values.context:
        raise UsageError(
            f"--context={values.context}: has no effect with --dry_run, which asks no cluster; "
            f"leave it out"
        )


def _read_image(values: absl_flags.FlagValues, flag: str) -> Image | None:
    text = values[flag].value
    if not text:
        return None
    match = _IMAGE.fullmatch(text)
    if match is None:
        raise UsageError(
            f"--{flag}={text}: must be repository:tag or repository@sha256:…, and names are lower "
            f"case, like registry.example.com/ps-dqn:{__version__}"
        )
    return Image(match["name"], match["tag"] or "", match["digest"] or "")


def _read_tls_image(values: absl_flags.FlagValues) -> Image | None:
    image = _read_image(values, "tls_image")
    if image and values.overlay in COMPONENTS:
        raise UsageError(
            f"--tls_image={values.tls_image}: not with --overlay={values.overlay}, which gives the "
            f"tasks other addresses; take another overlay, or a network plugin that encrypts"
        )
    for name in ("workers", "ps") if image else ():
        if values[name].value > MOST_WITH_TLS:
            raise UsageError(
                f"--{name}={values[name].value}: with --tls_image, {MOST_WITH_TLS} at most, as the "
                f"sidecar has an address for each"
            )
    return image


def _read_storage(values: absl_flags.FlagValues) -> Storage:
    if values.storage:
        quantities.check_bytes(f"--storage={values.storage}", values.storage)
    if values.storage_class:
        names.check_storage_class(values.storage_class)
    return Storage(values.storage, values.storage_class, values.access_mode or "")


def _read_free_nodes(values: absl_flags.FlagValues) -> bool:
    if not values.free_nodes and values.overlay in COMPONENTS:
        raise UsageError(
            f"--free_nodes=false: has no effect with --overlay={values.overlay}, whose pods go "
            f"when the coordinator is done; leave it out"
        )
    return bool(values.free_nodes and values.overlay not in COMPONENTS)


def _read_experiment(values: absl_flags.FlagValues) -> Experiment:
    """The flagfile and what is said beside it, after the checks that the coordinator would make."""
    known = [name for of_topic in experiment.topics().values() for name in of_topic]
    said = command_line.as_flagfile(values, [name for name in known if values[name].present])
    path = paths.named("--flagfile", values.flagfile) if values.flagfile else None
    content = _read_flagfile(path) if path else b""
    if said:
        ends = b"" if not content or content.endswith(b"\n") else b"\n"
        content += ends + f"# Said on the command line:\n{said}".encode()
    presets = [f"--preset={names}" for names in values.preset or []]
    where = f"--flagfile={path}: " if path and not said and not presets else ""
    words = [*presets, *([f"--flagfile={path}"] if path else []), *said.splitlines()]
    found = launched.read_experiment(words, values.workers, where)
    if not found["env_id"].present:
        raise UsageError(
            f"{where}--env_id is missing: say what to train on, --env_id=… and the other flags of "
            f"the experiment, here, in a --flagfile or by a --preset"
        )
    if names := command_line.presets(found):
        # As they are here and now: the image may have others.
        resolved = command_line.as_flagfile(found, [name for name in known if found[name].present])
        content = f"{directory.BEGAN_WITH}{','.join(names)}\n{resolved}".encode()
    topology = servers.topology(found)
    whose = topology.topology, topology.num_actors if topology.says_workers else 0
    return Experiment(content, found.env_id, *whose, has_servers=found.strategy != "all_reduce")


def _read_flagfile(path: pathlib.Path) -> bytes:
    try:
        content = path.read_bytes()
        lines = content.decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text in UTF-8"
        raise UsageError(f"--flagfile={path}: {reason}") from None
    if any(re.match(r"--?flagfile\b", line) for line in lines):
        raise UsageError(
            f"--flagfile={path}: reads another flagfile, which would not be there on Kubernetes; "
            f"put its lines in this one"
        )
    return content
