"""`python -m ps_dqn.launch k8s`: what it calls kubectl with, and what it refuses.

A program of that name stands in for kubectl, and says what a cluster would make it say.
"""

import json
import os
import pathlib
import re
from collections.abc import Callable

import pytest
from support.programs import run_python
from support.refusals import not_launched

from ps_dqn import __version__, launch
from ps_dqn.flags import launching

COUNTS = ("--workers=3", "--ps=2", "--image=ps-dqn:1", "--env_id=CartPole-v1")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The folder that commands are called in, with a file in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.flags").write_text("--gamma=0.9")
    return tmp_path


def _run(*words: str) -> int:
    return launch.main(["launch", "k8s", "--name=mine", *COUNTS, *words])


FAKE = """#!/bin/sh
case "$*" in *version*) echo '{versions}'; exit;; esac
case "$*" in *--output=json*) echo '{{"items": []}}'; exit;; esac
printf '%s\\n' "$@" >> '{log}'
echo '{says}'
echo '{complains}' >&2
{does}
exit {code}
"""


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, elsewhere: pathlib.Path) -> Callable[..., pathlib.Path]:
    """Puts a program in kubectl's place, alone on PATH; returns where its arguments will be."""
    folder = elsewhere / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def make(name: str = "kubectl", version: str = "v5.5.0", **what: object) -> pathlib.Path:
        versions = version
        if name == "kubectl":
            versions = json.dumps({"kustomizeVersion": version} if version else {}, indent=2)
        program, log = folder / name, elsewhere / "log"
        given = {"says": "", "complains": "", "does": "", "code": 0, **what}
        program.write_text(FAKE.format(versions=versions, log=log, **given))
        program.chmod(0o755)
        return log

    return make


def test_apply_calls_kubectl_and_says_what_to_do_next(
    fake: Callable[..., pathlib.Path], capfd: pytest.CaptureFixture[str]
) -> None:
    log = fake(says="job.batch/mine-coordinator created", complains="Warning: it is old")
    assert _run("--apply", "--context=kind-lab", "--namespace=ours", "--overlay=jobset") == 0
    assert log.read_text().splitlines()[-4:] == [
        "--context=kind-lab",
        "apply",
        "--kustomize",
        "launch/mine",
    ]
    out, err = capfd.readouterr()
    assert set(err.splitlines()) == {"Warning: it is old"}
    assert "job.batch/mine-coordinator created\n" in out
    commands = [line.strip() for line in out.splitlines() if line.startswith("  ")]
    ours = "--name=mine --namespace=ours --context=kind-lab"
    assert commands == [
        f"python -m ps_dqn.launch status {ours}",
        f"python -m ps_dqn.launch logs {ours}",
        "kubectl --context=kind-lab port-forward service/mine-tensorboard 6006 --namespace=ours",
        f"python -m ps_dqn.launch stop {ours}",
        f"python -m ps_dqn.launch stop {ours} --delete_data",
    ]
    assert "a Job that is there cannot be changed" in out


def test_the_overlay_is_there_when_kubectl_is_called(
    fake: Callable[..., pathlib.Path],
) -> None:
    fake(does="[ -s launch/mine/kustomization.yaml ] || exit 9")
    assert _run("--apply") == 0


IMMUTABLE = (
    'The Job "mine-coordinator" is invalid: spec.template: Invalid value: '
    + "core.PodTemplateSpec{"
    + "x" * 5000
    + "}: field is immutable"
)


