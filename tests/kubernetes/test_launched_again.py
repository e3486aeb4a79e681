"""`launch k8s --apply` where there is a run of the name already."""

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from support.command_lines import only_error
from support.fake_programs import FakeKubectl
from support.manifests import Object, kustomize

from ps_dqn import launch
from ps_dqn.kubernetes import running

USUAL = ("--name=mine", "--workers=4", "--ps=1", "--image=a:1", "--env_id=CartPole-v1")
STOP = "python -m ps_dqn.launch stop --name=mine --namespace=ps-dqn"
Make = Callable[..., FakeKubectl]


@pytest.fixture
def cluster(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A cluster that has the run, whose Job has such conditions."""
    monkeypatch.chdir(tmp_path)

    def make(*conditions: str, words: tuple[str, ...] = USUAL) -> FakeKubectl:
        assert launch.main(["launch", "k8s", *words]) == 0
        objects: list[Object] = [*kustomize(tmp_path / "launch" / "mine")]
        status: dict[str, Any] = {
            "conditions": [{"type": each, "status": "True"} for each in conditions]
        }
        objects = [each | {"status": status} if each["kind"] == "Job" else each for each in objects]
        fake = FakeKubectl(tmp_path / "bin")
        monkeypatch.setenv("PATH", str(fake.folder))
        fake.has(running.KINDS, objects)
        return fake

    return make


def applied(fake: FakeKubectl) -> bool:
    return any(call.split()[0] == "apply" for call in fake.calls())


@pytest.mark.parametrize("said", ["Complete", "Failed"])
def test_one_that_is_over_is_not_given_pods_again(
    said: str, cluster: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = cluster("SuccessCriteriaMet", said)
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        launch.main(["launch", "k8s", *USUAL, "--apply"])
    assert left.value.code == 2
    error = only_error(capsys.readouterr().err)
    assert f"--name=mine: there is a run of this name that is over ({said}); to launch" in error
    assert STOP in error
    assert not applied(fake)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--gamma=0.9"], "flags"),
        (["--workers=5"], "workers"),
        (["--ps=2", "--image=a:2"], "parameter servers and image"),
        (["--worker_image=b:1"], "image"),
    ],
)
@pytest.mark.parametrize("overlay", ["base", "jobset"])
def test_one_that_goes_on_is_not_changed(
    words: list[str],
    what: str,
    overlay: str,
    cluster: Make,
    capsys: pytest.CaptureFixture[str],
    tmp_path: pathlib.Path,
) -> None:
    if overlay == "jobset" and what == "image":
        pytest.skip("its pods are made otherwise")
    words = [*words, f"--overlay={overlay}"]
    what = what if overlay == "base" else what.removesuffix(" and image")
    fake = cluster(words=(*USUAL, f"--overlay={overlay}"))
    folder = kustomize(tmp_path / "launch" / "mine")
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        launch.main(["launch", "k8s", *USUAL, *words, "--apply"])
    assert left.value.code == 2
    error = only_error(capsys.readouterr().err)
    assert (
        f"a run of this name, with other {what}; to change flags, counts, image or overlay" in error
    )
    assert STOP in error
    assert not applied(fake)
    assert kustomize(tmp_path / "launch" / "mine") == folder, "it is that run's"


ALL_REDUCE = (*USUAL[:2], *USUAL[3:], "--strategy=all_reduce", "--local_updates=1")


WORDS = {
    "usual": USUAL,
    "all-reduce": ALL_REDUCE,
    "images": (*USUAL, "--worker_image=b:1"),
    "jobset": (*USUAL, "--overlay=jobset"),
    "a container beside it": (*USUAL, "--patch=side.yaml"),
}
SIDE = """
apiVersion: batch/v1
kind: Job
metadata: {name: coordinator}
spec: {template: {spec: {containers: [{name: logger, image: "logs:1"}]}}}
"""


@pytest.mark.parametrize("kind", WORDS)
def test_the_same_may_be_applied_again(kind: str, cluster: Make, tmp_path: pathlib.Path) -> None:
    words = WORDS[kind]
    (tmp_path / "side.yaml").write_text(SIDE)
    fake = cluster(words=words)
    assert launch.main(["launch", "k8s", *words, "--apply"]) == 0
    assert applied(fake)
