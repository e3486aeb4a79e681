"""The commands that the documents show, read from their blocks."""

import pathlib
import re
import shlex
from typing import NamedTuple

from ps_dqn import commands
from support.programs import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "k8s/README.md"]
DOCUMENTS += [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
# Those whose commands are done one after the other, each with what the last one has left.
FOLLOWED = ("commands.md", "distillation.md", "export.md", "looking.md", "pruning.md")
FOLLOWED += ("running.md", "watching.md", "your-environment.md")
# Those that start the tasks of several machines.
CLUSTERS = ("README.md", "all-reduce.md", "ape-x.md", "seed.md")
# What makes a training short, whatever it is of.
SHORT = (
    *("--num_workers=1", "--num_envs=4", "--local_updates=2", "--min_replay_size=64"),
    *("--replay_capacity=1000", "--batch_size=8", "--eval_episodes=1", "--confirm_episodes=0"),
    *("--total_env_steps=400", "--eval_period=200"),
)
# What stands for a package of the reader's.
MY_ENV = """
from gymnasium.envs.classic_control import CartPoleEnv as Corridor
from support.wrapped import Doubled as Scaled
"""
# In the way of reading a command as a program would be given it.
ELLIPSIS = "…"
_BLOCK = re.compile(r"^ *```console\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`((?:ps-dqn|python -m ps_dqn[\w.]*) [^`]+)`")
_VARIABLE = re.compile(r'^(\w+)="([^"]*)"$')


class Shown(NamedTuple):
    """A command of a document."""

    document: str
    text: str  # as a shell has it
    is_block: bool  # a line by itself, which people copy
    refused: str = ""  # with which error

    @property
    def words(self) -> list[str]:
        """Its words after variables and the path of an environment were taken away."""
        words = shlex.split(self.text, comments=True)
        while words and re.fullmatch(r"\w+=.*", words[0]):
            words = words[1:]
        return [words[0].removeprefix(".venv/bin/"), *words[1:]] if words else []

    @property
    def program(self) -> tuple[str, list[str]] | None:
        """The word of `ps-dqn` that it is of, and what follows; None: it is of another program."""
        words = self.words
        if words[:1] == ["ps-dqn"]:
            return (words[1], words[2:]) if len(words) > 1 else None
        if words[:2] == ["python", "-m"] and words[2].startswith("ps_dqn"):
            if words[2] == "ps_dqn":
                return (words[3], words[4:]) if len(words) > 3 else None
            modules = {each.module: each.word for each in commands.PROGRAMS}
            return modules.get(words[2], words[2]), words[3:]
        return None

    @property
    def is_training(self) -> bool:
        """A training that needs nothing else: neither other machines nor files."""
        word, _ = self.program or ("", [])
        needs = (ELLIPSIS, "_hosts=", "--demonstrations=")
        is_alone = not self.refused and not any(each in self.text for each in needs)
        return self.is_block and word == "train" and is_alone


def all_shown() -> list[Shown]:
    """Every command of every document."""
    found = []
    for path in DOCUMENTS:
        text = path.read_text()
        for block in _BLOCK.findall(text):
            found += [Shown(path.name, *line) for line in _lines(block)]
        plain = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        for inline in _INLINE.findall(plain):
            found.append(Shown(path.name, " ".join(inline.split()), False))
    return found


def _lines(block: str) -> list[tuple[str, bool, str]]:
    """The commands of a block: all lines, or those behind a prompt where there is one."""
    lines = re.sub(r"\\\n\s*", "", block).splitlines()
    has_prompts = any(line.strip().startswith("$ ") for line in lines)
    found, variables = [], {}
    for line, following in zip(map(str.strip, lines), [*lines[1:], ""], strict=True):
        if has_prompts and not line.startswith("$ "):
            continue
        text = line.removeprefix("$ ")
        if match := _VARIABLE.match(text):
            variables[match[1]] = match[2]
        elif text and not text.startswith("#"):
            for name, value in variables.items():
                text = text.replace(f"${name}", value)
            refused = following.strip() if following.strip().startswith("error:") else ""
            found += [(each.strip(), True, refused) for each in text.split(" && ")]
    return found


def folder_of_examples(folder: pathlib.Path) -> None:
    """Puts what the documents' commands import or read beside where they run."""
    for path in (ROOT / "docs").glob("*.py"):
        (folder / path.name).write_text(path.read_text())
    (folder / "my_package").mkdir()
    (folder / "my_package" / "my_env.py").write_text(MY_ENV)
