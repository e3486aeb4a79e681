"""What was left to the program, in the run's flagfile: it is settled once.

Whoever reads the file, an evaluator say, has to build the same network. And another coordinator of
the same run, which may find a busier machine when it looks at the environment, goes on with what
tasks hold only where all of the experiment is the same.
"""

import contextlib
import dataclasses
import pathlib

from ps_dqn.config import Config
from ps_dqn.run import directory


def as_before(config: Config, said: str, folder: pathlib.Path) -> Config:
    """The experiment as another coordinator of the same run has settled it, if one has.

    Once there is a checkpoint the run's flagfile says so by itself; until then all is read from the
    command line again.

    Args:
        config: settled by this one.
        said: the flagfile as it was said.
        folder: of the run.
    """
    if "--overlap=auto" not in said.splitlines():
        return config
    with contextlib.suppress(OSError, ValueError):  # there is none, or it is something else
        before = (folder / directory.FLAGFILE).read_text(encoding="utf-8")
        for choice in ("on", "off"):
            options = dataclasses.replace(config.parameter_server, overlap=choice)
            other = dataclasses.replace(config, parameter_server=options)
            if flagfile(other, said)[0] == before:
                return other
    return config


def flagfile(config: Config, before: str) -> tuple[str, list[str]]:
    """A run's flagfile with what was settled, and what people should know.

    Args:
        config: the experiment, settled.
        before: the flagfile as it was said.
    """
    normalized = {
        "normalize_observations": config.network.normalize_observations,
        "normalize_returns": config.value.normalize_returns,
    }
    settled = {**normalized, "overlap": config.parameter_server.overlap}
    lines, told = before.splitlines(keepends=True), []
    for name, choice in settled.items():
        was_open, flag = f"--{name}=auto\n", f"--{name}={choice}"
        if was_open in lines and choice == "on" and name in normalized:
            told.append(flag)
        lines = [f"{flag}\n" if line == was_open else line for line in lines]
    if not told:
        return "".join(lines), []
    said = f"numbers of the environment are large, and are normalized ({', '.join(told)})"
    return "".join(lines), [said]
