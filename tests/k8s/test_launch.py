"""`python -m ps_dqn.launch k8s`: the overlay it writes, rendered by the Kustomize of kubectl."""

import functools
import json
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import kubernetes_validate
import pytest
import yaml
from support import manifests
from support.manifests import Object, of_kind, pods, pods_of

from ps_dqn import launch
from ps_dqn.flags import launching

COUNTS = ("--workers=3", "--ps=2", "--image=ps-dqn:1")
INSTANCE = "app.kubernetes.io/instance"
CUSTOM_KINDS = ("JobSet", "TFJob")
IMAGE, WORKER_IMAGE = "registry.example.com:5000/team/ps-dqn:1.0", "ps-dqn:cuda"
EXPERIMENT = "# Überall gleich\n--env_id=CartPole-v1\n\n--gamma=0.9  \n--replay_memory=50%"

overlays = pytest.mark.parametrize("overlay", launching.OVERLAYS)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The folder that commands are called in, with an experiment in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.flags").write_text(EXPERIMENT)
    return tmp_path


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Object, ...]]:
    """The objects of a run that has been written; each is rendered once."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "my.flags").write_text(EXPERIMENT)

    @functools.cache
    def render(overlay: str, name: str = "mine", *words: str) -> tuple[Object, ...]:
        output = folder / "-".join([overlay, name, *words]).replace("/", "_")
        flags = (f"--flagfile={folder}/my.flags", f"--output={output}", "--namespace=ours")
        words = words or (f"--image={IMAGE}", f"--worker_image={WORKER_IMAGE}")
        words = ("k8s", f"--name={name}", f"--overlay={overlay}", *COUNTS, *flags, *words)
        assert launch.main(["launch", *words]) == 0
        return manifests.kustomize(output)

    return render


# What a run is made of.


@overlays
def test_a_run_is_valid_for_kubernetes(overlay: str, rendered: Callable) -> None:
    objects = rendered(overlay)
    of_pods = [p.template for p in pods(objects) if p.owner["kind"] in CUSTOM_KINDS]
    checked = [each for each in objects if each["kind"] not in CUSTOM_KINDS]
    checked += [{"apiVersion": "v1", "kind": "Pod", **template} for template in of_pods]
    assert len(checked) > 10
    for each in checked:
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)


@overlays
def test_everything_is_called_after_the_run_and_nothing_is_outside_of_it(
    overlay: str, rendered: Callable
) -> None:
    objects = rendered(overlay)
    for each in objects:
        assert each["metadata"]["name"].startswith("mine-")
        assert each["metadata"]["namespace"] == "ours"
        assert each["metadata"]["labels"][INSTANCE] == "mine"
    # To delete a run must not delete the namespace, which may have others.
    assert not of_kind(objects, "Namespace")


@overlays
def test_counts_and_names_reach_the_pods_and_their_addresses(
    overlay: str, rendered: Callable
) -> None:
    objects = rendered(overlay)
    assert pods_of(objects, "worker").count == 3
    assert pods_of(objects, "parameter-server").count == 2
    values = manifests.cluster_values(objects)
    assert values.pop("JOBSET", "mine-ps-dqn") == "mine-ps-dqn"
    assert values == {
        "RUN": "mine",
        "NUM_PS": "2",
        "NUM_WORKERS": "3",
        "COORDINATOR": "mine-coordinator",
        "PARAMETER_SERVER": "mine-parameter-server",
        "WORKER": "mine-worker",
    }


def test_pods_are_called_what_the_addresses_say(rendered: Callable) -> None:
    dns = [name for each in pods(rendered("base")) for name in each.dns]
    assert sorted(dns) == [
        "mine-coordinator.mine-coordinator",
        *(f"mine-parameter-server-{i}.mine-parameter-server" for i in range(2)),
        *(f"mine-worker-{i}.mine-worker" for i in range(3)),
    ]


@overlays
def test_the_experiment_arrives_unchanged(overlay: str, rendered: Callable) -> None:
    objects = rendered(overlay)
    [volume] = [v for v in pods_of(objects, "coordinator").spec["volumes"] if "configMap" in v]
    [found] = [
        each
        for each in of_kind(objects, "ConfigMap")
        if each["metadata"]["name"] == volume["configMap"]["name"]
    ]
    assert found["data"] == {"experiment.flags": EXPERIMENT}


@overlays
def test_images_are_the_ones_asked_for(overlay: str, rendered: Callable) -> None:
    for each in pods(rendered(overlay)):
        wanted = WORKER_IMAGE if each.role == "worker" else IMAGE
        assert each.container["image"] == wanted


@pytest.mark.parametrize("overlay", ["base", "local", "cpu-fleet", "gpu-worker"])
def test_with_an_image_for_tls_every_task_has_a_sidecar(overlay: str, rendered: Callable) -> None:
    tls = "registry.example.com/stunnel:5"
    images = (f"--image={IMAGE}", f"--worker_image={WORKER_IMAGE}", f"--tls_image={tls}")
    for each in pods(rendered(overlay, "mine", *images)):
        beside = [container["image"] for container in each.containers[1:]]
        is_task = each.role in ("coordinator", "parameter-server", "worker")
        assert beside == ([tls] if is_task else [])
        assert each.container["image"] == (WORKER_IMAGE if each.role == "worker" else IMAGE)


def test_an_image_may_be_named_by_its_digest(rendered: Callable) -> None:
    image = f"example.com/ps-dqn@sha256:{'0' * 64}"
    found = {p.container["image"] for p in pods(rendered("base", "mine", f"--image={image}"))}
    assert found == {image}


def _selectors(value: Any) -> Iterator[Object]:
    """Every selector of pods in the run's own namespace."""
    if isinstance(value, list):
        for each in value:
            yield from _selectors(each)
    if not isinstance(value, dict):
        return
    for key, each in value.items():
        if key in ("selector", "podSelector", "labelSelector") and "namespaceSelector" not in value:
            is_plain = not each.keys() & {"matchLabels", "matchExpressions"}
            yield {"matchLabels": each} if is_plain else each
        else:
            yield from _selectors(each)


