"""A replay in files that is opened again: after a close, a kill, or damage.

Observation i of an environment shows the number i and reward i is i/4; nothing ends unless a test
says so.
"""

import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest
from support.replay_files import feed, make

from ps_dqn.config.capacity import Item
from ps_dqn.errors import UsageError
from ps_dqn.replay.batch import Sequences, Transitions
from ps_dqn.replay.prioritized import Prioritized
from ps_dqn.replay.replay import Replay
from ps_dqn.replay.rows import TERMINATED, Rows

ROOT = pathlib.Path(__file__).parents[2]


def transitions(replay: Replay) -> dict[int, tuple[int, float, float, int]]:
    """Action, return, discount and next observation of all there are, by their observation."""
    drawn = replay.sample(1, 2000)
    assert isinstance(drawn, Transitions)
    fields = (drawn.actions, drawn.returns, drawn.discounts, drawn.next_observations)
    starts = drawn.observations[0, :, 0].astype(int).tolist()
    rows = zip(*(field[0].reshape(-1).tolist() for field in fields), strict=True)
    return dict(zip(starts, rows, strict=True))


def test_rows_are_there_again(tmp_path: pathlib.Path) -> None:
    replay = make(tmp_path)
    feed(replay, range(100, 135), env=0)
    feed(replay, range(500, 508), env=1)
    before = transitions(replay)
    replay.close()
    replay = make(tmp_path)
    assert transitions(replay) == before
    assert before.keys() == {*range(115, 134), *range(500, 507)}


def test_the_newest_row_is_where_the_episode_was_cut_off(tmp_path: pathlib.Path) -> None:
    replay = make(tmp_path, item=Item(3))
    feed(replay, range(8))
    replay.close()
    replay = make(tmp_path, item=Item(3))
    feed(replay, range(50, 60))
    found = transitions(replay)
    assert found.keys() == {*range(7), *range(50, 57)}
    # Row 6 is the last transition before: one reward, and row 7 its bootstrap state.
    assert found[6] == (1, 0.25 * 6, 0.5, 7)
    assert found[5] == (0, 0.25 * (5 + 0.5 * 6), 0.25, 7)
    assert found[4] == (4, 0.25 * (4 + 0.5 * 5 + 0.25 * 6), 0.125, 7)


def test_an_episode_that_had_ended_stays_as_it_was(tmp_path: pathlib.Path) -> None:
    replay = make(tmp_path)
    feed(replay, range(6), end=TERMINATED)
    feed(replay, range(6, 7))  # stands for the last observation
    replay.close()
    replay = make(tmp_path)
    feed(replay, range(50, 53))
    found = transitions(replay)
    assert found.keys() == {0, 1, 2, 3, 4, 5, 50, 51}
    assert found[5][2] == 0


def test_rows_of_several_lives_are_kept_apart(tmp_path: pathlib.Path) -> None:
    for life in range(12):
        replay = make(tmp_path)
        feed(replay, range(100 * life, 100 * life + 5))
        found = transitions(replay)
        # A life ends with a row that begins nothing; the ring of 20 rows has four of them.
        lives = range(max(life - 3, 0), life + 1)
        assert found.keys() == {100 * each + i for each in lives for i in range(4)}
        assert all(after == start + 1 for start, (_, _, _, after) in found.items())
        replay.close()


def test_one_row_is_too_little_to_go_on_from(tmp_path: pathlib.Path) -> None:
    replay = make(tmp_path)
    feed(replay, range(1))
    replay.close()
    replay = make(tmp_path)
    assert replay.size == 0
    feed(replay, range(10, 12))
    assert transitions(replay).keys() == {10}


def damage(folder: pathlib.Path, row: int, name: str = "rewards") -> None:
    with (folder / f"{name}.bin").open("r+b") as file:
        file.seek(4 * row)  # these columns have four bytes for each row
        file.write(b"torn")


def test_the_longest_run_of_whole_rows_is_kept(tmp_path: pathlib.Path) -> None:
    replay = make(tmp_path)
    feed(replay, range(26))  # rows 6 … 19 in their places, 20 … 25 before them
    replay.close()
    damage(tmp_path, 2)  # 22
    damage(tmp_path, 10)
    replay = make(tmp_path)
    assert transitions(replay).keys() == set(range(11, 21))
    assert replay.size == 10
    feed(replay, range(100, 103))
    assert transitions(replay).keys() == {*range(11, 21), 100, 101}


def test_rows_that_were_left_out_never_come_back(tmp_path: pathlib.Path) -> None:
    replay = make(tmp_path)
    feed(replay, range(19))
    replay.close()
    damage(tmp_path, 12)
    replay = make(tmp_path)
    feed(replay, range(100, 101))  # in the place of the damaged row: rows 13 … 18 come after it
    replay.close()
    replay = make(tmp_path)
    assert replay.size == 12
    assert transitions(replay).keys() == set(range(11))
    feed(replay, range(200, 203))
    assert transitions(replay).keys() == {*range(11), 200, 201}


