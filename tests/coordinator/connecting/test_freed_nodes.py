"""When the coordinator is done for good, its StatefulSets are scaled to zero; and only then."""

import pathlib
from types import SimpleNamespace
from typing import Any

import pytest
from support.command_lines import only_error, parsed
from support.programs import run_python

from ps_dqn.cluster import stateful_sets
from ps_dqn.cluster.spec import ClusterSpecError
from ps_dqn.coordinator import process
from ps_dqn.environments import interface
from ps_dqn.flags import tasks
from ps_dqn.run import directory, signals

REMOTE = ("--chief_host=localhost:1", "--ps_hosts=localhost:2", "--worker_hosts=localhost:3")


@pytest.mark.parametrize(
    ("code", "is_over"),
    [
        (0, True),
        (signals.WRONG_USAGE, True),  # its Job fails at once
        (signals.FAILED, False),  # its Job starts it again
        (signals.START_AGAIN, False),
        (signals.INTERRUPTED, False),
    ],
)
def test_sets_are_freed_where_nobody_starts_it_again(
    code: int, is_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed: list[Any] = []
    placement = SimpleNamespace(free_stateful_sets=("worker", "ps"))
    prepared: Any = SimpleNamespace(command=SimpleNamespace(placement=placement))
    ran: Any = SimpleNamespace(reported=lambda action: action(), run=lambda: code, say=print)
    monkeypatch.setattr(process, "_CoordinatorProcess", lambda _: ran)
    monkeypatch.setattr(stateful_sets, "scale_to_zero", lambda *given: freed.append(given))
    assert process.run(prepared) == code
    assert freed == ([(("worker", "ps"), print)] if is_over else [])


def test_an_experiment_that_cannot_be_run_keeps_no_nodes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")  # as in a pod
    words = ["--env_id=Nowhere-v0", "--free_stateful_sets=worker,ps", *REMOTE]
    ended = run_python(["-m", "ps_dqn.coordinator", *words], tmp_path)
    assert ended.returncode == signals.WRONG_USAGE
    assert "Nowhere-v0" in ended.stderr
    # On a machine under load the environment may take its time, of which people hear.
    lines = [line for line in ended.stdout.splitlines() if "takes longer than" not in line]
    assert [line.partition(":")[0] for line in lines] == [
        "worker keeps its pods",
        "ps keeps its pods",
    ]
    assert "this pod has no service account's token" in ended.stdout


@pytest.mark.parametrize("has_begun", [True, False])
def test_servers_stay_for_a_run_whose_folder_cannot_be_used_now(
    has_begun: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have what no checkpoint has; of a run that never began they have nothing."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")  # as in a pod
    folder = tmp_path / "run"
    folder.mkdir()
    if has_begun:
        directory.new_identity(folder)
    else:
        (folder / "checkpoints").mkdir()
    (folder / "logs").write_text("in the way of a folder")
    words = ["--free_stateful_sets=worker", *REMOTE, f"--run_dir={folder}"]
    ended = run_python(["-m", "ps_dqn.coordinator", *words], tmp_path)
    assert f"--run_dir={folder}: cannot be written (File exists)" in ended.stderr
    assert "Traceback" not in ended.stderr
    code = signals.START_AGAIN if has_begun else signals.WRONG_USAGE
    assert ended.returncode == code
    assert ("worker keeps its pods" in ended.stdout) != has_begun


@pytest.mark.parametrize("is_remote", [True, False], ids=["of others", "of this pod"])
@pytest.mark.parametrize("file", [directory.FLAGFILE, interface.FILE])
def test_a_file_that_cannot_be_read_now_ends_no_run_whose_tasks_others_have(
    file: str, is_remote: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook may be a pod too: its own run is over then, and nobody starts it again."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")  # as in a pod
    folder = tmp_path / "run"
    (folder / directory.CHECKPOINTS).mkdir(parents=True)
    (folder / directory.CHECKPOINTS / "updates-000000000064.npz").touch()
    if file != directory.FLAGFILE:
        (folder / directory.FLAGFILE).write_text("--env_id=CartPole-v1\n")
    (folder / file).mkdir()
    words = ["--free_stateful_sets=worker", *REMOTE] if is_remote else []
    ended = run_python(["-m", "ps_dqn.coordinator", *words, f"--run_dir={folder}"], tmp_path)
    assert only_error(ended.stderr) == f"{folder / file}: cannot be read (Is a directory)"
    assert ended.returncode == (signals.START_AGAIN if is_remote else signals.WRONG_USAGE)
    assert "keeps its pods" not in ended.stdout


def test_sets_go_with_tasks_that_others_start() -> None:
    with pytest.raises(ClusterSpecError, match="has no effect with --cluster=local"):
        tasks.read_placement(parsed("--free_stateful_sets=worker"))
    placement = tasks.read_placement(parsed("--free_stateful_sets=a,b", *REMOTE))
    assert placement.free_stateful_sets == ("a", "b")
