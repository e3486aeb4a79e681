"""Who imports whom, as the design has it: the source is read, not run."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = ("ps_dqn", "cluster", "flags")
ENTRY_POINTS = ("coordinator", "worker", "parameter_server", "evaluator", "launch")
LONGEST = 350  # lines; a file is to be read in one sitting

# What these may import of ps_dqn: they can be read, tested and replaced on their own.
SIBLINGS = {
    "errors": set(),
    # What is said on the command line.
    "config": {"checks", "hyperparameters", "options", "run_options"},
    "hyperparameters": {"options"},
    "run_options": {"options"},
    "options": {"errors"},
    "checks": {"errors", "hyperparameters"},
    # Parameter servers, and the way to them.
    "encoding": set(),
    "messages": {"encoding"},
    "gate": set(),
    "aggregation": {"config", "optimizers", "run_options"},
    "ledger": {"messages", "reports"},
    "exchange": {"config", "encoding", "messages", "state"},
    "shard": {"aggregation", "config", "encoding", "ledger", "messages", "state", "tickets"},
    "tickets": {"messages"},
    "parameter_host": {"config", "exporter", "messages", "shard", "state"},
    "state": set(),
    "reports": {"state"},
    "exporter": {"reports", "state"},
    "endings": set(),
    # Environments, and what is remembered of them.
    "environments": {"config", "errors"},
    "exploration": set(),
    "schedules": set(),
    "experience": {"batches", "config", "environments", "memory"},
    "memory": {"batches", "config", "environments", "replay", "replay_plan", "rollout"},
    "batches": {"config", "environments", "replay", "rollout"},
    "rollout": {"environments"},
    "replay_plan": {
        "observations",
        "checks", "config", "environments", "errors", "hyperparameters", "replay", "replay_memory",
        "samplers",
    },
    "replay": {"rows", "samplers"},
    "rows": {"columns", "errors", "observations", "seals"},
    "samplers": {"sum_tree"},
    "sum_tree": set(),
    "seals": set(),
    "columns": {"errors"},
    "observations": {"errors"},
    "replay_memory": {"errors"},
    "optimizer_file": set(),
    # Networks, and how they learn.
    "networks": {"checks", "config", "environments", "errors", "heads", "layers", "torsos"},
    "torsos": {"config", "environments", "errors", "layers"},
    "heads": {"config", "environments", "errors", "layers"},
    "layers": {"config", "seeds"},
    "seeds": set(),
    "losses": set(),
    "distributional": set(),
    "lambda_returns": set(),
    "objectives": {"config", "distributional", "losses", "networks", "seeds"},
    "minibatches": {
        "config", "lambda_returns", "losses", "networks", "objectives", "replay", "rollout",
        "seeds",
    },
    "learner": {
        "batches", "config", "losses", "minibatches", "networks", "optimizers", "seeds",
    },
    "optimizers": {"config"},
}  # fmt: skip


def sources(package: str) -> list[pathlib.Path]:
    return sorted((ROOT / package).rglob("*.py"))


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


def packages_of(path: pathlib.Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}


def siblings(path: pathlib.Path) -> set[str]:
    """The modules of ps_dqn that a file of it imports."""
    modules = {source.stem for source in sources("ps_dqn")}
    parts = [name.split(".") for name in imports(path)]
    return {part[1] for part in parts if part[0] == "ps_dqn" and len(part) > 1} & modules


def test_the_reader_of_imports_sees_them_all(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "example.py"
    source.write_text(
        "import os, flags.tasks\n"
        "from absl import flags as absl_flags\n"
        "def function():\n"
        "    from ps_dqn import replay\n"
        "    from ps_dqn.config import Config\n"
        "if __name__ == '__main__':\n"
        "    import cluster\n"
    )
    assert packages_of(source) == {"os", "absl", "flags", "ps_dqn", "cluster"}
    assert siblings(source) == {"replay", "config"}


@pytest.mark.parametrize("module", SIBLINGS)
def test_leaves_import_no_siblings_but_these(module: str) -> None:
    path = ROOT / "ps_dqn" / f"{module}.py"
    assert siblings(path) <= SIBLINGS[module]
    assert not packages_of(path) & {"cluster", "flags"}


def test_environments_and_memory_need_no_tensorflow() -> None:
    # They are NumPy, so that whoever replaces them needs nothing else.
    wanted, found = {"experience"}, set()
    while wanted:
        path = ROOT / "ps_dqn" / f"{wanted.pop()}.py"
        found.add(path.stem)
        assert not packages_of(path) & {"tensorflow", "keras"}, path
        wanted |= siblings(path) - found
    assert {"environments", "replay", "rollout", "sum_tree"} <= found


def test_the_cluster_knows_nothing_of_dqn() -> None:
    for path in sources("cluster"):
        assert not packages_of(path) & {"ps_dqn", "flags"}, path


def test_only_entry_points_import_flags() -> None:
    importing = {
        f"{path.parent.name}.{path.stem}"
        for package in ("ps_dqn", "cluster")
        for path in sources(package)
        if "flags" in packages_of(path)
    }
    assert "ps_dqn.coordinator" in importing
    assert importing <= {f"ps_dqn.{name}" for name in ENTRY_POINTS}


def test_nobody_imports_an_entry_point_that_reads_flags_when_imported() -> None:
    # The coordinator and evaluator are commands; worker and parameter_server are also what the
    # local cluster runs, so they read flags only where they are the command.
    for path in sources("ps_dqn"):
        assert not siblings(path) & {"coordinator", "evaluator", "launch"}, path
    for name in ("worker", "parameter_server"):
        tree = ast.parse((ROOT / "ps_dqn" / f"{name}.py").read_text())
        guard = [node for node in tree.body if isinstance(node, ast.If)][-1]
        assert ast.unparse(guard.test) == "__name__ == '__main__'"
        others = ast.Module([node for node in tree.body if node is not guard], [])
        modules = [node.module for node in ast.walk(others) if isinstance(node, ast.ImportFrom)]
        assert modules
        assert "flags" not in modules


def test_imports_have_no_circle() -> None:
    graph = {path.stem: siblings(path) for path in sources("ps_dqn")}
    while graph:
        leaves = {name for name, wanted in graph.items() if not wanted & graph.keys()}
        assert leaves, f"these import each other: {sorted(graph)}"
        graph = {name: wanted for name, wanted in graph.items() if name not in leaves}


@pytest.mark.parametrize("package", PACKAGES)
def test_files_can_be_read_in_one_sitting(package: str) -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in sources(package)}
    assert lengths
    assert {path: lines for path, lines in lengths.items() if lines > LONGEST} == {}


def test_commands_answer_without_tensorflow_and_numpy() -> None:
    # TensorFlow takes seconds to import: --help and a wrong flag must not wait for it. NumPy reads
    # the number of its threads when it is imported, which is after the flags.
    modules = ["ps_dqn.coordinator", "ps_dqn.evaluator", "ps_dqn.launch"]
    modules += ["cluster.spec", "ps_dqn.config"]
    modules += [f"flags.{path.stem}" for path in sources("flags") if path.stem != "__init__"]
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
