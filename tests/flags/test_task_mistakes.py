"""Mistakes in the place of a worker or parameter server: exit code 2 and one line."""

import pathlib
import subprocess
import sys

import pytest
from support.command_lines import only_error, tf_config
from support.programs import RUN_SECONDS

from ps_dqn.cluster import lifeline
from ps_dqn.cluster.ports import on_this_machine
from ps_dqn.flags import task_main, tasks


@pytest.mark.parametrize(
    ("job", "environment", "words", "says"),
    [
        ("worker", "", [], "no cluster is described: set TF_CONFIG"),
        ("ps", "", [], "no cluster is described: set TF_CONFIG"),
        ("worker", tf_config("ps"), [], "this task is ps 0, but this program is a worker task"),
        ("ps", tf_config("worker"), [], "this task is worker 0, but this program is a ps task"),
        ("worker", "{", [], "TF_CONFIG is not JSON"),
        ("worker", tf_config("worker", 1), [], "task index 1 is out of range"),
        ("worker", tf_config("worker"), ["--gamma=0.9"], "--gamma=0.9: there is no such flag"),
        ("worker", tf_config("worker"), ["0"], "'0' is not a flag"),
        ("worker", tf_config("worker"), ["--inter_op_threads=0"], "inter_op_threads"),
        ("ps", tf_config("ps"), ["--worker_dir=x"], "--worker_dir=x: there is no such flag"),
        (
            "worker",
            "",
            ["--chief_host=c:1", "--ps_hosts=p:1", "--worker_hosts=w:1", "--task_index=1"],
            "task index 1 is out of range: the cluster has 1 worker task, numbered from 0",
        ),
    ],
)
def test_bad_place_of_a_task(
    job: str,
    environment: str,
    words: list[str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def serve(*_: object) -> None:
        raise AssertionError("the place was not refused: the task was about to serve")

    monkeypatch.setenv("TF_CONFIG", environment)
    monkeypatch.setattr(sys, "argv", ["program", *words])

    with pytest.raises(SystemExit) as caught:
        task_main.run(sys.argv, job, serve)

    assert caught.value.code == 2
    assert says in only_error(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("module", "environment"),
    [
        ("ps_dqn.worker", {}),
        ("ps_dqn.worker", {"TF_CONFIG": tf_config("ps")}),
        ("ps_dqn.parameter_server", {"TF_CONFIG": tf_config("worker")}),
    ],
)
def test_task_process_that_is_refused(
    module: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    ended = subprocess.run(
        [sys.executable, "-m", module], capture_output=True, text=True, timeout=RUN_SECONDS
    )

    assert ended.returncode == 2
    assert ended.stdout == ""
    only_error(ended.stderr)


def test_a_tilde_is_the_home_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No shell expands it behind an equals sign."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(lifeline, "hold_if_given", lambda: None)
    served: list[object] = []

    def serve(spec: object, task: object, options: object, *others: object) -> None:
        served.extend(others)

    port = on_this_machine(1, 1).workers[0].rpartition(":")[2]
    hosts = ("--chief_host=localhost:1", "--ps_hosts=localhost:2", "--task_index=0")
    words = ["worker", *hosts, f"--worker_hosts=localhost:{port}", "--worker_dir=~/kept"]
    assert task_main.run(words, "worker", serve, tasks.define_worker_dir) == 0
    assert served == [str(tmp_path / "kept")]
