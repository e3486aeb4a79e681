"""What the documents link to is there."""

import pathlib
import re
import unicodedata

import pytest
from support.programs import ROOT

DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "k8s").glob("*.md")]
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(document: pathlib.Path) -> set[str]:
    """The names of a document's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {_anchor(title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def _anchor(title: str) -> str:
    title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
    kept = (c for c in title if c in "-_ " or unicodedata.category(c)[0] in "LN")
    return "".join(kept).replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_and_headings_that_there_are(document: pathlib.Path) -> None:
    wrong = []
    for link in LINK.findall(document.read_text()):
        target, _, heading = link.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        path = (document.parent / target).resolve() if target else document
        if not path.exists() or (heading and heading not in anchors(path)):
            wrong.append(link)
    assert wrong == []


def test_there_are_links() -> None:
    assert sum(len(LINK.findall(document.read_text())) for document in DOCUMENTS) > 50


def test_each_cell_of_the_comparison_can_be_checked() -> None:
    _, _, table = (ROOT / "README.md").read_text().partition("| | ps-dqn |")
    table, *_ = table.partition("\n\n")
    rows = [line.strip("| ").split(" | ")[1:] for line in table.splitlines()[2:]]
    assert len(rows) > 5
    wrong = [
        cell for row in rows for cell in row if not LINK.search(cell) and cell not in ("no", "–")
    ]
    assert wrong == []
