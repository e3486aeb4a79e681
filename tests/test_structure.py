"""Who imports whom, as the design has it: the source is read, not run."""

import ast
import collections
import functools
import pathlib
import re
import subprocess
import sys

import pytest
from support.branches import branches_on_a_kind
from support.programs import ROOT

# Folders of the top level that are imported as parts of ps_dqn, by links in it.
LINKED = ("cluster", "flags", "k8s")
COMMANDS = (  # packages
    "actor",
    "coordinator",
    "distill",
    "doctor",
    "evaluator",
    "export",
    "parameter_server",
    "plot",
    "replay_server",
    "sweep",
    "worker",
)
MODULE_COMMANDS = {
    "completion",
    "demonstrations",
    "launch",
    "presets",
    "reproduce",
    "runs",
    "watch",
}
# The command that has all of these: ps-dqn.
ENTRY = {"commands", "__main__"}
# Lines; a file is to be read in one sitting.
LONGEST = dict.fromkeys(("ps_dqn", "cluster", "flags", "tests", "benchmarks"), 300)

# What is on one floor may import what is on the floors before it, and nothing else of ps_dqn.
FLOORS = (
    {"errors", "pictures", "state"},
    {"profiling"},
    {"config", "wire", "run", "user_code"},
    {"cost_model", "environments", "kubernetes", "moments", "optimizers", "seeds", "store"},
    {"networks", "replay", "telemetry"},
    {"actor", "learning", "parameter_server", "policy", "replay_server"},
    {"all_reduce"},
    {"worker"},
    {"api", "coordinator", "doctor", "evaluator", "export", "plot"},
    {"distill", "sweep"},
)
# What every run goes through, whoever collects, learns, and holds parameters and experience: kinds
# of these are behind interfaces, and whoever makes one tells them apart (`stores`, `make_part`).
FOR_ALL = ("coordinator/loop.py", "coordinator/run.py", "worker/graph/closures.py")
# Commands and what needs nothing of the project.
APART = MODULE_COMMANDS | ENTRY | {"minatar_games"}


@functools.cache
def sources(package: str) -> list[pathlib.Path]:
    return sorted((ROOT / package).rglob("*.py"))


