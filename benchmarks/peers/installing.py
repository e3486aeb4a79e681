"""The virtual environments that peers run in."""

import pathlib
import subprocess
import sys
import venv

from known import Peer


class Unavailable(Exception):  # noqa: N818
    """What cannot be measured here; its text says why."""


def interpreter(peer: Peer, environments: pathlib.Path) -> str:
    """The peer's Python; makes its environment where that is not there.

    Raises:
        Unavailable: its packages cannot be installed.
    """
    if not peer.packages:
        return sys.executable
    place = environments / peer.place
    python = place / "bin" / "python"
    wanted = place / "wanted.txt"
    if not wanted.exists() or wanted.read_text() != "\n".join(peer.packages):
        print(f"installing {', '.join(peer.packages)} into {place}", file=sys.stderr, flush=True)
        venv.create(place, with_pip=True)
        command = [str(python), "-m", "pip", "install", "-q", *peer.packages]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise Unavailable(f"not installed: {said[-1] if said else 'pip failed'}")
        wanted.write_text("\n".join(peer.packages))
    return str(python)
