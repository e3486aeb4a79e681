"""The folder of a run: it has all that is applied, and says what was asked for."""

import pathlib
import shutil
from collections.abc import Callable

import pytest
from support.command_lines import only_error
from support.manifests import K8S, ROOT, Object, kustomize, of_kind, pods, pods_of
from support.tiers import tiered

from ps_dqn import launch
from ps_dqn.flags import launching

Write = Callable[..., pathlib.Path]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture
def write(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Launches a run in a folder of its own, without --apply; returns the run's folder."""
    monkeypatch.chdir(tmp_path)

    def launched(*words: str) -> pathlib.Path:
        usual = ["--name=mine", "--workers=3", "--ps=2", "--image=a:1", "--env_id=CartPole-v1"]
        assert launch.main(["launch", "k8s", *usual, *words]) == 0
        return tmp_path / "launch" / "mine"

    return launched


def files(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    "overlay", tiered(launching.OVERLAYS, quick=("base", "jobset"), slow=("tfjob", "gpu-worker"))
)
def test_it_is_applied_from_another_place_without_this_package(
    overlay: str, write: Write, tmp_path: pathlib.Path
) -> None:
    words = [f"--overlay={overlay}", "--worker_image=a:2"]
    folder = write(*words, *([] if overlay in ("jobset", "tfjob") else ["--tls_image=t:1"]))
    there = kustomize(folder)
    for name, content in files(folder).items():
        assert str(ROOT).encode() not in content, name
        assert str(tmp_path).encode() not in content, name
        assert not (folder / name).is_symlink()
    # Nothing leads out of it any more: the place it was made in has nothing else, and is gone.
    other = tmp_path / "other" / "deeper"
    shutil.move(folder, other)
    shutil.rmtree(tmp_path / "launch")
    assert kustomize(other) == there


def test_the_manifests_in_it_are_the_packages_own(write: Write) -> None:
    copied = files(write("--overlay=tfjob") / "manifests")
    assert copied.pop("README.md").startswith(b"Written by ps_dqn.launch")
    assert len(copied) > 15
    for name, content in copied.items():
        assert content == (K8S / name).read_bytes(), name


def test_launching_again_replaces_all_of_it(write: Write) -> None:
    write("--overlay=tfjob", "--cpu=2")
    folder = write("--overlay=local")
    assert [path.name for path in (folder / "manifests" / "components").iterdir()] == ["free-nodes"]
    assert (folder / "manifests" / "overlays" / "local").exists()
    again = files(folder)
    (folder / "manifests" / "base" / "worker.yaml").write_text("kind: Nothing")
    assert files(write("--overlay=local")) == again


def test_manifests_of_somebody_else_are_left_alone(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write()
    (folder / "manifests" / "README.md").write_text("Mine.")
    with pytest.raises(SystemExit):
        write("--overlay=local")
    assert "not this program's" in capsys.readouterr().err
    assert not (folder / "manifests" / "overlays").exists()


def test_flags_of_the_experiment_come_after_the_flagfile(
    write: Write, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my.flags").write_text("--gamma=0.9\n--n_step=2")
    kwargs = '--env_kwargs={"a":\n 1}'
    folder = write("--flagfile=my.flags", "--gamma=0.8", kwargs, "--nodouble_dqn")
    assert (folder / "experiment.flags").read_text() == (
        "--gamma=0.9\n--n_step=2\n# Said on the command line:\n--env_id=CartPole-v1\n"
        '--env_kwargs={"a":  1}\n--nodouble_dqn\n--gamma=0.8\n'
    )
    said = capsys.readouterr().out
    assert "wrote launch/mine: CartPole-v1, 3 workers, 2 parameter servers\n" in said


# What the pods are given.


def resources(objects: tuple[Object, ...], role: str) -> Object:
    return pods_of(objects, role).container["resources"]


@pytest.mark.parametrize("overlay", ["base", "gpu-worker", "jobset", "tfjob"])
def test_a_role_gets_the_processors_and_memory_that_are_said(overlay: str, write: Write) -> None:
    before = kustomize(write(f"--overlay={overlay}", "--worker_image=a:2"))
    words = ["--cpu=1500m,worker=6", "--memory=worker=12Gi"]
    after = kustomize(write(f"--overlay={overlay}", "--worker_image=a:2", *words))
    for each in pods(after):
        given = resources(after, each.role)
        cpu = "6" if each.role == "worker" else "1500m"
        assert given["limits"]["cpu"] == given["requests"]["cpu"] == cpu
        is_worker = each.role == "worker"
        memory = "12Gi" if is_worker else resources(before, each.role)["limits"]["memory"]
        assert given["limits"]["memory"] == memory
    gpus = {"nvidia.com/gpu": "1"} if overlay == "gpu-worker" else {}
    worker = {"cpu": "6", "memory": "12Gi"}
    assert resources(after, "worker") == {"requests": worker, "limits": worker | gpus}


def test_the_volume_is_the_one_that_is_said(write: Write) -> None:
    words = ["--storage=50Gi", "--storage_class=nfs.example.com", "--access_mode=ReadWriteOnce"]
    [claim] = of_kind(kustomize(write(*words)), "PersistentVolumeClaim")
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "50Gi"}},
        "storageClassName": "nfs.example.com",
    }
    [claim] = of_kind(kustomize(write("--storage=50Gi")), "PersistentVolumeClaim")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