@functools.cache
def imports(path: pathlib.Path) -> set[str]:
    """Dotted names of the modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where a name comes from"
            module = node.module or ""
            # `from package import module` imports the module too.
            found |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return found


def top_packages(path: pathlib.Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}


def linked(path: pathlib.Path) -> set[str]:
    """The linked folders that a file imports."""
    names = [f"{name}." for name in imports(path)]
    return {each for each in LINKED if any(name.startswith(f"ps_dqn.{each}.") for name in names)}


def room(path: pathlib.Path) -> str:
    """The package or top module of ps_dqn that a file is in."""
    return path.relative_to(ROOT / "ps_dqn").parts[0].removesuffix(".py")


def rooms(path: pathlib.Path) -> set[str]:
    """The packages and top modules of ps_dqn that a file imports, its own left out."""
    known = {room(source) for source in sources("ps_dqn")}
    parts = [name.split(".") for name in imports(path)]
    found = {part[1] for part in parts if part[0] == "ps_dqn" and len(part) > 1}
    return found & known - {room(path)}


def modules(path: pathlib.Path) -> set[str]:
    """The modules of ps_dqn that a file imports, dotted."""
    known = {dotted(source) for source in sources("ps_dqn")}
    return imports(path) & known - {dotted(path)}


def dotted(path: pathlib.Path) -> str:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return f"ps_dqn.{name}" if name.split(".")[0] in LINKED else name


def test_the_reader_of_imports_sees_them_all(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "example.py"
    source.write_text(
        "import os, ps_dqn.flags.tasks\n"
        "from absl import flags as absl_flags\n"
        "def function():\n"
        "    from ps_dqn.replay import samplers\n"
        "if __name__ == '__main__':\n"
        "    import ps_dqn.cluster\n"
    )
    assert top_packages(source) == {"os", "absl", "ps_dqn"}
    assert linked(source) == {"flags", "cluster"}
    assert "ps_dqn.replay.samplers" in imports(source)


def test_every_room_has_its_floor() -> None:
    known = {room(source) for source in sources("ps_dqn")} - {"__init__"}
    assert known == set().union(*FLOORS) | APART


@pytest.mark.parametrize("path", sources("ps_dqn"), ids=dotted)
def test_a_file_imports_only_what_stands_before_it(path: pathlib.Path) -> None:
    below = set()
    for floor in FLOORS:
        if room(path) in floor:
            assert rooms(path) <= below, f"{dotted(path)} imports {sorted(rooms(path) - below)}"
        below |= floor


def test_imports_have_no_circle() -> None:
    graph = {dotted(path): modules(path) for path in sources("ps_dqn")}
    # A package's face is run before its modules, but they do not need it.
    graph = {name: wanted for name, wanted in graph.items() if not is_face(name)}
    while graph:
        leaves = {name for name, wanted in graph.items() if not wanted & graph.keys()}
        assert leaves, f"these import each other: {sorted(graph)}"
        graph = {name: wanted for name, wanted in graph.items() if name not in leaves}


def is_face(name: str) -> bool:
    return (ROOT / name.replace(".", "/") / "__init__.py").exists()


def test_environments_and_replay_need_no_tensorflow() -> None:
    # They are NumPy, so that whoever replaces them needs nothing else.
    folders = [ROOT / "ps_dqn" / name for name in ("environments", "replay")]
    files = [path for folder in folders for path in folder.glob("*.py")]
    files += (ROOT / "ps_dqn" / "config").glob("*.py")
    assert len(files) > 10
    for path in files:
        assert not top_packages(path) & {"tensorflow", "keras"}, path


def test_the_cluster_knows_nothing_of_dqn() -> None:
    for path in sources("cluster"):
        wanted = {name for name in imports(path) if name.split(".")[0] == "ps_dqn"} - {"ps_dqn"}
        assert all(f"{name}.".startswith("ps_dqn.cluster.") for name in wanted), path


def test_only_commands_import_flags() -> None:
    importing = {
        dotted(path)
        for package in ("ps_dqn", "cluster")
        for path in sources(package)
        if "flags" in linked(path)
    }
    commands = {f"ps_dqn.{name}.__main__" for name in COMMANDS}
    commands |= {f"ps_dqn.{name}" for name in MODULE_COMMANDS | ENTRY}
    # A call has the options that a command line has.
    commands |= {dotted(path) for path in sources("ps_dqn") if room(path) == "api"}
    assert "ps_dqn.coordinator.__main__" in importing
    assert importing <= commands


@pytest.mark.parametrize(
    "source",
    [
        "rows = self._replay.ledgers() if self._replay else []",
        "text = errors() or (replay and replay.errors())",
        "if replay.num_servers: say(held)",
        "if config.topology.is_shared: pass",
        "forgets = not config.topology.is_shared",
        "match config.value.algorithm:\n    case 'a3c': pass",
        "[each for each in notes if self._replay is not None]",
    ],
)
def test_the_reader_of_branches_sees_them_all(source: str) -> None:
    assert branches_on_a_kind(source)
    assert not branches_on_a_kind("cause = store.errors() or replay.errors()")


@pytest.mark.parametrize("name", FOR_ALL)
def test_what_all_runs_go_through_asks_for_no_kind_of_run(name: str) -> None:
    assert branches_on_a_kind((ROOT / "ps_dqn" / name).read_text()) == []


def test_nobody_imports_a_command() -> None:
    for path in sources("ps_dqn"):
        commands = {name for name in imports(path) if name.endswith("__main__")}
        assert not commands | (rooms(path) & MODULE_COMMANDS), path
        # What completes words asks for the table of commands.
        is_entry = "commands" in rooms(path)
        assert not is_entry or dotted(path) in ("ps_dqn.__main__", "ps_dqn.completion"), path


@pytest.mark.parametrize("folder", LONGEST)
def test_files_can_be_read_in_one_sitting(folder: str) -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in sources(folder)}
    assert lengths
    assert {path: lines for path, lines in lengths.items() if lines > LONGEST[folder]} == {}


def test_no_two_tests_have_one_name() -> None:
    # Without packages, the second of them would not be imported.
    names = collections.Counter(path.name for path in sources("tests"))
    twice = {name for name, count in names.items() if count > 1}
    assert twice <= {"__init__.py", "conftest.py"}


def test_no_test_imports_another() -> None:
    # What several share is in tests/support.
    for path in sources("tests"):
        assert not [name for name in imports(path) if name.startswith("test_")], path
        assert "support.garbage_env" not in imports(path), path  # it is for other processes


def test_documents_name_files_that_there_are() -> None:
    documents = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    path = re.compile(r"(?<![\w/.-])(?:\.\./)?((?:tests|docs|benchmarks|k8s|ps_dqn)/[\w./-]*\w)")
    named = {(each.name, name) for each in documents for name in path.findall(each.read_text())}
    assert len(named) > 10
    assert {(document, name) for document, name in named if not (ROOT / name).exists()} == set()


def test_commands_answer_without_tensorflow_and_numpy() -> None:
    # TensorFlow takes seconds to import: --help and a wrong flag must not wait for it. NumPy reads
    # the number of its threads when it is imported, which is after the flags.
    modules = [f"ps_dqn.{name}.__main__" for name in COMMANDS]
    modules += [f"ps_dqn.{name}" for name in sorted(MODULE_COMMANDS | ENTRY)]
    modules += ["ps_dqn.cluster.spec", "ps_dqn.config", "ps_dqn.api"]
    modules += [f"ps_dqn.flags.{path.stem}" for path in sources("flags") if path.stem != "__init__"]
    assert len(modules) > 5
    program = (
        "import importlib, sys\n"
        f"for name in {modules}:\n"
        "    importlib.import_module(name)\n"
        "print(sorted({'tensorflow', 'keras', 'matplotlib', 'numpy'} & sys.modules.keys()))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "[]\n"
