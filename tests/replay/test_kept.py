"""What workers kept in files, as transitions; `support/replay_files.py` says what it shows."""

import pathlib

import numpy as np
import pytest
from support.replay_files import feed, make

from ps_dqn import demonstrations
from ps_dqn.config.capacity import Item
from ps_dqn.errors import UsageError
from ps_dqn.replay import kept
from ps_dqn.replay.rows import TERMINATED, TRUNCATED, Rows


def ended(folder: pathlib.Path, **changes: object) -> None:
    """A replay of two environments: one that wrapped around, one whose episodes ended."""
    replay = make(folder, **changes)
    feed(replay, range(100, 135))
    feed(replay, range(10, 14), env=1, end=TERMINATED)
    replay.write(Rows.of_observations(np.array([1]), np.full((1, 1), 14, np.float32)))
    feed(replay, range(20, 23), env=1, end=TRUNCATED)
    replay.write(Rows.of_observations(np.array([1]), np.full((1, 1), 23, np.float32)))
    replay.close()


@pytest.mark.parametrize("item", [Item(1), Item(3), Item(2, 2, 4, 5)], ids=["1", "3", "sequences"])
def test_all_transitions_are_read_in_order(tmp_path: pathlib.Path, item: Item) -> None:
    ended(tmp_path, item=item)
    for _ in range(2):  # reading changes nothing
        found = kept.transitions(tmp_path)
        numbers = [*range(115, 134), *range(10, 14), *range(20, 23)]
        assert found["observations"].ravel().tolist() == numbers
        assert found["next_observations"].ravel().tolist() == [each + 1 for each in numbers]
        assert found["actions"].tolist() == [each % 5 for each in numbers]
        assert found["rewards"].tolist() == [each / 4 for each in numbers]
        assert [numbers[i] for i in np.flatnonzero(found["terminated"])] == [13]
        assert [numbers[i] for i in np.flatnonzero(found["truncated"])] == [133, 22]
        assert "action_masks" not in found


def test_masks_are_read_too(tmp_path: pathlib.Path) -> None:
    replay = make(tmp_path, mask_size=3)
    for time in range(6):
        envs, nothing = np.arange(2), np.zeros(2)
        masks = np.tile(np.arange(3) == time % 3, (2, 1))
        observations = np.full((2, 1), time, np.float32)
        there = np.ones(2, np.bool_)
        replay.write(Rows(envs, observations, nothing, nothing, nothing, there, masks=masks))
    replay.close()
    found = kept.transitions(tmp_path)
    times = found["observations"].ravel().astype(int)
    assert (found["action_masks"].argmax(axis=1) == times % 3).all()
    assert (found["next_action_masks"].argmax(axis=1) == (times + 1) % 3).all()


def test_a_replay_in_use_is_left_alone(tmp_path: pathlib.Path) -> None:
    replay = make(tmp_path)
    with pytest.raises(UsageError, match="another process keeps its replay there"):
        kept.transitions(tmp_path)
    replay.close()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 99, "signature": {}}'])
def test_what_is_no_replay_is_refused_and_left(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / "layout.json").write_text(text)
    with pytest.raises(UsageError, match=r"is no replay|of another format"):
        kept.transitions(tmp_path)
    assert (tmp_path / "layout.json").read_text() == text


def test_a_replay_that_is_not_whole_is_refused_and_left(tmp_path: pathlib.Path) -> None:
    ended(tmp_path)
    actions = tmp_path / "actions.bin"
    actions.write_bytes(actions.read_bytes()[:-4])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for _ in range(2):
        with pytest.raises(UsageError, match=r"has a actions\.bin of a wrong size"):
            kept.transitions(tmp_path)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_replays_of_several_environments_are_not_mixed(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for source in ("Pong", "Breakout"):
        ended(tmp_path / source, source=source)
    with pytest.raises(SystemExit) as left:
        demonstrations.main(["", f"--input={tmp_path}", f"--output={tmp_path / 'kept.npz'}"])
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert "has replays of several environments, or of other --env_wrappers or another" in said


def test_the_command_makes_one_file_of_all(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for worker in ("a-worker-0", "a-worker-1"):
        ended(tmp_path / "run" / "workers" / worker / "replay")
    output = tmp_path / "kept.npz"
    assert demonstrations.main(["", f"--input={tmp_path / 'run'}", f"--output={output}"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{output}: 52 transitions"
    with np.load(output) as found:
        assert found["actions"].shape == (52,)
        assert found["truncated"].sum() == 4


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--input=nowhere", "--output=kept.npz"), "--input=nowhere: there is no replay below it"),
        (("--input=run", "--output=kept"), "--output=kept: name the .npz file to write"),
        (("--output=kept.npz",), "--input=: there is no replay below it"),
        (("--input=run", "--output=taken/kept.npz"), "--output=taken/kept.npz: cannot be written"),
        (("--inputs=run",), "there is no such flag"),
    ],
)
def test_mistakes_are_refused_in_one_line(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").touch()
    ended(tmp_path / "run")
    with pytest.raises(SystemExit) as left:
        demonstrations.main(["", *words])
    assert left.value.code == 2
    assert reason in capsys.readouterr().err
