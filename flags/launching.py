"""The flags of `python -m ps_dqn.launch k8s`: which run, where, and what is done about it."""

import dataclasses
import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from absl import flags as absl_flags

from ps_dqn import k8s
from ps_dqn.config import checks
from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, experiment

MANIFESTS = pathlib.Path(k8s.__file__).resolve().parent
OVERLAYS = ("base", "local", "cpu-fleet", "gpu-worker", "jobset", "tfjob")
# These move all pods into one object of theirs, once everything else has been done.
COMPONENTS = ("jobset", "tfjob")
MOST_WITH_TLS = 256  # of a role; k8s/components/tls/relay.sh refuses more, too
# What a run is called becomes names of Services, which begin with a letter (RFC 1035), and labels.
MOST_CHARACTERS = 63
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_IMAGE = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9._-]*(:\d+(?=/))?(/[a-z0-9][a-z0-9._-]*)*)"
    r"(:(?P<tag>\w[\w.-]{0,127})|@(?P<digest>sha256:[0-9a-f]{64}))",
    re.ASCII,
)

TOPICS = {
    "The run.": ("name", "flagfile", "workers", "ps"),
    "Its manifests.": ("overlay", "namespace", "image", "worker_image", "tls_image"),
    "What to do.": ("output", "dry_run", "apply", "context"),
}


class Image(NamedTuple):
    """A container image: its name, and the tag or the digest that says which; one is empty."""

    name: str
    tag: str
    digest: str


@dataclasses.dataclass(frozen=True)
class Launch:
    """One run on Kubernetes; whoever has it need not check it again."""

    name: str
    namespace: str
    image: Image | None  # None: the manifests' own
    worker_image: str  # empty: as the others
    tls_image: Image | None  # None: tasks speak without TLS
    workers: int
    ps: int
    flagfile: bytes  # what is in it
    overlay: str
    output: pathlib.Path
    dry_run: bool
    apply: bool
    context: str  # kubectl's; empty: its present one


class _Flags(absl_flags.FlagValues):
    """Here --flagfile names the experiment's flags, which are not this command's."""

    def read_flags_from_files(self, argv: Sequence[str], force_gnu: bool = True) -> list[str]:
        return list(argv)


def define() -> absl_flags.FlagValues:
    """The flags of one run."""
    values = _Flags()
    strings = {
        "name": ("", "What the run is called: its objects begin with it, its folder is named so."),
        "flagfile": (
            str(MANIFESTS / "base" / "experiment.flags"),
            "The experiment: flags of ps_dqn.coordinator, one a line.",
        ),
        "namespace": (
            "ps-dqn",
            "Kubernetes namespace, which must be there; it may have more runs.",
        ),
        "image": (
            "",
            "Container image, repository:tag or repository@digest. Default: the manifests' own, "
            "which is not in any registry.",
        ),
        "worker_image": ("", "Container image of the workers, where it is not --image."),
        "tls_image": (
            "",
            "Container image with stunnel: beside every task, it encrypts what tasks say to each "
            "other and asks for the certificate in the Secret ps-dqn-tls. Default: no TLS.",
        ),
        "output": ("", "Folder for the run's overlay. Default: launch/ and the name."),
        "context": ("", "kubectl's context. Default: its present one."),
    }
    for name, (default, text) in strings.items():
        absl_flags.DEFINE_string(name, default, text, flag_values=values)
    for name, text in {"workers": "Workers (pods).", "ps": "Parameter servers (pods)."}.items():
        absl_flags.DEFINE_integer(name, None, text, 1, flag_values=values)
    absl_flags.DEFINE_enum(
        "overlay",
        "base",
        OVERLAYS,
        "Which manifests the run's are made of: see the folder k8s.",
        flag_values=values,
    )
    switches = {
        "dry_run": "Print the rendered manifests; write and apply nothing.",
        "apply": "Write the overlay and apply it with kubectl. Without: write it only.",
    }
    for name, text in switches.items():
        absl_flags.DEFINE_bool(name, False, text, flag_values=values)
    return values


