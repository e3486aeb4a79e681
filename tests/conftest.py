"""What the tests share: one in-process cluster, and a way to run the command line."""

import os

# Before anything imports NumPy, as the entry points do it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import contextlib
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

TESTS = pathlib.Path(__file__).parent
RUN_SECONDS = 180


# TensorFlow has one pool for all servers of a process, and each worker's closure holds a thread of
# it: as many threads as workers would be a deadlock.
THREADS = {"intra_op_threads": 1, "inter_op_threads": 4}


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Prepares TensorFlow before a module that uses it is imported: it may make tensors there.

    Thread pools cannot be set after that. Modules without TensorFlow are not made to wait for it.
    """
    if isinstance(collector, pytest.Module):
        text = collector.path.read_text()
        if any(name in text for name in ("tensorflow", "keras", "networks")):
            import tensorflow as tf

            tf.config.threading.set_intra_op_parallelism_threads(THREADS["intra_op_threads"])
            tf.config.threading.set_inter_op_parallelism_threads(THREADS["inter_op_threads"])


@pytest.fixture(scope="session", autouse=True)
def cluster_before_anything_else(request: pytest.FixtureRequest) -> None:
    """Starts the shared cluster first where any test needs it.

    The bridge must be the first to register a Python function with TensorFlow in this process,
    and thread pools cannot be set once TensorFlow has made anything. Where no test needs the
    cluster, TensorFlow is not imported for it.
    """
    if any("coordinator" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("coordinator")


@pytest.fixture(scope="session")
def coordinator():
    """The `ClusterCoordinator` of an in-process cluster: 3 parameter servers, 2 workers.

    TensorFlow can have one such cluster in a process and cannot stop it, so all tests share it.
    """
    from hosts import RoutingHost

    from cluster import in_process
    from cluster.spec import Placement, on_this_machine
    from ps_dqn import bridge, connection

    bridge.install(RoutingHost)
    placement = Placement(
        kind="in_process",
        spec=on_this_machine(num_ps=3, num_workers=2),
        start_method="fork",
        **THREADS,
    )
    in_process.start(placement.spec, **THREADS)
    yield connection.connect(placement)
    bridge.close()


def make_closures(config, num_ps: int, num_workers: int):
    """A new run on the connected cluster: its store and its closures.

    It takes the parameter servers from the run before it.
    """
    from ps_dqn import environments, networks
    from ps_dqn.closures import Closures
    from ps_dqn.parameters import ParameterStore

    environment = environments.describe(config.environment)
    network = networks.build(config.network, config.value, environment, config.run.seed)
    store = ParameterStore(config, num_ps, num_workers, network.initial)
    return store, Closures(config, environment, store, network, run_id="tests")


def run_python(
    arguments: Sequence[object], folder: pathlib.Path, seconds: float = RUN_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Runs this interpreter in a folder; whatever it started is gone when this returns."""
    environment = dict(os.environ)
    # The tests' folder has the environments that --env_module names.
    paths = [str(TESTS), str(TESTS.parent), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    environment.pop("TF_CONFIG", None)
    command = [sys.executable, *map(str, arguments)]
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
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


@pytest.fixture
def coordinate(tmp_path: pathlib.Path) -> Iterator[object]:
    """Runs `python -m ps_dqn.coordinator` into a run directory of a given name."""

    def run(
        name: str, *flags: str, seconds: float = RUN_SECONDS
    ) -> tuple[pathlib.Path, subprocess.CompletedProcess[str]]:
        folder = tmp_path / name
        arguments = ["-m", "ps_dqn.coordinator", f"--run_dir={folder}", *flags]
        ended = run_python(arguments, tmp_path, seconds)
        # The command itself must have ended its tasks, not merely their lifelines.
        assert processes_that_mention(f"--run_dir={folder}") == []
        return folder, ended

    return run
