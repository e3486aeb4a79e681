"""Programs that tests start, and where they find what they need."""

import atexit
import contextlib
import functools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

import pytest

SUPPORT = pathlib.Path(__file__).parent
TESTS = SUPPORT.parent
ROOT = TESTS.parent
# For one that hangs; on a busy machine a good one may take many times its half a minute.
RUN_SECONDS = 600


@functools.cache
def _compiled() -> str:
    """A folder for compiled code: what one program has compiled the others need not."""
    folder = tempfile.mkdtemp(prefix="ps_dqn-compiled-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def inherited_environment() -> dict[str, str]:
    """This process's environment for a program: in no cluster, with compiled code to share."""
    kept = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    cache = f"--tf_xla_persistent_cache_directory={_compiled()}"
    return {**kept, "TF_XLA_FLAGS": f"{cache} --tf_xla_persistent_cache_device_types=CPU"}


def environment_of_python() -> dict[str, str]:
    """The same, for Python that imports what is here."""
    environment = inherited_environment()
    # The tests' folder has the environments that --env_module names.
    paths = [str(TESTS), str(ROOT), environment.get("PYTHONPATH", "")]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def run_python(
    arguments: Sequence[object], folder: pathlib.Path, seconds: float = RUN_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Runs this interpreter in a folder; whatever it started is gone when this returns."""
    command = [sys.executable, *map(str, arguments)]
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment_of_python(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as expired:
            shown = [each.decode() for each in (expired.stdout, expired.stderr) if each]
            pytest.fail(f"still running after {seconds} s; its output:\n{''.join(shown)}")
        finally:
            # Tasks lead groups of their own; their lifeline ends them with this one.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def processes_that_mention(text: str) -> list[int]:
    """Ids of the processes with a text in their command line; forked tasks keep their parent's."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text.encode() in path.read_bytes() and path.parent.name != str(os.getpid()):
                found.append(int(path.parent.name))
    return found


def end_with(result_of: Callable[[], object]) -> NoReturn:
    """Ends a program as entry points do: TensorFlow's destructors wait for tasks that are gone.

    Prints what the work has returned, as one line of JSON; or how it has failed.
    """
    status = 1
    try:
        print(json.dumps(result_of()), flush=True)
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(status)
