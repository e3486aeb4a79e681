"""What is read of files of transitions, and what is refused."""

import contextlib
import dataclasses
import pathlib

import numpy as np
import pytest
from support.shown import SPEC, Arrays, file_of, save

from ps_dqn.errors import UsageError
from ps_dqn.replay import demonstrations
from ps_dqn.replay.demonstration_files import read
from ps_dqn.replay.rows import TERMINATED, TRUNCATED

MASKED = dataclasses.replace(SPEC, has_masks=True)


def test_names_of_gymnasium_and_d4rl_are_known(tmp_path: pathlib.Path) -> None:
    arrays = file_of()
    arrays["terminals"], arrays["timeouts"] = arrays.pop("terminated"), arrays.pop("truncated")
    plain = str(save(tmp_path / "plain.npz", file_of()))
    renamed = str(save(tmp_path / "renamed.npz", arrays))
    one, other = read(plain, SPEC), read(renamed, SPEC)
    assert (one.ends == other.ends).all()
    assert set(one.ends.tolist()) == {0, TERMINATED, TRUNCATED}


def test_it_is_described_for_people(tmp_path: pathlib.Path) -> None:
    path = save(tmp_path / "shown.npz", file_of())
    said = demonstrations.describe(read(str(path), SPEC))
    assert said == (
        "15 transitions of 5 episodes, whose returns are 6.0 to 135.0, 60.8 in the mean"
    )


def without(name: str) -> Arrays:
    arrays = file_of()
    del arrays[name]
    return arrays


REFUSED = {
    "no rewards": (without("rewards"), "has no array rewards, but observations, actions"),
    "a short array": (
        {**file_of(), "rewards": np.zeros(3)},
        "rewards has the shape (3,), and there are 15 actions",
    ),
    "another environment's": (
        {**file_of(), "observations": np.zeros((15, 5))},
        "observations are of the shape (5,), and those of the environment are 2, kept as (2,)",
    ),
    "real actions": (
        {**file_of(), "actions": np.zeros(15)},
        "actions are float64 of the shape (15,): numbers of actions, counted from 0",
    ),
    "too many actions": (
        {**file_of(), "actions": np.full(15, 3)},
        "step 0 has the action 3, and the environment has 3, counted from 0",
    ),
    "nan": (
        {**file_of(), "rewards": np.array([0.0] * 14 + [np.nan])},
        "rewards of step 14 are not finite",
    ),
    "nothing known to follow": (
        {**without("next_observations"), "truncated": np.ones(15), "terminated": np.zeros(15)},
        "has no transition: no step says what it led to",
    ),
    "an action that is not allowed": (
        {**file_of(), "action_masks": np.eye(3)[[1] * 15]},
        "the action of step 0 is one that its action_masks do not allow",
    ),
    "rewards in columns": (
        {**file_of(), "rewards": np.zeros((15, 1))},
        "rewards has the shape (15, 1): one number for each step is needed",
    ),
    "one action for all": (
        {**file_of(), "actions": np.array(1)},
        "actions has the shape (): one number for each step",
    ),
    "text": ({**file_of(), "rewards": np.array(["1"] * 15)}, "rewards is <U1: numbers are needed"),
    "ends in words": (
        {**file_of(), "terminated": np.array(["False"] * 15)},
        "terminated is <U5: numbers are needed",
    ),
    "ends in other numbers": (
        {**file_of(), "terminated": np.full(15, np.nan)},
        "terminated of step 0 is nan: 0 or 1 is needed",
    ),
    "complex numbers": ({**file_of(), "rewards": np.full(15, 1j)}, "rewards is complex128"),
    "masks of other actions": (
        {**file_of(), "action_masks": np.ones((15, 4))},
        "action_masks are of the shape (4,), and there are 3 actions",
    ),
    "no step": ({name: each[:0] for name, each in file_of().items()}, "has no steps"),
}


