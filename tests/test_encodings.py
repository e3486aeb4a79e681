"""Text in files is UTF-8, whatever the locale of whoever reads or writes it."""

import ast
import pathlib

import pytest
from support.programs import ROOT

PACKAGES = ("ps_dqn", "cluster", "flags")
SOURCES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
# A call's name, and which of its arguments is the encoding where it has no name.
TEXT = {"read_text": 0, "write_text": 1}
# And which is the mode: of functions, and of methods, but for those of these modules.
OPENING = {"open": 1, "fdopen": 1, "TemporaryFile": 0, "NamedTemporaryFile": 0}
NOT_TEXT = {"os", "opener"}


def without_encoding(source: str) -> list[int]:
    """The lines of calls that read or write text as the locale has it."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if _takes_text(call) and not _says(call, "encoding")]


def _takes_text(call: ast.Call) -> bool:
    function, is_method = call.func, isinstance(call.func, ast.Attribute)
    name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
    if name in TEXT:
        return len(call.args) <= TEXT[name]
    if name not in OPENING:
        return False
    owner = ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""
    if name == "open" and owner in NOT_TEXT:
        return False
    place = OPENING[name] - (name == "open" and is_method)
    given = [each.value for each in call.keywords if each.arg == "mode"]
    mode = (given or call.args[place : place + 1] or [ast.Constant(_usual(name))])[0]
    return isinstance(mode, ast.Constant) and "b" not in str(mode.value)


def _usual(name: str) -> str:
    return "w+b" if name.endswith("TemporaryFile") else "r"


def _says(call: ast.Call, name: str) -> bool:
    return any(each.arg == name for each in call.keywords)


@pytest.mark.parametrize(
    "source",
    [
        "path.read_text()",
        "(folder / 'a').read_text(errors='replace')",
        "path.write_text(text)",
        "open(path)",
        "open(path, 'w', errors='replace')",
        "path.open()",
        "path.open('a', newline='')",
        "path.open(mode='r')",
        "os.fdopen(descriptor)",
        "tempfile.NamedTemporaryFile('w', suffix='.flags')",
    ],
)
def test_the_reader_of_calls_sees_them_all(source: str) -> None:
    assert without_encoding(source)


@pytest.mark.parametrize(
    "source",
    [
        "path.read_text(encoding='utf-8')",
        "path.write_text(text, 'utf-8')",
        "open(path, 'rb')",
        "path.open('wb')",
        "path.open('a', encoding='utf-8')",
        "os.open(path, os.O_RDONLY)",
        "os.fdopen(descriptor, 'rb')",
        "tempfile.TemporaryFile(dir=path)",
    ],
)
def test_and_no_others(source: str) -> None:
    assert not without_encoding(source)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_text_is_utf_8(path: pathlib.Path) -> None:
    assert without_encoding(path.read_text(encoding="utf-8")) == []
