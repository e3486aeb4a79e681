"""A task whose port another process has says so, in one line."""

import pytest
from support.processes import Processes, taken_port

from ps_dqn.cluster import server
from ps_dqn.cluster.ports import on_this_machine
from ps_dqn.cluster.spec import ClusterSpec, Task


def test_a_port_that_is_free_is_taken_from_nobody() -> None:
    server.check_port(on_this_machine(1, 1).chief)


def test_one_of_another_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PORT_SECONDS", 0.1)
    with (
        taken_port() as port,
        pytest.raises(server.PortError, match=f"port {port} of localhost:{port} cannot be used"),
    ):
        server.check_port(f"localhost:{port}")


@pytest.mark.parametrize("job", ["chief", "ps", "worker"])
def test_every_role_refuses_it_before_anything_else(processes: Processes, tmp_path, job) -> None:
    modules = {"chief": "coordinator", "ps": "parameter_server", "worker": "worker"}
    free = on_this_machine(1, 1)
    with taken_port() as port:
        taken = f"localhost:{port}"
        addresses = {"chief": free.chief, "ps": free.ps[0], "worker": free.workers[0], job: taken}
        spec = ClusterSpec(addresses["chief"], (addresses["ps"],), (addresses["worker"],))
        arguments = [f"--run_dir={tmp_path / 'run'}"] if job == "chief" else []
        running = processes.start(
            *("-m", f"ps_dqn.{modules[job]}", *arguments), TF_CONFIG=spec.tf_config(Task(job, 0))
        )
        assert running.ended() == 2, running.text
    assert len(running.lines) == 1
    assert f"port {port} of {taken} cannot be used here" in running.text
    assert not (tmp_path / "run").exists()