@pytest.mark.parametrize("overlay", launching.OVERLAYS)
def test_where_one_node_mounts_the_volume_all_who_need_it_are_on_it(
    overlay: str, write: Write
) -> None:
    words = ["--access_mode=ReadWriteOnce", f"--overlay={overlay}", "--worker_image=a:2"]
    for each in pods(kustomize(write(*words))):
        volumes = [volume for volume in each.spec["volumes"] if "persistentVolumeClaim" in volume]
        terms = each.spec.get("affinity", {}).get("podAffinity", {}).get(REQUIRED, [])
        assert len(terms) == len(volumes), each.role
        for term in terms:
            assert term["topologyKey"] == "kubernetes.io/hostname"
            selector = term["labelSelector"]
            assert selector["matchLabels"] == {"app.kubernetes.io/instance": "mine"}
            [roles] = [one["values"] for one in selector["matchExpressions"]]
            # Its own role is among them: or the first one would wait for itself.
            assert sorted(roles) == ["coordinator", "evaluator", "tensorboard"]


def dns_of(folder: pathlib.Path) -> Object:
    policies = of_kind(kustomize(folder), "NetworkPolicy")
    [policy] = [each for each in policies if each["metadata"]["name"] == "mine-dns"]
    return policy["spec"]


@pytest.mark.parametrize("overlay", launching.OVERLAYS)
def test_names_are_asked_of_the_pods_that_are_said(overlay: str, write: Write) -> None:
    usual = (f"--overlay={overlay}", "--worker_image=a:2")
    before = dns_of(write(*usual))
    # What the manifests have, said.
    assert dns_of(write(*usual, "--dns=kube-system/k8s-app=kube-dns")) == before
    label = "dns.operator.openshift.io/daemonset-dns"
    after = dns_of(write(*usual, f"--dns=openshift-dns/{label}=default:5353"))
    [rule] = after.pop("egress")
    assert rule["to"] == [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}},
            "podSelector": {
                "matchExpressions": [{"key": label, "operator": "In", "values": ["default"]}]
            },
        },
        {"ipBlock": {"cidr": "169.254.20.10/32"}},
    ]
    assert [each["port"] for each in rule["ports"]] == [53, 53, 5353, 5353]
    assert after == {name: part for name, part in before.items() if name != "egress"}


def test_nodes_are_freed_unless_nobody_wants_that(write: Write) -> None:
    def freed(*words: str) -> bool:
        objects = kustomize(write(*words))
        roles = of_kind(objects, "Role", "RoleBinding", "ServiceAccount")
        told = "free_stateful_sets" in pods_of(objects, "coordinator").flags
        assert told == bool(roles)
        return told

    assert freed()
    assert not freed("--nofree_nodes")
    assert not freed("--overlay=jobset")  # which does it by itself


# Anything else.

PATCH = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: worker}
spec:
  template:
    spec:
      priorityClassName: cheap
      nodeSelector: {pool: spot}
"""


@pytest.mark.parametrize("overlay", ["cpu-fleet", "jobset"])
def test_a_patch_says_anything_else(overlay: str, write: Write, tmp_path: pathlib.Path) -> None:
    (tmp_path / "spot.yaml").write_text(PATCH)
    (tmp_path / "more.yaml").write_text(PATCH.replace("cheap", "cheaper"))
    folder = write(f"--overlay={overlay}", "--patch=spot.yaml", "--patch=more.yaml")
    assert sorted(files(folder / "patches")) == ["1.yaml", "2.yaml"]
    spec = pods_of(kustomize(folder), "worker").spec
    assert (spec["priorityClassName"], spec["nodeSelector"]) == ("cheaper", {"pool": "spot"})
    assert not (write(f"--overlay={overlay}") / "patches").exists()


@pytest.mark.parametrize("overlay", ["cpu-fleet", "jobset"])
def test_single_values_go_before_what_files_say(
    overlay: str, write: Write, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "spot.yaml").write_text(PATCH)
    folder = write(
        *(f"--overlay={overlay}", "--patch=spot.yaml"),
        "--set=worker.spec.template.spec.priorityClassName=cheaper",
        "--set=worker.spec.template.spec.terminationGracePeriodSeconds=77",
        r'--set=worker.spec.template.metadata.annotations.example\.com/safe="true"',
    )
    template = pods_of(kustomize(folder), "worker").template
    spec = template["spec"]
    assert (spec["priorityClassName"], spec["nodeSelector"]) == ("cheaper", {"pool": "spot"})
    assert spec["terminationGracePeriodSeconds"] == 77
    assert template["metadata"]["annotations"]["example.com/safe"] == "true"


def test_a_value_of_a_role_that_the_run_is_without_is_refused(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    with pytest.raises(SystemExit) as left:
        write("--set=actor.spec.replicas=3")
    assert left.value.code == 2
    err = only_error(capsys.readouterr().err)
    assert err.startswith("--set=actor.spec.replicas=3: does not fit the manifests (")


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        (
            PATCH.replace("name: worker", "name: wroker"),
            'no resource matches strategic merge patch "StatefulSet.v1.apps/wroker.',
        ),
        ("just words", "unable to parse"),
    ],
)
def test_a_patch_that_does_not_fit_is_refused_before_anything_is_written(
    patch: str, says: str, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    pathlib.Path("good.yaml").write_text(PATCH)
    pathlib.Path("bad.yaml").write_text(patch)
    with pytest.raises(SystemExit) as left:
        write("--patch=good.yaml", "--patch=bad.yaml", "--patch=good.yaml")
    assert left.value.code == 2
    err = only_error(capsys.readouterr().err)
    assert err.startswith("--patch=bad.yaml: does not fit the manifests (")
    assert says in err
    assert "command failed" not in err
    assert not pathlib.Path("launch").exists()
