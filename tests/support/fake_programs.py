"""Programs in the place of others: they write down how they are called, and give made answers."""

import json
import pathlib
import sys
from typing import Any

_PROGRAM = """#!{python} -SEs
import json, pathlib, sys
folder = pathlib.Path({folder!r})
words = [{name!r}, *sys.argv[1:]]
with (folder / "calls").open("a") as file:
    file.write(json.dumps(words) + "\\n")
for answer in json.loads((folder / "answers").read_text()):
    if all(word in words for word in answer["words"]):
        sys.stdout.write(answer["says"])
        sys.stderr.write(answer["complains"])
        sys.exit(answer["code"])
"""


class FakePrograms:
    """For whoever has their folder on PATH."""

    def __init__(self, folder: pathlib.Path, *names: str):
        """Puts programs with these names into a folder, which is made."""
        self.folder, self._answers = folder, list[dict[str, Any]]()
        folder.mkdir()
        for name in names:
            program = folder / name
            program.write_text(
                _PROGRAM.format(python=sys.executable, folder=str(folder), name=name)
            )
            program.chmod(0o755)
        (folder / "calls").touch()
        self.answer("kubectl", "version", says=json.dumps({"kustomizeVersion": "v5.5.0"}, indent=2))

    def answer(self, *words: str, says: str = "", complains: str = "", code: int = 0) -> None:
        """What they do where these words are in a command; what is said later counts."""
        answer = {"words": words, "says": says, "complains": complains, "code": code}
        self._answers.insert(0, answer)
        (self.folder / "answers").write_text(json.dumps(self._answers))

    def has(self, kinds: str, objects: list[dict[str, Any]]) -> None:
        """Kubectl finds these objects where it is asked for these kinds."""
        says = json.dumps({"kind": "List", "items": objects})
        self.answer("kubectl", "get", kinds, says=says)

    def calls(self) -> list[str]:
        """The commands, without the questions about versions."""
        lines = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        return [" ".join(words) for words in lines if "version" not in words]


class FakeKubectl(FakePrograms):
    """kubectl alone."""

    def __init__(self, folder: pathlib.Path):
        """Puts it into a folder, which is made."""
        super().__init__(folder, "kubectl")

    def calls(self) -> list[str]:
        """Its arguments at each call."""
        return [call.removeprefix("kubectl ") for call in super().calls()]
