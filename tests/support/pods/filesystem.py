"""What a container sees: the root file system of its image, its volumes, its own processes.

The image's place is taken by this machine's programs and this Python, which cannot be written. The
rest of the machine is not there.
"""

import dataclasses
import pathlib
import shlex
import sys
from collections.abc import Sequence

REPOSITORY = pathlib.Path(__file__).parents[3]
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_SETTINGS = ("ld.so.cache", "localtime", "passwd", "group")


@dataclasses.dataclass(frozen=True)
class Mount:
    """A folder of this machine, and where the container sees it."""

    source: pathlib.Path
    target: str
    read_only: bool = False


@dataclasses.dataclass(frozen=True)
class Identity:
    """Whom a container runs as."""

    user: int
    group: int
    supplementary: tuple[int, ...] = ()


class Settings:
    """The folder /etc of all pods. It is replaced file by file, never written into."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        folder.mkdir()
        for name in _SETTINGS:
            source = pathlib.Path("/etc", name)
            if source.exists():
                (folder / name).write_bytes(source.read_bytes())
        (folder / "nsswitch.conf").write_text("hosts: files\n")
        self.publish({})

    def publish(self, names: dict[str, str]) -> None:
        """Gives host names their addresses, in all pods at once."""
        lines = ["127.0.0.1 localhost", *(f"{names[name]} {name}" for name in sorted(names))]
        fresh = self.folder / "hosts.new"
        fresh.write_text("\n".join(lines) + "\n")
        fresh.replace(self.folder / "hosts")  # nobody reads half of it


def script(
    root: pathlib.Path,
    host_name: str,
    mounts: list[Mount],
    identity: Identity,
    program: Sequence[str],
) -> str:
    """A shell script that makes a container's file system and becomes the container's program.

    It runs in namespaces of its own for mounts, processes and the host name.

    Args:
        root: an empty folder.
        host_name: the container's.
        mounts: everything beside the image, /etc included; in the order they are made.
        identity: whom the program runs as.
        program: absolute path and arguments.
    """
    lines = ["set -eu", f"hostname {shlex.quote(host_name)}", f"cd {shlex.quote(str(root))}"]
    lines += ["mount -t tmpfs -o mode=755 root .", 'cd "$PWD"', *_system(), *_devices()]
    for mount in mounts:
        lines += _bind(str(mount.source), mount.target)
    lines += _trees()
    # Not before every folder is made that something is mounted on.
    lines += [_lock(mount.target) for mount in mounts if mount.read_only]
    lines += ["mount -o remount,ro,mode=755 root ."]
    return "\n".join([*lines, shlex.join(_enter(identity, program)), ""])


def _system() -> list[str]:
    lines = ["mkdir -p proc dev sys", "mount -t proc proc proc"]
    for name in _SYSTEM:
        path = pathlib.Path("/", name)
        if path.is_symlink():
            lines.append(f"ln -s {shlex.quote(str(path.readlink()))} {name}")
        elif path.exists():
            lines += [*_bind(str(path), f"/{name}"), _lock(f"/{name}")]
    return lines


def _devices() -> list[str]:
    lines = ["mount -t tmpfs -o mode=755 dev dev", "ln -s /proc/self/fd dev/fd"]
    for name in _DEVICES:
        lines += [f"touch dev/{name}", f"mount --bind /dev/{name} dev/{name}"]
    return [*lines, "mkdir -m 1777 dev/shm", "mount -t tmpfs -o mode=1777 shm dev/shm"]


def _trees() -> list[str]:
    """The interpreter, its packages and this repository, at the paths they have here.

    Another user may not be let into these folders or those above them. So the folders above are
    made anew, and what is mounted is an overlay, which has the permissions of its first layer.
    """
    lines = ["mkdir -p -m 755 dev/open"]
    found = {str(pathlib.Path(each)) for each in (sys.prefix, sys.base_prefix, REPOSITORY)}
    for tree in sorted(found):
        if tree.startswith("/usr"):
            continue
        target = shlex.quote(f".{tree}")
        layers = shlex.quote(f"lowerdir=dev/open:{tree}")
        lines += [f"mkdir -p -m 755 {target}", f"mount -t overlay -o {layers} image {target}"]
    return lines


def _bind(source: str, target: str) -> list[str]:
    place = shlex.quote(f".{target}")
    return [f"mkdir -p {place}", f"mount --bind {shlex.quote(source)} {place}"]


def _lock(target: str) -> str:
    return f"mount -o remount,bind,ro {shlex.quote('.' + target)}"


def _enter(identity: Identity, program: Sequence[str]) -> list[str]:
    groups = ",".join(map(str, identity.supplementary))
    return [
        *("exec", "chroot", ".", "setpriv"),
        *("--reuid", str(identity.user), "--regid", str(identity.group)),
        *(("--groups", groups) if groups else ("--clear-groups",)),
        *("--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--pdeathsig", "KILL"),
        *program,
    ]
