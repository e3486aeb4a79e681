"""The script that tries a run on kind: its steps, with programs in the place of Docker and kind.

What the real ones do with them is what the script is for, and is not seen here.
"""

import os
import pathlib
import subprocess
import sys

import pytest
from support.fake_programs import FakePrograms
from support.programs import ROOT, RUN_SECONDS

from ps_dqn.kubernetes import running

SCRIPT = ROOT / "k8s" / "e2e" / "run-on-kind"
HERE = "--context=kind-ps-dqn-e2e --namespace=ps-dqn"
CONDITIONS = "--output=jsonpath={.status.conditions[*].type}"
UID = "--output=jsonpath={.metadata.uid}"
# What must happen, in this order; other calls are between.
STEPS = [
    "kind get clusters",
    "docker build --tag ps-dqn:e2e .",
    "kind create cluster --name=ps-dqn-e2e",
    "kind load docker-image ps-dqn:e2e --name=ps-dqn-e2e",
    "kubectl --context=kind-ps-dqn-e2e create namespace ps-dqn",
    "pod-security.kubernetes.io/enforce=restricted",
    "kubectl --context=kind-ps-dqn-e2e apply --kustomize",
    f"kubectl {HERE} rollout status statefulset/e2e-worker",
    f"kubectl {HERE} wait job/e2e-coordinator --for=jsonpath={{.status.ready}}=1",
    f"kubectl {HERE} delete pod/e2e-worker-1 --grace-period=0 --force",
    f"kubectl {HERE} wait pod/e2e-worker-1 --for=condition=Ready",
    f"kubectl {HERE} get job/e2e-coordinator {CONDITIONS}",
    f"kubectl {HERE} exec deployment/e2e-tensorboard -- python -c",
    f"kubectl {HERE} wait statefulset/e2e-worker --for=jsonpath={{.spec.replicas}}=0",
    f"kubectl {HERE} wait statefulset/e2e-parameter-server --for=jsonpath={{.spec.replicas}}=0",
    "kubectl --context=kind-ps-dqn-e2e delete job,statefulset,deployment",
    "kubectl --context=kind-ps-dqn-e2e delete persistentvolumeclaim",
    "kind delete cluster --name=ps-dqn-e2e",
]


@pytest.fixture
def tools(tmp_path: pathlib.Path) -> FakePrograms:
    """Programs as of a cluster in which all goes well."""
    fakes = FakePrograms(tmp_path / "bin", "docker", "kind", "kubectl")
    labels = {"app.kubernetes.io/instance": "e2e", "app.kubernetes.io/component": "coordinator"}
    pod = {"name": "e2e-coordinator-x", "labels": labels, "creationTimestamp": "2026-01-01"}
    counts = {"data": {"NUM_WORKERS": "2", "NUM_PS": "1"}, "metadata": {"name": "e2e-cluster"}}
    objects = [{"kind": "ConfigMap", **counts}, {"kind": "Pod", "metadata": pod}]
    fakes.has(running.KINDS, objects)
    fakes.has("configmap,persistentvolumeclaim", [objects[0]])
    # The first question is about the worker that is killed, the others are about its successor.
    fakes.answer("kubectl", "get", "pod/e2e-worker-1", UID, says="new")
    fakes.answer("kubectl", "get", "job/e2e-coordinator", CONDITIONS, says="Complete")
    fakes.answer("kubectl", "exec", "deployment/e2e-tensorboard", says="finished 600002")
    return fakes


def run(tools: FakePrograms, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the script with these programs before all others."""
    path = os.pathsep.join([str(tools.folder), os.environ["PATH"]])
    given = {"PATH": path, "PYTHONPATH": str(ROOT), "PYTHON": sys.executable, "PAUSE": "0"}
    return subprocess.run(
        [str(SCRIPT)],
        env={**given, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS,
    )


def kill_a_worker(tools: FakePrograms) -> None:
    """Has the question about the worker's uid answered once with another one."""
    folder = tools.folder
    (folder / "kubectl").rename(folder / "kubectl-later")
    script = f"""#!/bin/sh
case "$*" in *"get pod/e2e-worker-1"*)
    [ -e '{folder}/killed' ] || {{ touch '{folder}/killed'; echo old; exit; }} ;;
esac
exec '{folder}/kubectl-later' "$@"
"""
    (folder / "kubectl").write_text(script)
    (folder / "kubectl").chmod(0o755)


def test_it_goes_through_all_steps_and_leaves_nothing(tools: FakePrograms) -> None:
    kill_a_worker(tools)
    ended = run(tools)
    assert ended.returncode == 0, ended.stderr
    assert "all is well: 600002 environment steps, through the loss of a worker" in ended.stdout
    calls = iter(tools.calls())
    for step in STEPS:
        assert any(step in call for call in calls), f"{step}: not after the steps before it"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"words": ["kubectl", "apply"], "code": 1, "complains": "no\n"}, "error: kubectl: no"),
        ({"words": ["kubectl", CONDITIONS], "says": "FailureTarget Failed"}, "Job failed"),
        pytest.param(
            {"words": ["kubectl", "exec"], "says": "stopped 5"},
            "ended otherwise: stopped 5",
            marks=pytest.mark.thorough,
        ),
        ({"words": ["kubectl", "exec"], "says": "finished 5"}, "made 5 of 600000"),
        pytest.param(
            {"words": ["kubectl", "statefulset/e2e-worker", "wait"], "code": 1},
            "the nodes of worker were not freed",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            {"words": ["kubectl", "--output=name"], "says": "pod/e2e-x"},
            "is left: pod/e2e-x",
            marks=pytest.mark.thorough,
        ),
        ({"words": ["kind", "load"], "code": 1, "complains": "not present"}, "not present"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value.replace(" ", "-"),
)
def test_a_step_that_fails_fails_it_and_takes_the_cluster_away(
    answer: dict, says: str, tools: FakePrograms
) -> None:
    kill_a_worker(tools)
    tools.answer(*answer.pop("words"), **answer)
    ended = run(tools, IMAGE="mine:1")
    assert ended.returncode == 1
    assert says in ended.stderr
    calls = tools.calls()
    assert calls[-1] == "kind delete cluster --name=ps-dqn-e2e"
    assert any(" get events " in call for call in calls)
    assert not any(call.startswith("docker") for call in calls)
    assert "all is well" not in ended.stdout


def test_a_cluster_of_that_name_is_left_alone(tools: FakePrograms) -> None:
    tools.answer("kind", "get", "clusters", says="other\nps-dqn-e2e\n")
    ended = run(tools)
    assert ended.returncode == 2
    assert "kind has a cluster ps-dqn-e2e already" in ended.stderr
    assert tools.calls() == ["kind get clusters"]


def test_a_cluster_is_kept_where_that_is_asked_for(tools: FakePrograms) -> None:
    kill_a_worker(tools)
    ended = run(tools, KEEP="1", CLUSTER="lab")
    assert ended.returncode == 0, ended.stderr
    assert "kind delete cluster --name=lab" in ended.stdout  # says how, and does not
    assert not any(call.startswith("kind delete") for call in tools.calls())
    assert "kind create cluster --name=lab --wait=180s" in tools.calls()


def test_without_its_tools_it_says_so(tools: FakePrograms) -> None:
    ended = run(tools, PYTHON="no-such-python")
    assert (ended.returncode, ended.stderr) == (2, "error: no-such-python is not installed\n")
    assert tools.calls() == []
