"""What names a version names this one."""

import pathlib
import re

import pytest
from support.programs import ROOT

from ps_dqn import __version__

# Manifests are rendered and looked at by tests of their own.
NAMING = [ROOT / "README.md", ROOT / "docs/kubernetes.md"]
TAG = re.compile(r"ps-dqn(?:-tls)?:(\d+\.\d+\.\d+)")  # of an image


@pytest.mark.parametrize("path", NAMING, ids=lambda path: path.name)
def test_images_have_the_version(path: pathlib.Path) -> None:
    assert set(TAG.findall(path.read_text())) == {__version__}


def test_the_changelog_and_the_citation_have_it() -> None:
    assert f"\n## {__version__} - 20" in (ROOT / "CHANGELOG.md").read_text()
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