@pytest.mark.parametrize(("arrays", "reason"), REFUSED.values(), ids=REFUSED)
def test_files_that_cannot_be_learned_from_are_refused(
    tmp_path: pathlib.Path, arrays: Arrays, reason: str
) -> None:
    path = save(tmp_path / "shown.npz", arrays)
    with pytest.raises(UsageError) as refused:
        read(str(path), MASKED if "action_masks" in arrays else SPEC)
    assert str(refused.value).startswith(f"--demonstrations={path}: ")
    assert reason in str(refused.value)


@pytest.mark.parametrize("content", [None, b"", b"words", b"PK\x03\x04words"])
def test_what_is_no_file_of_arrays_is_refused(
    tmp_path: pathlib.Path, content: bytes | None
) -> None:
    path = tmp_path / "shown.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read"):
        read(str(path), SPEC)


def test_an_array_alone_is_refused(tmp_path: pathlib.Path) -> None:
    with (tmp_path / "shown.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(UsageError, match="is one array alone"):
        read(str(tmp_path / "shown.npz"), SPEC)


def test_an_array_of_objects_is_not_unpickled(tmp_path: pathlib.Path) -> None:
    path = save(tmp_path / "shown.npz", {**file_of(), "actions": np.array([{}] * 15)})
    with pytest.raises(UsageError, match="cannot be read"):
        read(str(path), SPEC)


def test_masks_are_asked_for_where_the_environment_has_them(tmp_path: pathlib.Path) -> None:
    path = save(tmp_path / "shown.npz", file_of())
    with pytest.raises(UsageError, match="has no array action_masks, and the environment says"):
        read(str(path), MASKED)


def test_without_the_masks_of_what_followed_the_next_rows_are_it(tmp_path: pathlib.Path) -> None:
    arrays = {**file_of(), "action_masks": np.ones((15, 3))}
    steps = read(str(save(tmp_path / "shown.npz", arrays)), MASKED)
    assert steps.next_observations is None
    assert steps.masks is not None


def test_where_nothing_is_allowed_everything_is(tmp_path: pathlib.Path) -> None:
    arrays = {**file_of(), "action_masks": np.zeros((15, 3)), "next_action_masks": np.eye(3)[:1]}
    arrays["next_action_masks"] = np.repeat(arrays["next_action_masks"], 15, axis=0)
    steps = read(str(save(tmp_path / "shown.npz", arrays)), MASKED)
    assert steps.masks is not None
    assert steps.next_masks is not None
    assert steps.masks.all()
    assert steps.next_masks.sum() == 15


def test_an_episode_ends_where_the_next_row_is_not_what_followed(tmp_path: pathlib.Path) -> None:
    arrays = file_of()
    told = read(str(save(tmp_path / "told.npz", arrays)), SPEC)
    del arrays["truncated"]
    found = read(str(save(tmp_path / "untold.npz", arrays)), SPEC)
    assert found.ends.tolist() == told.ends.tolist()


def test_what_does_not_fit_into_bytes_is_refused(tmp_path: pathlib.Path) -> None:
    bytes_ = dataclasses.replace(SPEC, observation_dtype=np.dtype(np.uint8))
    arrays = file_of()
    arrays["observations"] = (arrays["observations"] + 300).astype(np.uint16)
    with pytest.raises(UsageError, match="are uint16, and those of the environment are uint8"):
        read(str(save(tmp_path / "shown.npz", arrays)), bytes_)


def test_a_damaged_file_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "shown.npz"
    np.savez_compressed(path, **file_of())  # type: ignore[arg-type]
    whole = path.read_bytes()
    for place in range(60, len(whole), 97):
        path.write_bytes(whole[:place] + b"\x55\xaa\x55" + whole[place + 3 :])
        with contextlib.suppress(UsageError):  # nothing else is raised
            read(str(path), SPEC)


def test_numbers_are_kept_as_the_environments(tmp_path: pathlib.Path) -> None:
    bytes_ = dataclasses.replace(SPEC, observation_dtype=np.dtype(np.uint8))
    path = str(save(tmp_path / "shown.npz", file_of()))  # of int64, all of which are bytes
    assert read(path, bytes_).observations.dtype == np.uint8
    assert read(path, SPEC).observations.dtype == np.float32
