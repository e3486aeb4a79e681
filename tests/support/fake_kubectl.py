"""A program in kubectl's place: it writes down how it is called and gives answers made for it."""

import json
import pathlib
import sys
from typing import Any

_PROGRAM = """#!{python} -SEs
import json, pathlib, sys
folder = pathlib.Path({folder!r})
with (folder / "calls").open("a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
for answer in json.loads((folder / "answers").read_text()):
    if all(word in sys.argv for word in answer["words"]):
        sys.stdout.write(answer["says"])
        sys.stderr.write(answer["complains"])
        sys.exit(answer["code"])
"""


class FakeKubectl:
    """kubectl for whoever has its folder on PATH."""

    def __init__(self, folder: pathlib.Path):
        """Puts it into a folder, which is made."""
        self.folder, self._answers = folder, list[dict[str, Any]]()
        folder.mkdir()
        program = folder / "kubectl"
        program.write_text(_PROGRAM.format(python=sys.executable, folder=str(folder)))
        program.chmod(0o755)
        (folder / "calls").touch()
        self.answer("version", says=json.dumps({"kustomizeVersion": "v5.5.0"}, indent=2))

    def answer(self, *words: str, says: str = "", complains: str = "", code: int = 0) -> None:
        """What it does where these words are among its arguments; what is said later counts."""
        answer = {"words": words, "says": says, "complains": complains, "code": code}
        self._answers.insert(0, answer)
        (self.folder / "answers").write_text(json.dumps(self._answers))

    def has(self, kinds: str, objects: list[dict[str, Any]]) -> None:
        """It finds these objects where it is asked for these kinds."""
        self.answer("get", kinds, says=json.dumps({"kind": "List", "items": objects}))

    def calls(self) -> list[str]:
        """How it was called, without the questions about its version."""
        lines = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        return [" ".join(words) for words in lines if "version" not in words]
