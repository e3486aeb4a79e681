"""The Python that the documents show, run: shortened where it trains, and beside what it needs."""

import json
import pathlib
import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from support import documented, warm
from support.documented import SHORT
from support.processes import Processes
from support.programs import ROOT, environment_of_python

# What `SHORT` is for, as options of `train`.
OPTIONS = "num_envs=4, local_updates=2, min_replay_size=64, eval_episodes=1, confirm_episodes=0"
OPTIONS += ", total_env_steps=2000, eval_period=400"


def blocks(document: pathlib.Path, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), re.M | re.S)


def do(folder: pathlib.Path, *words: str, expect: int = 0) -> str:
    """Does it there; what it said."""
    ended = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment_of_python() | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == expect, f"{words}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def train(folder: pathlib.Path, *words: str) -> None:
    ended = warm.run_python(["-m", "ps_dqn", "train", *SHORT, *words], folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.slow
def test_of_the_readme(tmp_path: pathlib.Path) -> None:
    [code] = blocks(ROOT / "README.md")
    code = code.replace('train("CartPole-v1"', f'train("CartPole-v1", {OPTIONS}')
    said = do(tmp_path, "-c", f"observation = [0.0] * 4\n{code}\nprint(action in (0, 1))")
    assert said.endswith("True\n")


@pytest.mark.slow
def test_of_training_from_python(tmp_path: pathlib.Path) -> None:
    begins, stops = blocks(ROOT / "docs/python.md")
    # Whatever is learned in so little is good enough.
    code = (begins + stops).replace("> 400", "> 0")
    code = code.replace('train("CartPole-v1"', f'train("CartPole-v1", {OPTIONS}')
    code = code.replace("run.outcome  #", "assert run.outcome == 'stopped'  #")
    assert "stopped'  # 'stopped'" in code
    do(tmp_path, "-c", f"{code}\nassert run.outcome == 'finished', run.outcome")
    [shown] = blocks(ROOT / "docs/python.md", "pycon")
    calls = re.findall(r"^>>> (.*)\nps_dqn\.errors\.UsageError: (.*)$", shown, re.M)
    assert len(calls) == shown.count("\n") / 2
    for call, message in calls:
        code = f"from ps_dqn import train\ntry:\n    {call}\nexcept Exception as error:\n"
        # What the run's own process says comes before it.
        assert do(tmp_path, "-c", f"{code}    print(error)").splitlines()[-1] == message


@pytest.mark.thorough
def test_of_a_policy_and_of_its_files(tmp_path: pathlib.Path) -> None:
    train(tmp_path, "--run_dir=cart", "--hidden_sizes=64,64")
    acts, remembers, *of_files = blocks(ROOT / "docs/export.md")
    do(tmp_path, "-c", acts + remembers)
    forms = ["keras", "litert", "onnx", "npz"]
    for form, code in zip(forms, of_files, strict=True):
        output = f"--output=out/{form}"
        do(tmp_path, "-m", "ps_dqn", "export", "cart", f"--format={form}", output)
        # This one is beside its file.
        folder = tmp_path / "out" / form if form == "npz" else tmp_path
        said = do(folder, "-c", code)
        assert ("array([" in said) == ("print" in code)


@pytest.mark.slow
def test_of_what_answers_over_http(tmp_path: pathlib.Path, processes: Processes) -> None:
    train(tmp_path, "--run_dir=cart")
    shown = [each.words for each in documented.all_shown() if each.document == "export.md"]
    [serves] = [words for words in shown if words[:2] == ["python", "docs/serve.py"]]
    assert serves[2:] == ["cart", "8765"]
    served = processes.start(str(ROOT / "docs/serve.py"), str(tmp_path / "cart"), "0")
    address = served.line_with("acts in CartPole-v1").split()[0]
    questions = [words for words in shown if words[0] == "curl"]
    assert [[*words[:2], words[3]] for words in questions] == [["curl", "-d", "localhost:8765"]] * 3
    answers = re.findall(r'^\{".*\}$', (ROOT / "docs/export.md").read_text(), re.M)
    for words, shown_answer in zip(questions, map(json.loads, answers), strict=True):
        try:
            with urllib.request.urlopen(address, words[2].encode(), timeout=240) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            found = json.load(error)
            error.close()
        if "error" in shown_answer:
            assert found == shown_answer
        else:
            # Which actions these are is another run's.
            assert [str(each) for each in found] == ["action"]
            assert isinstance(found["action"], list) == isinstance(shown_answer["action"], list)


@pytest.mark.thorough
def test_of_demonstrations(tmp_path: pathlib.Path) -> None:
    [code] = blocks(ROOT / "docs/demonstrations.md")
    do(tmp_path, "-c", code)
    shown = [each for each in documented.all_shown() if each.document == "demonstrations.md"]
    programs = [each.program for each in shown if each.is_block and each.program]
    assert [word for word, _ in programs] == ["train", "train"]
    for i, (_, words) in enumerate(programs):
        little = [each for each in SHORT if "--offline" not in words or "replay" not in each]
        do(tmp_path, "-m", "ps_dqn", "train", *words, *little, f"--run_dir={i}")
    # Of what workers kept, as the text has it.
    train(tmp_path, "--replay_files", "--run_dir=runs/my_run")
    [words] = [each.program[1] for each in shown if each.program and not each.is_block]
    do(tmp_path, "-m", "ps_dqn", "demonstrations", *words)
    assert (tmp_path / "kept.npz").exists()


@pytest.mark.slow
def test_of_a_network_of_ones_own(tmp_path: pathlib.Path) -> None:
    code = next(each for each in blocks(ROOT / "docs/learning.md") if "my_net" in each)
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "my_net.py").write_text(code)
    train(tmp_path, "--network=my_package.my_net:build", "--run_dir=mine")


@pytest.mark.slow
def test_of_the_shop(tmp_path: pathlib.Path) -> None:
    documented.folder_of_examples(tmp_path)
    train(tmp_path, "--env_id=inventory:Shop", "--run_dir=runs/shop")
    [code] = blocks(ROOT / "docs/your-environment.md")
    assert re.fullmatch(r"order \d+\n", do(tmp_path, "-c", code))