@overlays
def test_every_selector_takes_this_runs_pods_and_no_others(
    overlay: str, rendered: Callable
) -> None:
    # So two runs in one namespace share no Service, StatefulSet, NetworkPolicy, budget or affinity.
    ours = [each.labels for each in pods(rendered(overlay))]
    theirs = [{**labels, INSTANCE: "yours"} for labels in ours]
    claims = of_kind(rendered(overlay), "PersistentVolumeClaim")
    selectors = list(_selectors([each for each in rendered(overlay) if each not in claims]))
    assert len(selectors) > 10
    for selector in selectors:
        assert any(manifests.matches(selector, labels) for labels in ours), selector
        assert not any(manifests.matches(selector, labels) for labels in theirs), selector


def test_two_runs_in_a_namespace_have_nothing_in_common(rendered: Callable) -> None:
    mine, yours = rendered("base", "mine"), rendered("base", "yours")

    def names(objects: tuple[Object, ...]) -> set[tuple[str, str]]:
        return {(each["kind"], each["metadata"]["name"]) for each in objects}

    assert len(names(mine)) == len(names(yours)) == len(mine)
    assert not names(mine) & names(yours)
    assert pods(yours)[0].labels[INSTANCE] == "yours"


@pytest.mark.parametrize(("overlay", "most"), [("base", 35), ("jobset", 29)])
def test_the_longest_name_is_as_long_as_kubernetes_can_take(
    overlay: str, most: int, rendered: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        rendered(overlay, "n" * (most + 1))
    refusal = capsys.readouterr().err
    assert f"{most + 1} characters; with --overlay={overlay} {most} at most" in refusal

    objects = rendered(overlay, "n" * most)
    lengths = [len(name.partition(".")[0]) for each in pods(objects) for name in each.dns]
    if overlay == "jobset":  # a pod's name has five characters more
        lengths = [length + len("-abcde") for length in lengths]
    else:  # the label of a StatefulSet's pods with its revision
        sets = of_kind(objects, "StatefulSet")
        lengths += [len(each["metadata"]["name"]) + len("-0123456789") for each in sets]
    lengths += [len(each["metadata"]["name"]) for each in of_kind(objects, "Service", "Job")]
    assert max(lengths) == 63


# The folder that is written.


def _run(*words: str) -> int:
    return launch.main(["launch", "k8s", "--name=mine", *COUNTS, *words])


def _content(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_what_is_written_is_the_same_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    folder = pathlib.Path("launch/mine")
    assert _run("--flagfile=my.flags") == 0
    first, said = _content(folder), capsys.readouterr().out
    assert first.keys() == {"kustomization.yaml", "experiment.flags"}
    assert first["experiment.flags"].decode() == EXPERIMENT
    assert "kubectl kustomize launch/mine\n" in said
    assert "kubectl apply --kustomize launch/mine\n" in said

    assert _run("--flagfile=my.flags") == 0
    assert _content(folder) == first
    assert _run("--flagfile=my.flags", "--workers=9") == 0
    assert b"{name: worker, count: 9}" in _content(folder)["kustomization.yaml"]


def test_a_dry_run_prints_what_would_be_applied_and_writes_nothing(
    capfd: pytest.CaptureFixture[str], elsewhere: pathlib.Path
) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    before = _content(elsewhere)
    assert _run("--flagfile=my.flags", "--overlay=local", "--dry_run") == 0
    printed = capfd.readouterr().out
    assert _content(elsewhere) == before

    assert _run("--flagfile=my.flags", "--overlay=local") == 0
    assert tuple(yaml.safe_load_all(printed)) == manifests.kustomize(elsewhere / "launch/mine")


@pytest.mark.parametrize("name", ["base", "counts", "overlays", "components", "monitoring"])
def test_an_installed_copy_has_the_manifests(name: str) -> None:
    project = (manifests.ROOT / "pyproject.toml").read_text()
    [patterns] = re.findall(r'^"ps_dqn\.k8s" = (\[.*\])$', project, re.MULTILINE)
    there = {p for pattern in json.loads(patterns) for p in manifests.K8S.glob(pattern)}
    files = {path for path in (manifests.K8S / name).rglob("*") if path.is_file()}
    assert files
    assert files <= there
