"""The clusters of several machines that the documents have, all of their tasks on this one."""

import pathlib
import re

import pytest
from support import documented, processes
from support.tiers import tiered

from ps_dqn.cluster import ports

# The flag that names where the tasks of each command are.
PLACES = {"ps": "ps_hosts", "replay": "replay_hosts", "worker": "worker_hosts"}
PLACES |= {"actor": "actor_hosts"}
ADDRESS = re.compile(r"(?<=[=,])[\w.]+:\d+")
# As many workers as the command has, some environments for each.
SHORT = ("--num_envs=8", *documented.SHORT[2:])


def commands_of(document: str) -> list[tuple[str, list[str]]]:
    """Its commands that name tasks elsewhere, the coordinator's last."""
    shown = [each for each in documented.all_shown() if each.document == document]
    found = [each.program for each in shown if each.is_block and "_hosts=" in each.text]
    return [each for each in found if each]


def value(words: list[str], name: str) -> str:
    """Of a flag; empty where it is not said."""
    return next((each.partition("=")[2] for each in words if each.startswith(f"--{name}=")), "")


def tasks_not_shown(commands: list[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    """What readers start besides: those of the last command's addresses that have no command."""
    *shown, (_, words) = commands
    hosts = [each for each in words if each.partition("=")[0].endswith(("_host", "_hosts"))]
    there = {(role, value(mine, "task_index") or "0") for role, mine in shown}
    wanted = [
        (role, str(i))
        for role, flag in PLACES.items()
        for i in range(len(ADDRESS.findall(f"={value(words, flag)}")))
    ]
    return [(role, [*hosts, f"--task_index={i}"]) for role, i in wanted if (role, i) not in there]


@pytest.mark.parametrize("document", tiered(documented.CLUSTERS, slow=("README.md", "ape-x.md")))
def test_a_cluster_trains(document: str, tmp_path: pathlib.Path) -> None:
    commands = commands_of(document)
    assert [word for word, _ in commands].index("train") == len(commands) - 1
    text = " ".join(word for _, words in commands for word in words)
    here = {
        place: f"localhost:{ports.reserved_port()}"
        for place in dict.fromkeys(ADDRESS.findall(text))
    }
    with processes.gone_at_the_end() as started:
        for word, words in [*tasks_not_shown(commands), *commands]:
            words = [ADDRESS.sub(lambda found: here[found[0]], each) for each in words]
            # Tasks that share a machine cannot share a port.
            if value(words, "all_reduce_port"):
                words.append(f"--all_reduce_port={ports.reserved_port()}")
            words = [each.replace("=/data", f"={tmp_path / 'data'}") for each in words]
            if word == "train":
                given = {each.partition("=")[0] for each in words}
                words += [each for each in SHORT if each.partition("=")[0] not in given]
                words.append(f"--run_dir={tmp_path / 'run'}")
            running = started.start("-m", "ps_dqn", word, *words)
        assert running.ended(400) == 0, running.text
