"""What the documents say of Kubernetes, done with a program in kubectl's place: no cluster is here.

What needs no cluster is done: overlays are written and rendered, keys and certificates are made.
"""

import pathlib
import re
import shutil
import subprocess

import pytest
from support import documented
from support.documented import ELLIPSIS, Shown
from support.fake_programs import FakeKubectl
from support.launched_run import cluster_of
from support.manifests import Object, kustomize, of_kind, pods, pods_of

from ps_dqn import launch

SHOWN = [each for each in documented.all_shown() if each.is_block and ELLIPSIS not in each.text]
LAUNCHES = [each for each in SHOWN if each.program and each.program[0] == "launch"]


def words_of(shown: Shown) -> list[str]:
    assert shown.program
    words = [each.replace("REPOSITORY", "registry.example.com") for each in shown.program[1]]
    return ["launch", *words]


@pytest.fixture
def objects(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> list[Object]:
    """Those of the run that is called pong, and a pod for each of its roles."""
    monkeypatch.chdir(tmp_path)
    first = next(each for each in LAUNCHES if "--name=pong" in each.text)
    assert launch.main([each for each in words_of(first) if each != "--dry_run"]) == 0
    found = [*kustomize(tmp_path / "launch" / "pong")]
    return found + [
        {
            "kind": "Pod",
            "metadata": {
                **each.template["metadata"],
                **{"name": f"pong-{each.role}-0", "creationTimestamp": "2026-01-01T00:00:00Z"},
            },
            "status": {"phase": "Running"},
        }
        for each in pods(found)
    ]


@pytest.fixture
def kubectl(
    objects: list[Object], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> FakeKubectl:
    return cluster_of(objects, tmp_path, monkeypatch)


@pytest.mark.parametrize("shown", LAUNCHES, ids=lambda shown: f"{shown.document}: {shown.text}")
def test_a_command_is_taken_and_asks_kubectl(shown: Shown, kubectl: FakeKubectl) -> None:
    words = words_of(shown)
    assert launch.main(words) == 0
    name = next(each.partition("=")[2] for each in words if each.startswith("--name="))
    rendering = ("--apply", "--dry_run", "--set=", "--patch=")
    asked = words[1] != "k8s" or any(each.startswith(rendering) for each in words)
    assert bool(kubectl.calls()) == asked
    assert pathlib.Path("launch", name, "kustomization.yaml").exists()


def test_what_is_forwarded_is_there(objects: list[Object]) -> None:
    forwards = [each.words for each in SHOWN if "port-forward" in each.text]
    assert len(forwards) == 2
    there = {f"{each['kind'].lower()}/{each['metadata']['name']}" for each in objects}
    for _, where, _, target, port in forwards:
        assert where == "--namespace=ps-dqn"
        assert target in there
        [role] = [each for each in pods(objects) if f"/pong-{each.role}" in target]
        [container] = role.template["spec"]["containers"]
        assert int(port) in [each["containerPort"] for each in container["ports"]]


def test_the_patch_and_the_overlays_by_hand_fit(tmp_path: pathlib.Path) -> None:
    text = (documented.ROOT / "docs/kubernetes.md").read_text()
    patch, *overlays = re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S)
    (tmp_path / "spot.yaml").write_text(patch)
    output = tmp_path / "patched"
    usual = ["--workers=2", "--ps=1", "--image=a:1", "--preset=cartpole", f"--output={output}"]
    assert (
        launch.main(["launch", "k8s", "--name=a", f"--patch={tmp_path / 'spot.yaml'}", *usual]) == 0
    )
    [workers] = [each.template for each in pods(kustomize(output)) if each.role == "worker"]
    assert workers["spec"]["priorityClassName"] == "cheap"
    folder = tmp_path / "k8s" / "overlays" / "mine"
    shutil.copytree(documented.ROOT / "k8s", tmp_path / "k8s")
    folder.mkdir()
    (folder / "experiment.flags").write_text("--preset=atari_fast\n")
    counts, freed = [], []
    for overlay in overlays:
        (folder / "kustomization.yaml").write_text(overlay)
        sets = of_kind(kustomize(folder), "StatefulSet")
        counts.append({each["metadata"]["name"]: each["spec"]["replicas"] for each in sets})
        freed.append(pods_of(kustomize(folder), "coordinator").flags["free_stateful_sets"])
    usual_sets = {"worker": 20, "parameter-server": 2}
    of_ape_x = {"worker": 1, "actor": 20, "replay-server": 2, "parameter-server": 1}
    assert counts == [usual_sets, of_ape_x]
    for of, names in zip(counts, freed, strict=True):
        assert names.count("$(") == len(of), "each of them is freed"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_certificates_are_made_and_are_what_the_secret_takes(tmp_path: pathlib.Path) -> None:
    for shown in SHOWN:
        if shown.words[0] == "openssl":
            subprocess.run(shown.words, cwd=tmp_path, check=True, capture_output=True)
    [secret] = [each.words for each in SHOWN if "secret" in each.words]
    files = [each.partition("=")[2] for each in secret if each.startswith("--from-file=")]
    assert len(files) == 3
    assert all((tmp_path / each).exists() for each in files)
    verify = ["openssl", "verify", "-CAfile", "ca.crt", "tls.crt"]
    subprocess.run(verify, cwd=tmp_path, check=True, capture_output=True)
