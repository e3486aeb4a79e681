"""The commands that the documents show are ones that there are, and do what is shown."""

import contextlib
import functools
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from support import documented, warm
from support.documented import ELLIPSIS, Shown
from support.programs import ROOT, run_python

from ps_dqn import commands, completion
from ps_dqn.coordinator import __main__ as train
from ps_dqn.flags import command_line, experiment

OURS = [each for each in documented.all_shown() if each.program and not each.refused]
# What other programs are there to be had from.
OTHERS = {"curl", "docker", "kubectl", "openssl", "python", "python3", "saved_model_cli"}
OTHERS |= {"tensorboard", "unshare"}
# Flags of every program that are in no help.
EVERYWHERE = {"help", "version", "flagfile"}


@functools.cache
def flags_of() -> dict[str, set[str]]:
    return {
        word: {flag.name for flag in flags} | EVERYWHERE
        for word, flags in completion.all_flags().items()
    }


@functools.cache
def flags_of_benchmark(path: pathlib.Path) -> set[str]:
    return set(re.findall(r'"--([a-z][\w-]*)"', path.read_text()))


def test_many_are_found() -> None:
    assert len(OURS) > 40
    assert len({each.document for each in OURS}) > 8


@pytest.mark.parametrize("shown", OURS, ids=lambda shown: f"{shown.document}: {shown.text}")
def test_a_command_and_its_flags_are_there(shown: Shown) -> None:
    assert shown.program is not None
    word, rest = shown.program
    if word.startswith("-"):
        return
    assert word in {each.word for each in commands.PROGRAMS}
    flags = [each for each in rest if each.startswith("--") and ELLIPSIS not in each[:3]]
    names = {re.split("[= ]", each[2:].removesuffix(ELLIPSIS))[0] for each in flags}
    known = flags_of()[word] | (flags_of()["train"] if word in ("launch", "sweep") else set())
    assert names <= known | {f"no{name}" for name in known}


@pytest.mark.parametrize(
    "shown",
    [each for each in OURS if each.program and each.program[0] == "train" and each.is_block],
    ids=lambda shown: f"{shown.document}: {shown.text}",
)
def test_a_training_would_be_taken(shown: Shown) -> None:
    assert shown.program is not None
    words = [each for each in shown.program[1] if ELLIPSIS not in each]
    values = train._define()
    command_line.parse(values, ["train", *words])
    with contextlib.suppress(FileNotFoundError):
        experiment.read(values)


def test_other_programs_are_known() -> None:
    blocks = [each for each in documented.all_shown() if each.is_block and not each.program]
    first = {each.words[0] for each in blocks}
    inside = {"pip", "ruff", "mypy", "ps-dqn", "k8s/e2e/run-on-kind"}
    assert first <= OTHERS | inside


def test_scripts_of_documents_have_the_flags_that_are_shown() -> None:
    found = 0
    for document in documented.DOCUMENTS:
        text = " ".join(document.read_text().split())
        for path, rest in re.findall(r"python ((?:benchmarks|docs)/\w+\.py)([^`|:;]*)", text):
            known = flags_of_benchmark(ROOT / path)
            names = set(re.findall(r"--([a-z][\w-]*)", rest.split("```")[0]))
            names = {name.removeprefix("no-") for name in names}
            others = flags_of()["train"]  # some hand them on
            assert names <= known | others, f"{document.name}: python {path}"
            found += 1
    assert found > 15


def test_help_of_the_command_is_as_shown() -> None:
    code = "import sys; sys.argv = ['ps-dqn', '--help']; import ps_dqn.commands as it; it.main()"
    said = run_python(["-c", code], ROOT)
    assert said.returncode == 0, said.stderr
    text = (ROOT / "README.md").read_text()
    for line in said.stdout.splitlines():
        assert line.rstrip() in text


SHORT = (
    *("--num_workers=1", "--num_envs=4", "--total_env_steps=200", "--eval_period=200"),
    *("--eval_episodes=1", "--confirm_episodes=0", "--max_eval_steps=50"),
)
# Of runs with replay: what rollouts learn from is as long as they are.
LITTLE = ("--local_updates=2", "--min_replay_size=64", "--replay_capacity=1000", "--batch_size=8")


@pytest.mark.slow
def test_trainings_of_the_documents_train(tmp_path: pathlib.Path) -> None:
    documented.folder_of_examples(tmp_path)
    (tmp_path / "support").symlink_to(ROOT / "tests" / "support")
    done = set()
    for shown in OURS:
        # `test_documented_paths` has those of the others, each started as users start it.
        if not shown.is_training or shown.document in documented.FOLLOWED:
            continue
        _, words = shown.program or ("", [])
        text = shown.text
        words = [each for each in words if not each.startswith("--run_dir")]
        if (key := " ".join(words)) in done:
            continue
        done.add(key)
        folder = tmp_path / f"run-{len(done)}"
        # Whose workers are as many as its actors and learners.
        shared = "ape_x" in text or ",seed" in text or "topology=" in text
        given = {each.partition("=")[0] for each in words}
        little = [each for each in LITTLE if each.partition("=")[0] not in given]
        little += ["--num_envs=8"] if shared else []
        short = (*SHORT[shared:], f"--run_dir={folder}", *([] if "=a3c" in text else little))
        ended = warm.run_python(["-m", "ps_dqn.coordinator", *words, *short], tmp_path)
        assert ended.returncode == 0, f"{shown.text}\n{ended.stdout}{ended.stderr}"
        shutil.rmtree(folder)
    assert len(done) > 5


@pytest.mark.slow
def test_examples_of_the_documents_run(tmp_path: pathlib.Path) -> None:
    documented.folder_of_examples(tmp_path)
    ran = subprocess.run(
        [sys.executable, "inventory.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    shown = (ROOT / "docs/your-environment.md").read_text()
    for line in ran.stdout.splitlines():
        assert line in shown


@pytest.mark.parametrize(
    "shown",
    # Where a package is missing, in the documents, the tests have it.
    [each for each in documented.all_shown() if each.refused and "pip install" not in each.refused],
    ids=lambda shown: f"{shown.document}: {shown.text}",
)
def test_a_command_is_refused_as_shown(shown: Shown, tmp_path: pathlib.Path) -> None:
    words = shown.words
    assert words[0] == "ps-dqn"
    program = pathlib.Path(sys.executable).with_name("ps-dqn")  # where it was installed to
    ran = subprocess.run(
        [program, *words[1:]], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert ran.returncode == 2
    assert ran.stderr.strip() == shown.refused
    assert list(tmp_path.iterdir()) == []
