"""What the tests share: one in-process cluster, and a way to run the command line."""

import os

# Before anything imports NumPy, as the entry points do it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Nothing of a user's: this process compiles each program once, and gains nothing from the disk.
os.environ["TF_XLA_FLAGS"] = "--tf_xla_persistent_cache_directory="

import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support import processes as real
from support import warm
from support.processes import Processes
from support.programs import RUN_SECONDS, processes_that_mention, run_python

# TensorFlow has one pool for all servers of a process, and each worker's closure holds a thread of
# it: as many threads as workers would be a deadlock.
THREADS = {"intra_op_threads": 1, "inter_op_threads": 4}


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """How many processes run tests: two, whose real clusters keep a small machine busy."""
    return 2


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


def pytest_sessionfinish() -> None:
    """Lets go of the run directories that runs in this process hold.

    They are held for as long as it lives, and Python warns of each file that is open at its end.
    """
    lock = sys.modules.get("ps_dqn.run.lock")
    for file in lock._held.values() if lock else ():
        file.close()


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
    from support.hosts import RoutingHost

    from ps_dqn.cluster import in_process
    from ps_dqn.cluster.ports import on_this_machine
    from ps_dqn.cluster.spec import Placement
    from ps_dqn.coordinator.connecting import connection
    from ps_dqn.wire import bridge

    bridge.install(RoutingHost)
    placement = Placement(
        kind="in_process",
        spec=on_this_machine(num_ps=3, num_workers=2),
        start_method="fork",
        **THREADS,
    )
    in_process.start(placement.spec, **THREADS)
    yield connection.connect(placement).coordinator
    for host in bridge._hosts.values():
        getattr(host, "close", host.leave)()  # a worker would wait for its closure


class Coordinate:
    """Runs `python -m ps_dqn.coordinator` into run directories of given names, in a folder."""

    def __init__(self, folder: pathlib.Path):
        self._folder = folder

    def __call__(
        self, name: str, *flags: str, seconds: float = RUN_SECONDS, is_fresh: bool = False
    ) -> tuple[pathlib.Path, subprocess.CompletedProcess[str]]:
        """The run directory, and how the command ended; `is_fresh`: in an interpreter of its own.

        Otherwise it is spared the import of TensorFlow (see `warm`).
        """
        folder = self._folder / name
        arguments = ["-m", "ps_dqn.coordinator", f"--run_dir={folder}", *flags]
        run = run_python if is_fresh else warm.run_python
        ended = run(arguments, self._folder, seconds)
        # The command itself must have ended its tasks, not merely their lifelines.
        assert processes_that_mention(f"--run_dir={folder}") == []
        return folder, ended


@pytest.fixture
def coordinate(tmp_path: pathlib.Path) -> Coordinate:
    """Runs the coordinator in the test's folder."""
    return Coordinate(tmp_path)


@pytest.fixture(scope="module")
def coordinate_once(tmp_path_factory: pytest.TempPathFactory) -> Coordinate:
    """Runs the coordinator in a folder of the module's, for runs that several tests look at."""
    return Coordinate(tmp_path_factory.mktemp("once"))


@pytest.fixture
def looks_back_on_three_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has not pushed for three pushes of every worker of the run is lost already."""
    monkeypatch.setattr("ps_dqn.parameter_server.clock.ROUNDS_BACK", 3)


@pytest.fixture
def processes() -> Iterator[Processes]:
    """Starts processes for one test, which are gone when it ends."""
    with real.gone_at_the_end() as started:
        yield started
