"""Each command that the documents show is done by a test, or by what runs the tests."""

import re

import pytest
from support import documented
from support.documented import Shown
from support.programs import ROOT

BLOCKS = [each for each in documented.all_shown() if each.is_block]
# What does those that are in no test of documents: by how they begin.
ELSEWHERE = {
    "python3 -m venv": ".ci/run",
    "pip install -e": ".ci/run",
    "python -m pytest": ".ci/run",
    "ruff ": ".ci/run",
    "mypy": ".ci/run",
    "pip install ps-dqn[": "tests/test_documented_everything.py",  # it names an extra
    "python benchmarks/": "tests/test_benchmarks.py",
    "python docs/inventory.py": "tests/test_documented_commands.py",
    "python docs/serve.py": "tests/test_documented_python.py",
    "curl ": "tests/test_documented_python.py",
    "python docs/tune.py": "tests/api/test_python_examples.py",
    "tensorboard ": "tests/telemetry/test_hyperparameters.py",
    "saved_model_cli ": "tests/test_documented_paths.py",
    "unshare ": "tests/test_documented_paths.py",
    "openssl ": "tests/kubernetes/test_documented_launches.py",
    "kubectl ": "tests/kubernetes/test_documented_launches.py",
    "docker build": "tests/k8s/test_image.py",  # built by buildah: no engine is there
    "docker run": "tests/k8s/test_image.py",
    "docker buildx": "tests/k8s/test_image_files.py",
    "k8s/e2e/run-on-kind": "tests/k8s/test_kind_script.py",
    "ps-dqn reproduce": "tests/environments/test_reproduce.py",
    "ps-dqn train --env_id=ALE/Pong-v5": "tests/environments/test_extras.py",
}


def done_by(shown: Shown) -> str:
    """The file that does it; empty where there is none."""
    word, words = shown.program or ("", [])
    said = " ".join(shown.words)
    if shown.refused and "pip install" not in shown.refused:
        return "tests/test_documented_commands.py"
    if shown.is_training:
        return "tests/test_documented_commands.py"
    if "_hosts=" in said:
        return "tests/test_documented_clusters.py" * (shown.document in documented.CLUSTERS)
    if any(each.startswith("--demonstrations=") for each in words):
        return "tests/test_documented_python.py"
    if word == "launch":  # once with what stands for the flags of another command
        return "tests/kubernetes/test_documented_launches.py"
    if word and not shown.refused and shown.document in documented.FOLLOWED:
        return "tests/test_documented_paths.py"
    return next((file for begins, file in ELSEWHERE.items() if said.startswith(begins)), "")


@pytest.mark.parametrize("shown", BLOCKS, ids=lambda shown: f"{shown.document}: {shown.text}")
def test_a_command_is_done(shown: Shown) -> None:
    file = done_by(shown)
    assert file, f"{shown.document} shows what nothing does: {shown.text}"
    assert (ROOT / file).exists()


def test_what_is_done_elsewhere_is_shown() -> None:
    said = [" ".join(each.words) for each in BLOCKS]
    assert not [begins for begins in ELSEWHERE if not any(s.startswith(begins) for s in said)]


def test_extras_are_there() -> None:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    first = lines.index("[project.optional-dependencies]") + 1
    known = {line.partition(" = ")[0] for line in lines[first : lines.index("", first)]}
    texts = [document.read_text() for document in documented.DOCUMENTS]
    found = re.findall(r"ps-dqn\[([\w,]+)\]", " ".join(texts))
    assert len(found) > 5
    assert {name for names in found for name in names.split(",")} <= known
