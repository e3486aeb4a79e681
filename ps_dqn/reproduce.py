"""Makes an environment's failure again: `python -m ps_dqn.reproduce FILE`.

A worker whose environment fails writes down how it was made, its seed and the actions since.
"""

import json
import pathlib
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from ps_dqn import user_code
from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, naming
from ps_dqn.run.signals import FAILED, WRONG_USAGE


def main(argv: Sequence[str]) -> int:
    """0: it failed again; 1: it did not; 2: the file cannot be used."""
    if len(argv) != 2 or argv[1].startswith("-"):
        called = naming.this_program("python -m ps_dqn.reproduce")
        print(f"{called} FILE: makes an environment's failure again, from its file.")
        return 0 if command_line.asks_for_help(argv) else WRONG_USAGE
    try:
        content = _read(pathlib.Path(argv[1]))
        env = _make(content)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG_USAGE
    print(f"{content['env_id']}: {content['kind']}: {content['error']}")
    steps = 0
    try:
        for seed, actions in _episodes(content):
            env.begin(seed)
            for action in actions:
                steps += 1
                env.act(action)
    except user_code.FAILURES as error:  # whatever an environment's own code raises
        traceback.print_exception(error.__cause__ or error)
        print(f"it failed again, after {steps:,} steps: {error}")
        return 0
    print(f"it did not fail in {steps:,} steps: it depends on more than the seed and the actions")
    return FAILED


class _Env:
    """An environment whose failures are raised."""

    def __init__(self, content: dict[str, Any]):
        from ps_dqn.environments import single
        from ps_dqn.environments.guard import Guard

        self._guard = Guard(single.make(content), content, "")

    def begin(self, seed: int | None) -> None:
        """Begins an episode."""
        observation, info = self._guard.env.reset(seed=seed)
        self._guard.check(observation, info)

    def act(self, action: int) -> None:
        """Acts once."""
        observation, reward, _, _, info = self._guard.env.step(action)
        self._guard.check(observation, info, reward)


def _episodes(content: dict[str, Any]) -> list[tuple[int | None, list[int]]]:
    """Of each episode the seed, where it was said, and the actions."""
    seeds = [content["seed"], *[None] * (len(content["episodes"]) - 1)]
    return list(zip(seeds, content["episodes"], strict=True))


def _read(path: pathlib.Path) -> dict[str, Any]:
    from ps_dqn.environments.guard import FORMAT, NOT_KEPT  # not for --help

    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']}, not {FORMAT}")
        episodes = content["episodes"]
        if not all(isinstance(action, int) for actions in episodes for action in actions):
            raise ValueError("its actions are no numbers")
        _ = content["env_id"], content["env_kwargs"], content["kind"], content["error"]
        _ = content["env_module"], content["env_wrappers"], int(content["seed"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: cannot be read ({user_code.one_line(error)})") from None
    if not episodes:
        raise UsageError(f"{path}: {NOT_KEPT}")
    return content


def _make(content: dict[str, Any]) -> _Env:
    module = content["env_module"]
    if module:
        user_code.import_module(f"its module {module}", module)
    try:
        return _Env(content)
    except UsageError:
        raise
    except user_code.FAILURES as error:  # whatever an environment's own code raises
        raise UsageError(
            f"{content['env_id']}: cannot be made ({user_code.with_place(error)})"
        ) from error


if __name__ == "__main__":
    command_line.run_main(main)
