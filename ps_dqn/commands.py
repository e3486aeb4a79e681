"""One command for all programs: `ps-dqn train …` is `python -m ps_dqn.coordinator …`."""

import contextlib
import importlib
import importlib.util
import os
import signal
import sys
from typing import NamedTuple, NoReturn

from ps_dqn import __version__
from ps_dqn.cluster import streams
from ps_dqn.flags import naming


class Program(NamedTuple):
    """A word of the command."""

    word: str
    module: str  # with a function main(argv) -> exit code; or a package whose __main__ has it
    summary: str
    group: str


TRAIN, AFTER, TASKS, SHELL = "Train", "Look at runs and use them", "Tasks of a cluster", "This tool"
PROGRAMS = (
    Program("train", "ps_dqn.coordinator", "Train a deep Q-network, or go on with a run.", TRAIN),
    Program("presets", "ps_dqn.presets", "List the presets, or show what they say.", TRAIN),
    Program("sweep", "ps_dqn.sweep", "Train over settings and seeds, side by side.", TRAIN),
    Program("launch", "ps_dqn.launch", "Write a run's Kubernetes manifests; apply them.", TRAIN),
    Program("demonstrations", "ps_dqn.demonstrations", "Make demonstrations of a replay.", TRAIN),
    Program("runs", "ps_dqn.runs", "List runs: what they were and how they ended.", AFTER),
    Program("plot", "ps_dqn.plot", "Draw and tabulate runs over their seeds.", AFTER),
    Program("doctor", "ps_dqn.doctor", "Say what ails a run, and what to change.", AFTER),
    Program("evaluate", "ps_dqn.evaluator", "Play episodes with a run's checkpoint.", AFTER),
    Program("watch", "ps_dqn.watch", "Show how a policy plays: a window or a film.", AFTER),
    Program("export", "ps_dqn.export", "Write a run's network for other programs.", AFTER),
    Program("distill", "ps_dqn.distill", "Make a smaller network act as a run's does.", AFTER),
    Program("reproduce", "ps_dqn.reproduce", "Make an environment's failure again.", AFTER),
    Program("worker", "ps_dqn.worker", "Serve one worker task.", TASKS),
    Program("ps", "ps_dqn.parameter_server", "Serve one parameter-server task.", TASKS),
    Program("replay", "ps_dqn.replay_server", "Serve one replay-server task.", TASKS),
    Program("actor", "ps_dqn.actor", "Serve one actor task: environments alone.", TASKS),
    Program("completion", "ps_dqn.completion", "Print a script that completes words.", SHELL),
)


def main() -> NoReturn:
    """Runs the program that the command line's first word names; leaves with its exit code."""
    streams.begin()
    try:
        _run()
    except KeyboardInterrupt:  # a program that has begun takes it itself
        print("Ctrl-C came before the command had begun: it has ended", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)


def _run() -> NoReturn:
    # Takes seconds where the machine is busy, in which `main` hears of Ctrl-C.
    from ps_dqn.flags import command_line

    command = naming.this_program("python -m ps_dqn")
    first, *rest = sys.argv[1:] or ["--help"]
    if first in ("--help", "-h", "-help", "help"):
        command_line.answer(_help(command))
    if first == "--version":
        command_line.answer(f"ps-dqn {__version__}")
    program = {each.word: each for each in PROGRAMS}.get(first)
    if program is None:
        command_line.refuse(_unknown(command, first))
    sys.argv = [f"{command} {first}", *rest]
    # Environments of one's own are here, and come last: they may have names of other modules.
    with contextlib.suppress(FileNotFoundError):  # it is deleted: nothing can be imported from it
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
    command_line.run_main(importlib.import_module(entry(program.module)).main)


def entry(module: str) -> str:
    """The module that has a program's `main`."""
    spec = importlib.util.find_spec(module)
    is_package = spec is not None and spec.submodule_search_locations is not None
    return f"{module}.__main__" if is_package else module


def _help(command: str) -> str:
    lines = [
        f"{command} COMMAND [--flag=value …]",
        "",
        "A deep Q-network trainer on TensorFlow's parameter-server strategy.",
    ]
    width = max(len(each.word) for each in PROGRAMS)
    for group in dict.fromkeys(each.group for each in PROGRAMS):
        lines += ["", group]
        lines += [f"  {p.word:{width}}  {p.summary}" for p in PROGRAMS if p.group == group]
    lines += ["", f"{command} COMMAND --help says more; {command} --version says which this is."]
    return "\n".join(lines)


def _unknown(command: str, word: str) -> str:
    if word.startswith("-"):
        return f"{word}: say a command first, like {command} train {word}"
    near = naming.nearest(word, [each.word for each in PROGRAMS])
    return f"{command} {word}: there is no such command{near} {command} --help lists them"
