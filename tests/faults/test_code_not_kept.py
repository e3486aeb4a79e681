"""Compiled code that cannot be written or read costs a run nothing but the time to compile."""

import json
import pathlib
import sys

import pytest
from support.compiled import DIRECTORY
from support.processes import Processes, Running

from ps_dqn.run import compile_cache

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]
FLAGS = ("--num_workers=2", "--total_env_steps=1500", "--eval_episodes=1", "--seed=0")
SAID = "workers begin again, and compile for themselves, as a closure failed ({})"


def run(processes: Processes, folder: pathlib.Path, *flags: str, **environment: str) -> Running:
    words = ("-m", "ps_dqn.coordinator", f"--run_dir={folder}", *FLAGS, *flags)
    running = processes.start(*words, HOME=str(folder.parent), XDG_CACHE_HOME="", **environment)
    assert running.ended() == 0, running.text
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["reason"] == "finished"
    assert summary["updates"] > 0
    processes.all_gone(15)
    return running


@pytest.mark.parametrize("flags", [(), ("--restart",)], ids=["spawned", "forked"])
def test_a_folder_that_cannot_be_written_when_it_is_needed(
    processes: Processes, tmp_path: pathlib.Path, flags: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    # A user's own folder is not looked at before.
    where = f"{DIRECTORY}{tmp_path / 'file' / 'folder'} --tf_xla_persistent_cache_device_types=CPU"
    running = run(processes, tmp_path / "run", *flags, TF_XLA_FLAGS=where)
    assert running.count(SAID.format(f"{tmp_path / 'file'} is not a directory")) == 1, running.text


def test_a_damaged_file_that_is_too_young_for_a_checksum(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    run(processes, tmp_path / "first", TF_XLA_FLAGS="")
    for file in tmp_path.glob(f".cache/ps_dqn/xla-*/{compile_cache.WHOLE}"):
        code = file.read_bytes()
        file.write_bytes(code[: len(code) // 2] + bytes(len(code) - len(code) // 2))
        file.with_name(f"{compile_cache.SEAL}{file.name}").unlink()
    running = run(processes, tmp_path / "second", TF_XLA_FLAGS="")
    failed = "Failed to parse serialized CpuAotCompilationResult."
    assert running.count(SAID.format(failed)) == 1, running.text
