"""What the documents have people do, done: each command goes on from what the last one left."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from support import documented
from support.documented import SHORT, Shown
from support.programs import environment_of_python
from support.tiers import tiered

# What makes each command short.
MORE = {"train": SHORT, "sweep": (*SHORT, "--seeds=2"), "distill": ("--env_steps=500",)}
MORE |= {"evaluate": ("--episodes=2",), "watch": ("--episodes=1",)}
# The others have whole trainings of their own.
OFTEN = ("commands.md", "looking.md", "running.md", "watching.md")
# Runs that the documents have from elsewhere.
RUNS = re.compile(r"^(cart|runs/…|runs/my_run|runs/CartPole-v1-[0-9-]+)$")


def program(name: str) -> str:
    """Where it was installed beside Python."""
    return str(pathlib.Path(sys.executable).with_name(name))


@pytest.fixture(scope="module")
def a_run(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    do(
        folder.parent,
        [program("ps-dqn"), "train", *SHORT, "--hidden_sizes=64,64", f"--run_dir={folder}"],
    )
    return folder


def do(folder: pathlib.Path, words: list[str]) -> str:
    """Does it there; what it said."""
    environment = environment_of_python() | {"COLUMNS": "200"}
    ended = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, f"{words}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def steps_of(document: str) -> list[Shown]:
    """What is done in it, in order."""
    return [
        shown
        for shown in documented.all_shown()
        if shown.document == document and shown.is_block and not shown.refused
    ]


@pytest.mark.parametrize("document", tiered(documented.FOLLOWED, slow=OFTEN))
def test_a_document_is_followed(document: str, a_run: pathlib.Path, tmp_path: pathlib.Path) -> None:
    documented.folder_of_examples(tmp_path)
    done = 0
    for shown in steps_of(document):
        if shown.program:
            word, rest = shown.program
            given = [each.partition("=")[2] if "=" in each else each for each in rest]
            for name in filter(RUNS.match, given):
                if not (tmp_path / name).exists():
                    shutil.copytree(a_run, tmp_path / name)
            words = [program("ps-dqn"), word, *rest, *MORE.get(word, ())]
        elif shown.words[0] == "saved_model_cli":
            words = [program("saved_model_cli"), *shown.words[1:]]
        else:
            continue
        do(tmp_path, words)
        done += 1
    assert done


@pytest.mark.slow
def test_a_run_in_a_network_of_its_own(tmp_path: pathlib.Path) -> None:
    [shown] = [each for each in steps_of("SECURITY.md") if each.words[0] == "unshare"]
    *before, command = shown.words
    tried = subprocess.run([*before[:-2], "true"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip("no user namespaces here")
    command = command.replace("ps-dqn", program("ps-dqn"))
    do(tmp_path, [*before, " ".join([command, *SHORT, "--run_dir=run"])])
