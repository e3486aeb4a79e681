"""What is asked of a run that is there: how kubectl is called, and what people see.

The objects are those that a launch makes, and a cluster's part of them is played here.
"""

import pathlib
from collections.abc import Callable

import pytest
from support.fake_programs import FakeKubectl
from support.launched_run import MINE, WHERE, all_pods, ask, cluster_of, made
from support.manifests import Object, of_kind

from ps_dqn import launch
from ps_dqn.flags import launched, launching
from ps_dqn.kubernetes import control

Make = Callable[[list[Object]], FakeKubectl]


@pytest.fixture
def kubectl(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Puts a program in kubectl's place, for a cluster with these objects."""
    return lambda objects: cluster_of(objects, tmp_path, monkeypatch)


def refusal(capsys: pytest.CaptureFixture[str], command: str, *words: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        ask(command, *words)
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    return err


# logs


def test_logs_follow_a_pod_or_all_of_a_role(
    kubectl: Make, capfd: pytest.CaptureFixture[str]
) -> None:
    objects = made()
    fake = kubectl(objects + all_pods(objects))
    fake.answer("logs", says="a line\n")
    assert ask("logs") == 0
    assert ask("logs", "--role=worker", "--nofollow", "--tail=7") == 0
    assert capfd.readouterr().out.endswith("a line\na line\n")
    assert [call for call in fake.calls() if "logs" in call] == [
        f"logs pod/mine-coordinator-0 --tail=100 --follow {WHERE}",
        f"logs --tail=7 --prefix --max-log-requests=3 {MINE},app.kubernetes.io/component=worker"
        f" {WHERE}",
    ]


def test_logs_of_nobody_are_refused(kubectl: Make, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl(made())
    said = refusal(capsys, "logs", "--role=evaluator")
    assert "--role=evaluator: mine has no pod of it now" in said
    assert f"python -m ps_dqn.launch status --name=mine {WHERE}" in said


# stop


@pytest.mark.parametrize("overlay", launching.OVERLAYS)
def test_stop_deletes_all_that_a_launch_makes_but_the_results(overlay: str, kubectl: Make) -> None:
    objects = made(f"--overlay={overlay}")
    fake = kubectl(objects)
    assert ask("stop") == 0
    deleted = [call.split()[1].split(",") for call in fake.calls() if call.startswith("delete")]
    kinds = {each["kind"].lower() for each in objects}
    assert kinds <= {kind for kinds in deleted for kind in kinds} | set(control.DATA)
    assert "persistentvolumeclaim" not in str(deleted)
    # What has pods goes first, and all of it before anything else.
    assert deleted[0][-3:] == list(control.WORKLOADS)
    assert {"jobset", "tfjob"} & set(deleted[0]) == {overlay} & {"jobset", "tfjob"}


def test_stop_waits_for_the_pods_and_deletes_data_where_that_is_asked_for(
    kubectl: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = kubectl(made("--overlay=jobset"))
    assert ask("stop", "--delete_data") == 0
    _, workloads, _, data = fake.calls()
    assert workloads == (
        f"delete jobset,job,statefulset,deployment --cascade=foreground {WHERE} "
        f"--ignore-not-found {MINE}"
    )
    assert data == f"delete persistentvolumeclaim {WHERE} --ignore-not-found {MINE}"
    assert "mine is deleted, and its results" in capsys.readouterr().out


def test_results_of_a_run_that_was_stopped_can_be_deleted(kubectl: Make) -> None:
    fake = kubectl(of_kind(made(), "PersistentVolumeClaim"))
    assert ask("stop", "--delete_data") == 0
    assert fake.calls()[-1].startswith("delete persistentvolumeclaim ")


def test_a_failure_of_kubectl_ends_it(kubectl: Make, capsys: pytest.CaptureFixture[str]) -> None:
    fake = kubectl(made())
    fake.answer("delete", complains="Error from server (Forbidden): you may not\n", code=1)
    capsys.readouterr()
    assert ask("stop", "--delete_data") == 1
    assert capsys.readouterr().err == "error: kubectl: Error from server (Forbidden): you may not\n"
    assert len(fake.calls()) == 2


# Runs that are not there.


@pytest.mark.parametrize("command", launched.COMMANDS)
def test_a_run_that_is_not_there_is_refused_and_the_others_named(
    command: str, kubectl: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = kubectl([])
    words = ["--workers=2"] if command == "resize" else []
    said = refusal(capsys, command, *words)
    assert said == "error: --name=mine: no such run in namespace ours; there is none at all\n"
    others = [
        {"metadata": {"labels": {"app.kubernetes.io/instance": each}}} for each in ("b", "a", "b")
    ]
    fake.has("configmaps", others)
    assert "; there are: a, b\n" in refusal(capsys, command, *words)
    assert not any(call.startswith(("delete", "scale", "patch")) for call in fake.calls())


@pytest.mark.parametrize("command", launched.COMMANDS)
def test_without_kubectl_it_is_said(
    command: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    words = ["--workers=2"] if command == "resize" else []
    assert "kubectl is not installed: install kubectl 1.27" in refusal(capsys, command, *words)


@pytest.mark.parametrize("command", launched.COMMANDS)
def test_help_has_every_flag(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert launch.main(["launch", command, "--help"]) == 0
    said = capsys.readouterr().out
    for name in set(launched.define(command)) - {"help", "helpshort", "helpfull", "helpxml"}:
        assert f"  --{name} " in said or f"  --[no]{name} " in said
    assert "flagfile" not in said
