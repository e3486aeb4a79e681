"""`launch resize`: the number of workers of a run that is there, where it can be changed."""

import pathlib
from collections.abc import Callable

import pytest
from support.fake_programs import FakeKubectl
from support.manifests import Object, kustomize, one, pods

from ps_dqn import launch
from ps_dqn.kubernetes import running

WHERE = "--namespace=ps-dqn"
Make = Callable[..., FakeKubectl]


@pytest.fixture
def cluster(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A cluster with a run of four workers that goes on, and the folder of its overlay here."""
    monkeypatch.chdir(tmp_path)

    def make(*words: str, changed: Callable[[list[Object]], None] | None = None) -> FakeKubectl:
        usual = ["--name=mine", "--workers=4", "--ps=1", "--image=a:1", "--env_id=CartPole-v1"]
        assert launch.main(["launch", "k8s", *usual, *words]) == 0
        objects = [*kustomize(tmp_path / "launch" / "mine")]
        [template] = [each.template for each in pods(objects) if each.role == "coordinator"]
        stamp = {"name": "mine-coordinator-x", "creationTimestamp": "2026-01-01T00:00:00Z"}
        metadata = {**template["metadata"], **stamp}
        objects.append({"kind": "Pod", "metadata": metadata, "status": {"phase": "Running"}})
        if changed:
            changed(objects)
        fake = FakeKubectl(tmp_path / "bin")
        monkeypatch.setenv("PATH", str(fake.folder))
        fake.has(running.KINDS, objects)
        return fake

    return make


def resize(*words: str) -> int:
    return launch.main(["launch", "resize", "--name=mine", *words])


def test_the_counts_change_then_the_workers_then_the_coordinator_starts_again(
    cluster: Make, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = cluster("--aggregation=sync", "--backup_workers=2")
    assert resize("--workers=12") == 0
    assert fake.calls()[1:] == [
        'patch configmap/mine-cluster --type=merge --patch={"data": {"NUM_WORKERS": "12"}} '
        + WHERE,
        f"scale statefulset/mine-worker --replicas=12 {WHERE}",
        f"delete pod {WHERE} --selector=app.kubernetes.io/instance=mine,"
        "app.kubernetes.io/component=coordinator",
    ]
    said = capsys.readouterr().out
    assert "the coordinator saves and ends; its Job starts it again" in said
    assert "launch/mine: says 12 workers now" in said
    overlay = (tmp_path / "launch" / "mine" / "kustomization.yaml").read_text()
    assert "{name: worker, count: 12}" in overlay
    assert "{name: parameter-server, count: 1}" in overlay


def test_elsewhere_people_are_told_what_to_say_when_they_launch_again(
    cluster: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster()
    assert resize("--workers=2", "--output=nowhere") == 0
    assert "where mine is launched again, say --workers=2\n" in capsys.readouterr().out


def is_over(objects: list[Object]) -> None:
    condition = {"type": "Complete", "status": "True"}
    one(objects, "Job", "coordinator")["status"] = {"conditions": [condition]}


def has_no_workers(objects: list[Object]) -> None:
    objects.remove(one(objects, "StatefulSet", "worker"))


@pytest.mark.parametrize(
    ("launched", "changed", "workers", "says"),
    [
        (["--overlay=jobset"], None, 5, "mine is a JobSet, which cannot be changed: stop it and"),
        (["--overlay=tfjob"], None, 5, "mine is a TFJob"),
        (["--tls_image=t:1"], None, 5, "mine speaks TLS through sidecars"),
        ([], is_over, 5, "mine is over (Complete), so no worker is needed"),
        ([], has_no_workers, 5, "mine has no coordinator or no workers to change"),
        ([], None, 4, "mine has as many already"),
        (
            ["--aggregation=sync", "--backup_workers=3"],
            None,
            3,
            "error: --workers=3: --backup_workers=3: must be less than --workers=3",
        ),
        (["--min_workers=4"], None, 2, "--min_workers=4: the run is for 2"),
    ],
)
def test_what_the_run_cannot_take_is_refused(
    launched: list[str],
    changed: Callable[[list[Object]], None] | None,
    workers: int,
    says: str,
    cluster: Make,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake = cluster(*launched, changed=changed)
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        resize(f"--workers={workers}")
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert says in err
    assert len(err.splitlines()) == 1
    assert len(fake.calls()) == 1  # it was asked, and told nothing
    assert "{name: worker, count: 4}" in pathlib.Path("launch/mine/kustomization.yaml").read_text()


@pytest.mark.parametrize("words", [[], ["--workers=0"], ["--workers=two"]])
def test_a_number_is_needed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        resize(*words)
    assert "--workers" in capsys.readouterr().err
