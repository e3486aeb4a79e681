"""The image as it is built of this checkout, and programs run in it as in a container."""

import ast
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from urllib.parse import urlsplit

import pytest
from pip._internal.models.index import PyPI

from support.programs import ROOT

SCRIPT = ROOT / "k8s" / "image" / "build-with-buildah"
IMAGE = "localhost/ps-dqn-test"
USER = 10001
# A setting of pip that does nothing: the build must see it, the image must not.
MARK = "index.invalid"
BUILD_SECONDS = 1200
RUN_SECONDS = 300

# A container of this root file system: its own mounts and processes, its program is process 1. The
# runtime of a cluster makes such places to mount something at, and /etc/hosts.
IN_ROOT = """
root=$1 runs=$2; shift 2
mount --bind "$root" "$root"
mount --options remount,bind,ro "$root"
mount --types tmpfs tmpfs "$root/tmp"
mount --bind "$runs" "$root/runs"
mount --bind /etc/hosts "$root/etc/hosts"
mount --types proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot --userspec=10001:10001 --groups= "$root" "$@"
"""


def tool(name: str, source: str) -> str:
    """The path of a program; skips the test where there is none."""
    folders = [str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", "")]
    found = shutil.which(name, path=os.pathsep.join(folders))
    if not found:
        pytest.skip(f"needs {name} ({source})")
    return found


def pip_settings() -> dict[str, str]:
    """How this machine's pip is set up; what a file says comes before what a variable says."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    settings = [line.partition("=") for line in sorted(out.splitlines(), key=_is_variable)]
    return {name.rpartition(".")[2]: ast.literal_eval(value) for name, _, value in settings}


def _is_variable(line: str) -> bool:
    return line.startswith(":env:")


def package_sources() -> set[str]:
    """The hosts and folders in which this machine's pip looks, the public index not among them."""
    settings = pip_settings()
    names = ("index-url", "extra-index-url", "find-links")
    addresses = [urlsplit(word) for name in names for word in settings.get(name, "").split()]
    found = {address.netloc.rpartition("@")[2] or address.path for address in addresses}
    return found - {PyPI.netloc}


@dataclasses.dataclass
class Image:
    """A built image: its configuration, all that buildah says of it, and its files."""

    config: dict
    description: str
    root: pathlib.Path

    def command(self, runs: pathlib.Path, program: Sequence[str]) -> list[str]:
        """How a program runs in it, with its root read-only and a folder as /runs."""
        os.chown(runs, USER, USER)
        namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--propagation=private"]
        entered = ["sh", "-euc", IN_ROOT, "sh", str(self.root), str(runs)]
        return ["unshare", *namespaces, *entered, "env", "-i", *self.config["Env"], *program]

    def run(self, runs: pathlib.Path, *arguments: str) -> str:
        """Runs its entry point to the end and returns what it wrote."""
        return self.run_program(runs, *self.config["Entrypoint"], *arguments)

    def run_program(self, runs: pathlib.Path, *program: str) -> str:
        done = subprocess.run(
            self.command(runs, program),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=RUN_SECONDS,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


def build(folder: pathlib.Path) -> Image:
    """The image of this checkout, in a storage of its own below the folder."""
    kind = subprocess.run(["stat", "-fc%T", folder], capture_output=True, text=True).stdout
    # In a container, where an overlay cannot lie on another.
    driver = "vfs" if "overlay" in kind else "overlay"
    storage = folder / "storage.conf"
    storage.write_text(
        f'[storage]\ndriver = "{driver}"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    )
    environment = {
        **os.environ,
        # One layer instead of a copy for each step: half the time.
        "BUILDAH_LAYERS": "false",
        "CONTAINERS_STORAGE_CONF": str(storage),
        "PIP_TRUSTED_HOST": f"{pip_settings().get('trusted-host', '')} {MARK}",
        "TMPDIR": str(folder),
    }

    def output_of(*command: str) -> str:
        with subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                out, errors = process.communicate(timeout=BUILD_SECONDS)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == 0, f"{command}:\n{out[-5000:]}\n{errors[-5000:]}"
        return out

    output_of(str(SCRIPT), IMAGE)
    description = output_of("buildah", "inspect", "--type=image", IMAGE)
    container = output_of("buildah", "from", IMAGE).strip()
    root = pathlib.Path(output_of("buildah", "mount", container).strip())
    return Image(json.loads(description)["OCIv1"]["config"], description, root)


def unmount(folder: pathlib.Path) -> None:
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    for place in reversed([line.split()[4] for line in lines]):
        if place.startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", place], check=True)