def read(values: absl_flags.FlagValues) -> Launch:
    """The run that parsed flags describe.

    Raises:
        absl.flags.Error: the flagfile has a flag that is unknown or cannot be read.
        UsageError: a value cannot be used, here or by the coordinator.
    """
    _check_what_to_do(values)
    for name in ("name", "workers", "ps"):
        if not values[name].value:
            raise UsageError(f"--{name} is missing; it says: {values[name].help}")
    _check_names(values)
    image = _read_image(values, "image")
    if values.worker_image:
        _read_image(values, "worker_image")
    elif image and values.overlay == "gpu-worker":
        raise UsageError(
            f"--image={values.image}: with --overlay=gpu-worker, say which image the workers take "
            f"too, one of TensorFlow with CUDA: --worker_image"
        )
    tls_image = _read_image(values, "tls_image")
    if tls_image and values.overlay in COMPONENTS:
        raise UsageError(
            f"--tls_image={values.tls_image}: not with --overlay={values.overlay}, which gives the "
            f"tasks other addresses; take another overlay, or a network plugin that encrypts"
        )
    for name in ("workers", "ps") if tls_image else ():
        if values[name].value > MOST_WITH_TLS:
            raise UsageError(
                f"--{name}={values[name].value}: with --tls_image, {MOST_WITH_TLS} at most, as the "
                f"sidecar has an address for each"
            )
    return Launch(
        name=values.name,
        namespace=values.namespace,
        image=image,
        worker_image=values.worker_image,
        tls_image=tls_image,
        workers=values.workers,
        ps=values.ps,
        flagfile=_read_experiment(pathlib.Path(values.flagfile), values.workers),
        overlay=values.overlay,
        output=pathlib.Path(values.output or f"launch/{values.name}"),
        dry_run=values.dry_run,
        apply=values.apply,
        context=values.context,
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


def _check_names(values: absl_flags.FlagValues) -> None:
    if not _NAME.fullmatch(values.name):
        raise UsageError(
            f"--name={values.name}: must be lower-case letters, digits and -, the first a letter, "
            f"the last no -"
        )
    if not _NAMESPACE.fullmatch(values.namespace):
        raise UsageError(
            f"--namespace={values.namespace}: must be lower-case letters, digits and -, neither "
            f"first nor last a -, {MOST_CHARACTERS} at most"
        )
    # What is longest of all that Kubernetes makes of the name: the label with the revision of a
    # StatefulSet, or what JobSet calls its pods.
    longest = "-parameter-server-0123456789"
    if values.overlay == "jobset":
        longest = f"-ps-dqn-parameter-server-0-{values.ps - 1}-abcde"
    most = MOST_CHARACTERS - len(longest)
    if len(values.name) > most:
        raise UsageError(
            f"--name={values.name}: {len(values.name)} characters; with --overlay={values.overlay} "
            f"{most} at most, so that {MOST_CHARACTERS} hold {values.name}{longest}"
        )


def _read_image(values: absl_flags.FlagValues, flag: str) -> Image | None:
    text = values[flag].value
    if not text:
        return None
    match = _IMAGE.fullmatch(text)
    if match is None:
        raise UsageError(
            f"--{flag}={text}: must be repository:tag or repository@sha256:…, like "
            f"registry.example.com/ps-dqn:0.1.0"
        )
    return Image(match["name"], match["tag"] or "", match["digest"] or "")


def _read_experiment(path: pathlib.Path, workers: int) -> bytes:
    """What is in a flagfile, after the checks that the coordinator would make of it."""
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
    values = command_line.new_flags()
    experiment.define(values)
    try:
        command_line.parse(values, ["experiment", f"--flagfile={path}"])
        checks.check_workers(experiment.read(values), workers, is_remote=True)
    except absl_flags.UnrecognizedFlagError as error:
        raise UsageError(
            f"--flagfile={path}: may have the experiment's flags alone, as the manifests say where "
            f"tasks and files are: {error}"
        ) from None
    except (absl_flags.Error, UsageError) as error:
        raise UsageError(f"--flagfile={path}: {error}") from None
    return content
