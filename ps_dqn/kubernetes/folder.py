"""The folder of a run's overlay: it has all that is applied, so it can be kept and moved."""

import pathlib
import re
import shutil

from ps_dqn import k8s
from ps_dqn.errors import UsageError
from ps_dqn.kubernetes import overlay
from ps_dqn.kubernetes.overlay import FLAGFILE, MANIFESTS, MARK, PATCHES
from ps_dqn.kubernetes.plan import Launch

SOURCE = pathlib.Path(k8s.__file__).resolve().parent
KUSTOMIZATION, README = "kustomization.yaml", "README.md"
NOTE = """\
Written by ps_dqn.launch: the manifests that ../kustomization.yaml is made of.

This folder is replaced when the run is launched again. What should be different belongs into a file
that `--patch` names, or into ../kustomization.yaml once its first line is taken away.
"""


def check_is_free(folder: pathlib.Path) -> None:
    """Refuses a folder with anything in it that this program did not write.

    Raises:
        UsageError: there is something; what to do.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--output={folder}: is a file; name a folder")
    found = {each.name for each in folder.iterdir()} if folder.exists() else set()
    others = sorted(found - {KUSTOMIZATION, FLAGFILE, MANIFESTS, PATCHES})
    if others:
        raise UsageError(
            f"--output={folder}: has something else in it ({others[0]}); name another folder"
        )
    marks = {KUSTOMIZATION: MARK} if found else {}
    if MANIFESTS in found:
        marks[f"{MANIFESTS}/{README}"] = NOTE.splitlines()[0]
    for name, mark in marks.items():
        file = folder / name
        if not (file.exists() and file.read_bytes().startswith(mark.encode())):
            raise UsageError(
                f"--output={folder}: what is in it is not this program's; name another folder"
            )


def write(run: Launch, folder: pathlib.Path) -> None:
    """Writes the overlay, or replaces it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / KUSTOMIZATION).write_text(overlay.text(run), encoding="utf-8")
    (folder / FLAGFILE).write_bytes(run.experiment.content)
    for name in (MANIFESTS, PATCHES):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / MANIFESTS).mkdir()
    (folder / MANIFESTS / README).write_text(NOTE, encoding="utf-8")
    for name in overlay.folders(run):
        shutil.copytree(
            SOURCE / name,
            folder / MANIFESTS / name,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    for patch in run.patches:
        (folder / PATCHES).mkdir(exist_ok=True)
        (folder / PATCHES / patch.name).write_bytes(patch.content)


def set_workers(folder: pathlib.Path, workers: int) -> bool:
    """Has the overlay in a folder say another number of workers; False where there is none."""
    file = folder / KUSTOMIZATION
    if not file.exists():
        return False
    text, changed = re.subn(
        r"(\{name: worker, count: )\d+", rf"\g<1>{workers}", file.read_text(encoding="utf-8")
    )
    if changed:
        file.write_text(text, encoding="utf-8")
    return bool(changed)
