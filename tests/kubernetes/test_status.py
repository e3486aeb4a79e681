"""`launch status`: a table of the roles of a run, and what is in their way."""

import pathlib
from collections.abc import Callable

import pytest
from support.fake_programs import FakeKubectl
from support.launched_run import MINE, WHERE, all_pods, ask, cluster_of, made, pod
from support.manifests import Object, one

from ps_dqn.kubernetes import running

Make = Callable[[list[Object]], FakeKubectl]


@pytest.fixture
def kubectl(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Puts a program in kubectl's place, for a cluster with these objects."""
    return lambda objects: cluster_of(objects, tmp_path, monkeypatch)


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Lines, with one blank between words."""
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_status_is_a_table_of_roles(kubectl: Make, capsys: pytest.CaptureFixture[str]) -> None:
    objects = made()
    there = [each for each in all_pods(objects) if each["metadata"]["name"] != "mine-worker-1"]
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    waits["message"] = "0/3 nodes are available: 3 Insufficient cpu."
    there.append(pod(objects, "worker", 1, "Pending", conditions=[waits], containerStatuses=[]))
    # An older pod of the coordinator's Job, which has failed.
    one(objects, "Job", "coordinator")["status"] = {"failed": 1, "active": 1}
    there.append(pod(objects, "coordinator", 7))
    fake = kubectl(objects + there)
    fake.answer("logs", says="512,000 env steps, return 212\n")
    capsys.readouterr()
    assert ask("status", "--context=kind-lab") == 0
    assert shown(capsys) == [
        "mine in namespace ours",
        "role ready restarts state",
        "coordinator 1/1 8 Running",
        "parameter-server 2/2 1 2 Running",
        "worker 2/3 2 2 Running, 1 Unschedulable",
        "evaluator 1/1 0 Running",
        "tensorboard 1/1 0 Running",
        "worker: 0/3 nodes are available: 3 Insufficient cpu.",
        "the coordinator's last line: 512,000 env steps, return 212",
    ]
    assert fake.calls() == [
        f"--context=kind-lab get {running.KINDS} --output=json {WHERE} {MINE}",
        f"--context=kind-lab logs pod/mine-coordinator-7 --tail=1 {WHERE}",
    ]


def test_status_says_why_nothing_starts(kubectl: Make, capsys: pytest.CaptureFixture[str]) -> None:
    objects = made()
    pulls = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "a:1"'}
    held = [{"restartCount": 0, "state": {"waiting": pulls}}]
    first = pod(objects, "coordinator", 0, "Pending", containerStatuses=held)
    leaves = pod(objects, "parameter-server", 0)
    leaves["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    fake = kubectl([*objects, first, leaves])
    capsys.readouterr()
    assert ask("status") == 0
    lines = shown(capsys)
    assert "coordinator 0/1 0 ImagePullBackOff" in lines
    assert "parameter-server 0/2 0 Terminating" in lines
    assert "worker 0/3 0 no pod yet" in lines
    assert 'coordinator: Back-off pulling image "a:1"' in lines
    assert lines[-1] == "the coordinator's last line: none yet"
    assert len(fake.calls()) == 1


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_status_of_a_run_that_is_over(
    kind: str,
    kubectl: Make,
    capsys: pytest.CaptureFixture[str],
) -> None:
    objects = made()
    condition = {"type": kind, "status": "True", "message": "exit code 2 matching FailJob rule"}
    one(objects, "Job", "coordinator")["status"] = {"conditions": [condition]}
    one(objects, "StatefulSet", "worker")["spec"]["replicas"] = 0
    fake = kubectl([*objects, pod(objects, "coordinator", 0, "Succeeded")])
    fake.answer("logs", complains="Error: gone", code=1)
    capsys.readouterr()
    assert ask("status") == 0
    lines = shown(capsys)
    assert f"coordinator 0/0 0 {kind}" in lines
    assert "worker 0/0 0 scaled to zero" in lines
    assert ("coordinator: exit code 2 matching FailJob rule" in lines) == (kind == "Failed")
    assert lines[-1] == "the coordinator's last line: cannot be read (kubectl: Error: gone)"


def test_status_counts_the_pods_of_a_jobset(
    kubectl: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = made("--overlay=jobset")
    kubectl([each for each in objects if each["kind"] != "JobSet"] + all_pods(objects)[:4])
    capsys.readouterr()
    assert ask("status") == 0
    counts = [line.split()[:2] for line in shown(capsys)[2:5]]
    present = [each["metadata"]["name"] for each in all_pods(objects)[:4]]
    for role, count in counts:
        ready = sum(f"-{role}-" in each for each in present)
        wanted = {"coordinator": 1, "parameter-server": 2, "worker": 3, "evaluator": 1}[role]
        assert count == f"{ready}/{wanted}"
