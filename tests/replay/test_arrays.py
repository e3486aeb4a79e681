"""The arrays of a replay: in memory, in files, and whatever is found in a folder."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from ps_dqn.errors import UsageError
from ps_dqn.replay import arrays as arrays_module
from ps_dqn.replay.arrays import Arrays

SIGNATURE = {"num_envs": 2, "shape": (84, 84), "dtype": "uint8"}


def fill(folder: pathlib.Path | None) -> Arrays:
    arrays = Arrays(folder, SIGNATURE)
    arrays.add("numbers", (4, 3), np.float32)[:] = np.arange(12).reshape(4, 3)
    arrays.add("flags", (4,), np.bool_)[:] = [True, False, True, True]
    return arrays


def leave(folder: pathlib.Path) -> None:
    """A folder with what a process left there."""
    fill(folder).close()


def is_new(arrays: Arrays) -> bool:
    numbers, flags = arrays.add("numbers", (4, 3), np.float32), arrays.add("flags", (4,), bool)
    return not arrays.was_there and not numbers.any() and not flags.any()


def test_arrays_in_memory_are_zeros_and_no_files(tmp_path: pathlib.Path) -> None:
    arrays = Arrays(None, SIGNATURE)
    array = arrays.add("numbers", (4, 3), np.float32)
    assert array.shape == (4, 3)
    assert array.dtype == np.float32
    assert not array.any()
    assert not arrays.was_there
    arrays.flush()
    arrays.close()


@pytest.mark.parametrize("in_files", [False, True])
def test_nbytes_counts_every_array(tmp_path: pathlib.Path, in_files: bool) -> None:
    arrays = fill(tmp_path if in_files else None)
    assert arrays.nbytes == 4 * 3 * 4 + 4


@pytest.mark.parametrize("in_files", [False, True])
def test_a_name_is_given_once(tmp_path: pathlib.Path, in_files: bool) -> None:
    arrays = fill(tmp_path if in_files else None)
    with pytest.raises(ValueError, match="flags"):
        arrays.add("flags", (4,), np.bool_)


def test_files_outlive_the_process(tmp_path: pathlib.Path) -> None:
    # Killed, not ended: nothing is flushed or closed.
    program = (
        "import os, pathlib, signal, numpy\n"
        "from ps_dqn.replay.arrays import Arrays\n"
        f"arrays = Arrays(pathlib.Path({str(tmp_path)!r}), {SIGNATURE!r})\n"
        "arrays.add('numbers', (4, 3), numpy.float32)[2] = 5\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert ran.returncode == -9, ran.stderr
    arrays = Arrays(tmp_path, SIGNATURE)
    assert arrays.was_there
    expected = np.zeros((4, 3), np.float32)
    expected[2] = 5
    np.testing.assert_array_equal(arrays.add("numbers", (4, 3), np.float32), expected)


def test_arrays_in_files_are_plain_arrays(tmp_path: pathlib.Path) -> None:
    # A memmap object makes every operation slower and its results memmaps.
    assert type(Arrays(tmp_path, SIGNATURE).add("numbers", (4, 3), np.float32)) is np.ndarray


def test_the_first_replay_in_a_folder_is_new(tmp_path: pathlib.Path, capsys) -> None:
    assert is_new(Arrays(tmp_path / "not" / "there", SIGNATURE))
    assert capsys.readouterr().out == ""


def test_what_was_there_is_there_again_silently(tmp_path: pathlib.Path, capsys) -> None:
    leave(tmp_path)
    arrays = Arrays(tmp_path, SIGNATURE)
    assert arrays.was_there
    np.testing.assert_array_equal(
        arrays.add("numbers", (4, 3), np.float32), np.arange(12).reshape(4, 3)
    )
    np.testing.assert_array_equal(arrays.add("flags", (4,), np.bool_), [True, False, True, True])
    assert capsys.readouterr().out == ""


def rewrite(folder: pathlib.Path, **changes: object) -> None:
    layout = json.loads((folder / "layout.json").read_text())
    (folder / "layout.json").write_text(json.dumps(layout | changes))


def shorten(folder: pathlib.Path) -> None:
    with (folder / "numbers.bin").open("r+b") as file:
        file.truncate(47)


DAMAGES = {
    "another signature": (lambda folder: rewrite(folder, signature={}), "another layout"),
    "another format": (lambda folder: rewrite(folder, format=0), "another format"),
    "no columns": (lambda folder: rewrite(folder, columns=None), "cannot be read"),
    "odd columns": (lambda folder: rewrite(folder, columns={"numbers": 3}), "cannot be read"),
    "no JSON": (lambda folder: (folder / "layout.json").write_text('{"form'), "cannot be read"),
    "no object": (lambda folder: (folder / "layout.json").write_text("[1]"), "cannot be read"),
    "no text": (lambda folder: (folder / "layout.json").write_bytes(b"\xff\0"), "cannot be read"),
    "missing file": (lambda folder: (folder / "flags.bin").unlink(), "has no flags.bin"),
    "wrong size": (shorten, "numbers.bin of a wrong size"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_files_that_cannot_be_used_are_removed_and_said_so(
    tmp_path: pathlib.Path, capsys, damage: str
) -> None:
    leave(tmp_path)
    (tmp_path / "leftover.bin").write_bytes(b"of an older layout")
    do, message = DAMAGES[damage]
    do(tmp_path)
    arrays = Arrays(tmp_path, SIGNATURE)
    [line] = capsys.readouterr().out.splitlines()
    assert message in line
    assert str(tmp_path) in line
    assert list(tmp_path.glob("*.bin")) == []
    assert is_new(arrays)
    arrays.close()
    again = Arrays(tmp_path, SIGNATURE)
    assert again.was_there


def test_a_folder_of_something_else_loses_nothing(tmp_path: pathlib.Path) -> None:
    (tmp_path / "firmware.bin").write_bytes(b"mine")
    assert is_new(Arrays(tmp_path, SIGNATURE))
    assert (tmp_path / "firmware.bin").read_bytes() == b"mine"


def test_an_array_of_another_shape_begins_anew(tmp_path: pathlib.Path) -> None:
    leave(tmp_path)
    arrays = Arrays(tmp_path, SIGNATURE)
    assert not arrays.add("numbers", (3, 4), np.float32).any()
    assert arrays.add("flags", (4,), np.bool_).any()


def test_two_processes_never_share_a_folder(tmp_path: pathlib.Path) -> None:
    arrays = fill(tmp_path)
    program = (
        "import pathlib, sys\n"
        "from ps_dqn.replay.arrays import Arrays\n"
        "from ps_dqn.errors import UsageError\n"
        "try:\n"
        f"    Arrays(pathlib.Path({str(tmp_path)!r}), {{}})\n"
        "except UsageError as error:\n"
        "    sys.exit(str(error))\n"
    )
    command = [sys.executable, "-c", program]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert f"{tmp_path}: another process" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    # The one that was refused changed nothing, and the next is let in.
    np.testing.assert_array_equal(np.fromfile(tmp_path / "flags.bin", np.bool_)[:2], [True, False])
    arrays.close()
    assert Arrays(tmp_path, SIGNATURE).was_there


def test_a_folder_that_cannot_be_made_is_a_usage_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file/replay: a replay cannot be kept there"):
        Arrays(tmp_path / "file" / "replay", SIGNATURE)


def test_a_full_disk_is_a_usage_error_at_once(tmp_path: pathlib.Path) -> None:
    arrays = Arrays(tmp_path, SIGNATURE)
    with pytest.raises(UsageError, match=r"numbers\.bin: 4,611,686,018,427,387,904 bytes"):
        arrays.add("numbers", (2**60,), np.float32)


def test_a_file_takes_its_place_on_the_disk_at_once(tmp_path: pathlib.Path) -> None:
    Arrays(tmp_path, SIGNATURE).add("numbers", (2**20,), np.float32)
    assert (tmp_path / "numbers.bin").stat().st_blocks * 512 >= 4 * 2**20


def test_the_format_has_a_number(tmp_path: pathlib.Path) -> None:
    leave(tmp_path)
    layout = json.loads((tmp_path / "layout.json").read_text())
    assert layout["format"] == arrays_module.FORMAT
    assert layout["signature"]["shape"] == [84, 84]
