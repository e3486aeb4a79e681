"""A cluster of tasks that others start: waited for, probed, and gone on with when one is lost."""

import json
import os
import pathlib
import signal
import sys
import urllib.error
import urllib.request

import portpicker
import pytest
from prometheus_client.parser import text_string_to_metric_families
from support import processes as real
from support.processes import Processes, Running
from support.remote_tasks import MODULES

from ps_dqn.cluster import ports
from ps_dqn.cluster.spec import ClusterSpec, Task
from ps_dqn.run import signals

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

ENDLESS = (
    "--total_env_steps=100000000",
    "--target_return=inf",
    "--log_interval=0.5",
    "--checkpoint_period=0.5",
    "--hidden_sizes=16,16",
    "--jit_compile=none",
    "--local_updates=16",
    "--eval_episodes=2",
    "--max_staleness=100",
)


@pytest.fixture
def spec() -> ClusterSpec:
    return ports.on_this_machine(1, 1)


def start(processes: Processes, spec: ClusterSpec, job: str, *flags: str) -> Running:
    place = spec.tf_config(Task(job, 0))
    return processes.start("-m", MODULES[job], *flags, TF_CONFIG=place)


def ask(port: int, path: str) -> tuple[int, str]:
    """Status and text; 0 where nobody answers."""
    try:
        with urllib.request.urlopen(f"http://localhost:{port}{path}", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def measure(port: int) -> dict[str, float]:
    """Every sample by its name and the values of its labels."""
    found = {}
    for family in text_string_to_metric_families(ask(port, "/metrics")[1]):
        for sample in family.samples:
            found["/".join([sample.name, *sample.labels.values()])] = sample.value
    return found


def test_every_task_answers_probes_and_says_what_it_does(
    processes: Processes, spec: ClusterSpec, tmp_path: pathlib.Path
) -> None:
    chief, ps, worker = (portpicker.pick_unused_port() for _ in range(3))
    running = start(
        processes, spec, "chief", *ENDLESS, f"--run_dir={tmp_path}", f"--health_port={chief}"
    )
    # Nobody is there yet: it is alive, as it depends on no peer, but not ready, and says for whom
    # it waits.
    running.line_with(f"waiting for parameter server 0 at {spec.ps[0]} and 1 more")
    assert ask(chief, "/livez") == (200, "ok\n")
    assert ask(chief, "/readyz")[0] == 503
    assert measure(chief)["ps_dqn_state/connecting"] == 1

    start(processes, spec, "ps", f"--health_port={ps}")
    start(processes, spec, "worker", f"--health_port={worker}")
    running.trains()
    for port in (chief, ps, worker):
        assert ask(port, "/livez") == ask(port, "/readyz") == (200, "ok\n")
    real.until(lambda: measure(worker).get("ps_dqn_worker_closures_total"), 60, "a closure")
    run = real.until(
        lambda: (now := measure(chief)).get("ps_dqn_pushes_total/applied") and now, 60, "pushes"
    )
    assert run["ps_dqn_state/training"] == 1
    assert run["ps_dqn_workers"] == run["ps_dqn_workers_reporting"] == 1
    assert run["ps_dqn_staleness_bound"] == 100
    assert 0 <= run["ps_dqn_checkpoint_age_seconds"] < 60
    # A push of 16 updates each.
    assert run["ps_dqn_updates_total"] == 16 * run["ps_dqn_version"]
    assert run["ps_dqn_phase_seconds_total/gradient"] > 0
    # The tasks are asked later, and know more.
    served, made = measure(ps), measure(worker)
    assert served["ps_dqn_ps_version"] >= run["ps_dqn_version"]
    assert served["ps_dqn_ps_pushes_total"] >= run["ps_dqn_version"]
    assert served["ps_dqn_ps_parameters"] == 16 * 4 + 16 * 16 + 16 * 2 + 16 * 6 + 2
    assert made["ps_dqn_worker_env_steps_total"] >= run["ps_dqn_env_steps_total"]
    assert made["ps_dqn_worker_replay_rows"] > 0
    assert made["ps_dqn_worker_replay_bytes"] > 50_000 * 4 * 4
    assert made["process_resident_memory_bytes"] > 2**20


def test_a_lost_parameter_server_may_come_back_and_so_may_the_coordinator(
    processes: Processes, spec: ClusterSpec, tmp_path: pathlib.Path
) -> None:
    worker = start(processes, spec, "worker")
    server = start(processes, spec, "ps")
    running = start(processes, spec, "chief", *ENDLESS, f"--run_dir={tmp_path}")
    for _ in range(2):
        trained = running.count("updates/s")
        real.until(lambda n=trained: running.count("updates/s") > n + 2, 120, "training")
        real.until(lambda: list(tmp_path.glob("checkpoints/updates-*.npz")), 60, "a checkpoint")
        waited = running.count("waiting for parameter server 0")

        os.kill(server.pid, signal.SIGKILL)

        real.until(
            lambda n=waited: running.count("waiting for parameter server 0") > n, 60, "the loss"
        )
        server = start(processes, spec, "ps")
    trained = running.count("updates/s")
    real.until(lambda: running.count("updates/s") > trained + 2, 120, "training")
    assert running.count("none is missing") == running.count("connecting anew") == 2
    assert "Traceback" not in running.text

    # Told to stop, it leaves a checkpoint, and another process goes on with the same tasks.
    os.kill(running.pid, signal.SIGTERM)
    assert running.ended() == signals.START_AGAIN, running.text
    assert json.loads((tmp_path / "summary.json").read_text())["reason"] == signals.STOPPED
    another = start(processes, spec, "chief", f"--run_dir={tmp_path}")
    another.trains()
    assert another.count("0 pushes after that are pushed again, none is missing") == 1
    assert server.process.poll() is worker.process.poll() is None


def test_nobody_comes_back_where_a_system_stops_the_run(
    processes: Processes, spec: ClusterSpec, tmp_path: pathlib.Path
) -> None:
    start(processes, spec, "worker")
    server = start(processes, spec, "ps")
    running = start(processes, spec, "chief", *ENDLESS, f"--run_dir={tmp_path}")
    running.trains()
    os.kill(server.pid, signal.SIGKILL)
    running.line_with("waiting for parameter server 0")

    os.kill(running.pid, signal.SIGTERM)

    assert running.ended() == signals.START_AGAIN, running.text


def test_a_run_is_saved_though_its_workers_are_gone(
    processes: Processes, spec: ClusterSpec, tmp_path: pathlib.Path
) -> None:
    start(processes, spec, "ps")
    worker = start(processes, spec, "worker")
    flags = (*ENDLESS, "--checkpoint_period=inf", "--drain_timeout=inf", f"--run_dir={tmp_path}")
    running = start(processes, spec, "chief", *flags)
    running.trains()

    os.kill(worker.pid, signal.SIGKILL)
    assert worker.ended() == -signal.SIGKILL
    os.kill(running.pid, signal.SIGTERM)

    assert running.ended() == signals.START_AGAIN, running.text
    assert len(list(tmp_path.glob("checkpoints/updates-*.npz"))) == 1


@pytest.mark.parametrize("job", ["worker", "chief"])
def test_a_port_for_probes_that_is_taken(
    processes: Processes, spec: ClusterSpec, tmp_path: pathlib.Path, job: str
) -> None:
    with real.taken_port() as port:
        flags = [f"--health_port={port}"]
        flags += [f"--run_dir={tmp_path}/run"] if job == "chief" else []
        refused = start(processes, spec, job, *flags)
        assert refused.ended() == signals.WRONG_USAGE, refused.text
    assert f"--health_port={port}: cannot be used" in refused.text
    assert "Traceback" not in refused.text