KILLED = """
import os, signal, sys, pathlib
sys.path[:0] = [{root!r}, {tests!r}]
from support.replay_files import feed, make
replay = make(pathlib.Path({folder!r}))
feed(replay, range(1, 16))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_wrote_is_kept(tmp_path: pathlib.Path) -> None:
    tests = str(ROOT / "tests")
    program = KILLED.format(root=str(ROOT), tests=tests, folder=str(tmp_path))
    ended = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert transitions(make(tmp_path)).keys() == set(range(1, 15))


def test_no_two_replays_use_one_folder(tmp_path: pathlib.Path) -> None:
    replay = make(tmp_path)
    with pytest.raises(UsageError, match="another process"):
        make(tmp_path)
    replay.close()
    make(tmp_path).close()


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 21},
        {"num_envs": 1},
        {"observation_dtype": np.dtype(np.uint8)},
        {"state_size": 2},
        {"observation_shape": (1, 1), "frame_stack": 1},
    ],
)
def test_rows_of_another_layout_are_not_used(
    tmp_path: pathlib.Path, changes: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    replay = make(tmp_path)
    feed(replay, range(10))
    replay.close()
    assert capsys.readouterr().out == ""
    assert make(tmp_path, **changes).size == 0
    assert "another layout" in capsys.readouterr().out


def test_length_of_returns_and_discount_may_change(tmp_path: pathlib.Path) -> None:
    replay = make(tmp_path)
    feed(replay, range(10))
    replay.close()
    found = transitions(make(tmp_path, item=Item(2), gamma=0.1))
    assert found[3] == (3, pytest.approx(0.25 * (3 + 0.1 * 4)), pytest.approx(0.01), 5)


def test_priorities_are_there_again(tmp_path: pathlib.Path) -> None:
    replay = make(tmp_path, Prioritized(1.0, 1.0, 1e-9))
    feed(replay, range(9))
    drawn = replay.sample(1, 500)
    starts = drawn.observations[0, :, 0]
    replay.update_priorities((1 + starts[None]).astype(np.float32))
    replay.close()
    replay = make(tmp_path, Prioritized(1.0, 1.0, 1e-9))
    feed(replay, range(100, 103))
    drawn = replay.sample(1, 2000)
    shown = dict(zip(drawn.observations[0, :, 0].tolist(), drawn.weights[0].tolist(), strict=True))
    # β = 1: weights are 1/p, divided by the largest. The largest priority was that of row 7.
    expected = {i: 1 / (1 + i) for i in range(8)} | {100: 1 / 8, 101: 1 / 8}
    assert shown == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("arena_bytes", [0, 20_000])
def test_stacks_of_frames_are_there_again(tmp_path: pathlib.Path, arena_bytes: int) -> None:
    compressed = {"compression": "lz4", "arena_bytes": arena_bytes} if arena_bytes else {}

    def opened() -> Replay:
        dtype = np.dtype(np.uint8)
        changes = {"observation_shape": (3, 5), "observation_dtype": dtype, "frame_stack": 3}
        return make(tmp_path, **changes, **compressed)

    def play(replay: Replay, numbers: range) -> None:
        for i in numbers:
            stack = np.repeat(np.arange(i - 2, i + 1, dtype=np.uint8)[None, :, None], 5, axis=2)
            zero = np.zeros(1, np.int32)
            replay.write(Rows(zero, stack, zero, zero, zero, np.ones(1, np.bool_)))

    def stacks(replay: Replay) -> set[tuple[int, ...]]:
        drawn = replay.sample(1, 800)
        both = np.concatenate([drawn.observations[0], drawn.next_observations[0]], axis=1)
        return {tuple(each) for each in both[:, :, 0].tolist()}

    replay = opened()
    play(replay, range(10, 34))  # with the older frames of the first stack 26 rows of 20
    replay.close()
    replay = opened()
    kept = {(i - 2, i - 1, i, i - 1, i, i + 1) for i in range(16, 33)}
    assert stacks(replay) == kept
    for first in (50, 60):
        play(replay, range(first, first + 3))  # five rows each, which overwrite as many
        replay.close()
        replay = opened()
    kept = {each for each in kept if each[2] >= 26}
    new = (50, 51, 60, 61)
    assert stacks(replay) == kept | {(i - 2, i - 1, i, i - 1, i, i + 1) for i in new}


@pytest.mark.parametrize("name", ["observations", "actions", "rewards", "states"])
def test_a_row_is_whole_only_with_all_that_is_stored_of_it(
    tmp_path: pathlib.Path, name: str
) -> None:
    changes = {"item": Item(1, sequence_length=1), "state_size": 1}
    replay = make(tmp_path, **changes)
    feed(replay, range(1, 11), size=1)
    replay.close()
    damage(tmp_path, 3, name)
    assert make(tmp_path, **changes).size == 6 - 1  # rows 4 … 9, of which the last begins nothing


def test_sequences_and_their_states_are_there_again(tmp_path: pathlib.Path) -> None:
    changes = {"item": Item(1, 1, 3, 4), "state_size": 2}
    replay = make(tmp_path, **changes)
    feed(replay, range(1, 14), size=2)
    replay.close()
    replay = make(tmp_path, **changes)
    feed(replay, range(50, 55), size=2)
    drawn = replay.sample(1, 200)
    assert isinstance(drawn, Sequences)
    shown = {
        tuple(row): (tuple(starts), tuple(state))
        for row, starts, state in zip(
            drawn.observations[0, :, :, 0].astype(int).tolist(),
            drawn.starts[0].tolist(),
            drawn.states[0].tolist(),
            strict=True,
        )
    }
    assert shown == {
        (1, 2, 3, 4, 5): ((True, False, False, False, False), (1, 1)),
        (5, 6, 7, 8, 9): ((False,) * 5, (5, 5)),
        (9, 10, 11, 12, 13): ((False,) * 5, (9, 9)),
        (13, 50, 51, 52, 53): ((False, True, False, False, False), (13, 13)),
    }