@pytest.mark.parametrize(
    ("complains", "says"),
    [
        ("warning\nerror: connection refused", ["connection refused"]),
        ("", ["exit code 3"]),
        (
            'Error from server (Forbidden): roles.rbac.authorization.k8s.io "x" is forbidden',
            ["is forbidden; --nofree_nodes needs no Role"],
        ),
        ('Error: namespaces "ps-dqn" not found', ["kubectl create namespace ps-dqn"]),
        (
            IMMUTABLE,
            [
                'The Job "mine-coordinator" is invalid: spec.template: field is immutable',
                "stop it and launch it again",
                "python -m ps_dqn.launch stop --name=mine --namespace=ps-dqn",
            ],
        ),
    ],
)
def test_a_failure_of_kubectl_is_one_line(
    complains: str,
    says: list[str],
    fake: Callable[..., pathlib.Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake(complains=complains, code=3)
    assert _run("--apply") == 1
    out, err = capsys.readouterr()
    assert err.startswith("error: kubectl: ")
    assert len(err.splitlines()) == 1
    assert "warning" not in err
    assert len(err) < 1000
    assert all(text in err for text in says)
    assert "port-forward" not in out


def test_a_dry_run_takes_kustomize_where_kubectl_is_too_old(
    fake: Callable[..., pathlib.Path],
) -> None:
    fake("kubectl", version="")
    log = fake("kustomize", version="v5.0.1")
    assert _run("--dry_run") == 0
    assert log.read_text().splitlines()[0] == "build"


@pytest.mark.parametrize(
    ("tools", "what", "says"),
    [
        ({}, "--dry_run", "kubectl or kustomize with Kustomize 5.0 or newer is needed and not"),
        ({}, "--apply", "kubectl with Kustomize 5.0 or newer is needed and not installed"),
        ({"kustomize": "v5.5.0"}, "--apply", "kubectl with Kustomize 5.0 or newer is needed"),
        ({"kubectl": "v4.5.7"}, "--apply", "kubectl has Kustomize 4.5, but kubectl with"),
        (
            {"kubectl": "", "kustomize": "{Version:kustomize/v4.1.2 GitCommit:a}"},
            "--dry_run",
            "kubectl has an older Kustomize and kustomize has Kustomize 4.1, but",
        ),
    ],
)
def test_without_the_tools_nothing_is_written(
    tools: dict[str, str],
    what: str,
    says: str,
    fake: Callable[..., pathlib.Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, version in tools.items():
        fake(name, version=version)
    assert says in not_launched(capsys, "--name=mine", *COUNTS, what)
    assert not pathlib.Path("launch").exists()


# Mistakes.


def test_changes_by_a_person_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run() == 0
    file = pathlib.Path("launch/mine/kustomization.yaml")
    first_line, _, rest = file.read_text().partition("\n")
    assert "take this line away to keep your changes" in first_line
    file.write_text(rest)
    assert "not this program's" in not_launched(capsys, "--name=mine", *COUNTS)
    assert file.read_text() == rest


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--name=Mine"], "--name=Mine: must be lower-case"),
        (["--name=my_run"], "--name=my_run: must be lower-case"),
        (["--name=9lives"], "the first a letter"),  # which the name of a Service must begin with
        (["--name=mine-"], "the last no -"),
        (["--name="], "--name is missing"),
        (["--namespace=a.b"], "--namespace=a.b: must be"),
        (["--namespace=" + "n" * 64], "63 at most"),
        (["--workers=0"], "flag --workers=0"),
        (["--ps=0"], "flag --ps=0"),
        (["--ps=two"], "flag --ps=two"),
        (["--overlay=moon"], "flag --overlay=moon: value should be one of <base|"),
        (["--image=ps-dqn"], "--image=ps-dqn: must be repository:tag"),
        (["--image=REPOSITORY/ps-dqn:1"], "names are lower case"),
        (["--image=host:5000/ps-dqn"], "must be repository:tag"),
        (['--image=a:b"\nc: d'], "must be repository:tag"),
        (["--worker_image=:9"], "--worker_image=:9: must be"),
        (["--tls_image=stunnel"], "--tls_image=stunnel: must be"),
        (["--tls_image=s:5", "--overlay=jobset"], "--tls_image=s:5: not with --overlay=jobset"),
        (["--tls_image=s:5", "--workers=257"], "--workers=257: with --tls_image, 256 at most"),
        (["--overlay=gpu-worker", "--image=a:1"], "with --overlay=gpu-worker, say which image"),
        (["--dry_run", "--apply"], "one changes nothing, the other the cluster"),
        (["--dry_run", "--context=kind"], "--context=kind: has no effect with --dry_run"),
        (["--output=my.flags"], "--output=my.flags: is a file"),
        (["--output=."], "--output=.: has something else in it (my.flags)"),
        (["--output=my.flags/x"], "--output=my.flags/x: Not a directory"),
        (["--flagfile=none.flags"], "--flagfile=none.flags: No such file"),
        (["--flagfile=."], "--flagfile=.: Is a directory"),
        (["--image="], "--image is missing: say the image that the nodes can pull"),
        (["--image="], f"docker build --tag REPOSITORY/ps-dqn:{__version__} ."),
        (["--cpu=two"], "'two' is no quantity of Kubernetes"),
        (["--memory=worker=2"], "--memory=worker=2: are 2 bytes; say a unit"),
        (["--storage=lots"], "--storage=lots: 'lots' is no quantity"),
        (["--storage_class=Fast"], "--storage_class=Fast: must be lower-case"),
        (["--access_mode=ReadWriteAll"], "value should be one of <ReadWriteMany|ReadWriteOnce>"),
        (["--dns=k8s-app=kube-dns"], "--dns=k8s-app=kube-dns: must be NAMESPACE/LABEL=VALUE"),
        (["--dns=Kube/a=b"], "--dns=Kube/a=b: must be"),
        (["--dns=kube-system/a=b:0"], "of the pods that answer names, with :PORT"),
        (["--nofree_nodes", "--overlay=tfjob"], "--free_nodes=false: has no effect"),
        (["--patch=none.yaml"], "--patch=none.yaml: No such file"),
        (["--set=wroker.spec.replicas=3"], "'wroker' is no role: coordinator, "),
        (["--set=worker"], "--set=worker: say a role, the keys to a place in its object"),
        (["--set=worker.spec=3"], "like worker.spec.template.spec.priorityClassName=cheap"),
        (["--set=worker.spec..a=3"], "a dot in a key is \\."),
        (["--set=worker.metadata.name=other"], "from spec or metadata on, and a value"),
        (["--gamma=2"], "error: --gamma=2.0: must be 1.0 or less"),
        (["--gama=0.5"], "there is no such flag; did you mean --gamma?"),
        (["--workers=1000", "--replay_capacity=2000"], "each of 1000 workers has its share"),
        (["--run_dir=here"], "there is no such flag"),
        (["again"], "'again' is not a flag"),
    ],
)
def test_mistakes_are_refused_before_anything_is_written(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str], elsewhere: pathlib.Path
) -> None:
    before = os.listdir(elsewhere)
    assert says in not_launched(capsys, "--name=mine", *COUNTS, *words)
    assert os.listdir(elsewhere) == before


@pytest.mark.parametrize("words", [["--help"], ["k8s", "--help"]])
def test_help_has_every_flag(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert launch.main(["launch", *words]) == 0
    shown = set(re.findall(r"^  --(?:\[no\])?(\w+)", capsys.readouterr().out, re.MULTILINE))
    assert shown == {name for names in launching.TOPICS.values() for name in names}
    assert shown - {"preset"} == set(launching.define()) - {
        "help",
        "helpshort",
        "helpfull",
        "helpxml",
    }


def test_a_run_without_a_place_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        launch.main(["launch", "--name=mine", *COUNTS])
    assert caught.value.code == 2
    assert "say what to do: python -m ps_dqn.launch k8s" in capsys.readouterr().err


def test_it_is_a_command(elsewhere: pathlib.Path) -> None:
    ended = run_python(["-m", "ps_dqn.launch", "k8s", "--name=mine", *COUNTS], elsewhere)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert os.listdir(elsewhere / "launch") == ["mine"]
