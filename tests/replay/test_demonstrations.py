"""Transitions of a file, against what the file's rows say in a loop over them.

The observations are [episode, time], and the reward of a step is 10 · episode + time.
"""

import dataclasses
import pathlib
from typing import Any

import numpy as np
import pytest

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError
from ps_dqn.replay import demonstrations
from ps_dqn.replay.batch import Transitions
from ps_dqn.replay.plan import make_memory

GAMMA, UPDATES, BATCH = 0.5, 4, 256
# Steps of each episode and how it ended: "" was cut off by the end of the file.
EPISODES = ((4, "terminated"), (1, "terminated"), (6, "truncated"), (1, "truncated"), (3, ""))
SPEC = EnvironmentSpec((2,), np.dtype(np.float32), 3, reward_threshold=None)
FRAMES = dataclasses.replace(SPEC, observation_shape=(2, 2))

Arrays = dict[str, np.ndarray]


def file_of(frames: int = 1, follows: bool = True) -> Arrays:
    """Arrays of a file; `follows`: with what each step led to."""
    found: dict[str, list[Any]] = {
        name: [] for name in ("observations", "actions", "rewards", "terminated", "truncated")
    }
    led_to = []
    for episode, (length, end) in enumerate(EPISODES):
        for time in range(length):
            found["observations"].append(seen(episode, time, frames))
            led_to.append(seen(episode, time + 1, frames))
            found["actions"].append((episode + time) % 3)
            found["rewards"].append(10 * episode + time)
            found["terminated"].append(end == "terminated" and time == length - 1)
            found["truncated"].append(end == "truncated" and time == length - 1)
    if follows:
        found["next_observations"] = led_to
    return {name: np.array(each) for name, each in found.items()}


def seen(episode: int, time: int, frames: int) -> Any:
    stack = [(episode, max(time - back, 0)) for back in reversed(range(frames))]
    return stack if frames > 1 else stack[0]


def expected(n_step: int, follows: bool) -> dict[tuple[int, int], tuple[float, float, int]]:
    """Return, discount and time of the bootstrap state of each episode's times."""
    found = {}
    for episode, (length, end) in enumerate(EPISODES):
        # Nothing says what the last step of an episode that was cut off led to.
        last = length if follows or end == "terminated" else length - 1
        for time in range(last):
            until = min(time + n_step, last)
            rewards = [10 * episode + each for each in range(time, until)]
            total = sum(GAMMA**i * reward for i, reward in enumerate(rewards))
            is_over = end == "terminated" and until == last
            found[episode, time] = total, 0 if is_over else GAMMA ** (until - time), until
    return found


def memory_of(tmp_path: pathlib.Path, arrays: Arrays, spec: EnvironmentSpec = SPEC, **values: Any):
    path = tmp_path / "shown.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    options = {"demonstrations": str(path), "offline": True, "gamma": GAMMA, "local_updates": 8}
    config = Config.from_values({**options, **values})
    return make_memory(config, spec, np.random.default_rng(0), None)


@pytest.mark.parametrize("replay", ["uniform", "prioritized", "recent"])
@pytest.mark.parametrize("n_step", [1, 3, 9])
@pytest.mark.parametrize("follows", [True, False])
def test_every_transition_is_drawn_as_the_file_says(
    tmp_path: pathlib.Path, n_step: int, follows: bool, replay: str
) -> None:
    memory = memory_of(tmp_path, file_of(follows=follows), n_step=n_step, replay=replay)
    wanted = expected(n_step, follows)
    batch = memory.sample(UPDATES, BATCH)
    assert isinstance(batch, Transitions)
    assert memory.is_warm
    drawn = set()
    for i in np.ndindex(UPDATES, BATCH):
        episode, time = (int(each) for each in batch.observations[i])
        total, discount, until = wanted[episode, time]
        assert batch.returns[i] == pytest.approx(total)
        assert batch.discounts[i] == pytest.approx(discount)
        assert batch.actions[i] == (episode + time) % 3
        if discount:
            assert batch.next_observations[i].tolist() == [episode, until]
        drawn.add((episode, time))
    assert drawn == wanted.keys()
    assert (batch.demonstrated == 1).all()


@pytest.mark.parametrize("n_step", [1, 3])
def test_stacks_are_kept_frame_by_frame(tmp_path: pathlib.Path, n_step: int) -> None:
    memory = memory_of(tmp_path, file_of(frames=2), FRAMES, frame_stack=2, n_step=n_step)
    batch = memory.sample(UPDATES, BATCH)
    drawn = set()
    for i in np.ndindex(UPDATES, BATCH):
        episode, time = (int(each) for each in batch.observations[i][-1])
        total, _, until = expected(n_step, follows=True)[episode, time]
        assert batch.observations[i].tolist() == [list(each) for each in seen(episode, time, 2)]
        assert batch.returns[i] == pytest.approx(total)
        if batch.discounts[i]:
            following = [list(each) for each in seen(episode, until, 2)]
            assert batch.next_observations[i].tolist() == following
        drawn.add((episode, time))
    assert drawn == expected(n_step, follows=True).keys()


def test_rewards_are_clipped_as_those_of_the_environment(tmp_path: pathlib.Path) -> None:
    batch = memory_of(tmp_path, file_of(), n_step=1, reward_clip=2.0).sample(UPDATES, BATCH)
    assert set(batch.returns.ravel().tolist()) == {0, 1, 2}


def test_names_of_gymnasium_and_d4rl_are_known(tmp_path: pathlib.Path) -> None:
    arrays = file_of()
    arrays["terminals"], arrays["timeouts"] = arrays.pop("terminated"), arrays.pop("truncated")
    plain, renamed = tmp_path / "plain.npz", tmp_path / "renamed.npz"
    np.savez(plain, **file_of())  # type: ignore[arg-type]
    np.savez(renamed, **arrays)  # type: ignore[arg-type]
    for one, other in zip(
        demonstrations.read(plain, SPEC), demonstrations.read(renamed, SPEC), strict=True
    ):
        assert one is not None
        assert (one == other).all()


def test_it_is_described_for_people(tmp_path: pathlib.Path) -> None:
    np.savez(tmp_path / "shown.npz", **file_of())  # type: ignore[arg-type]
    said = demonstrations.describe(demonstrations.read(tmp_path / "shown.npz", SPEC))
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
        "observations are of the shape (5,), and those of the environment are 2",
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
    "one step": ({name: each[:1] for name, each in file_of().items()}, "has 1 steps"),
}


@pytest.mark.parametrize(("arrays", "reason"), REFUSED.values(), ids=REFUSED)
def test_files_that_cannot_be_learned_from_are_refused(
    tmp_path: pathlib.Path, arrays: Arrays, reason: str
) -> None:
    path = tmp_path / "shown.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    with pytest.raises(UsageError) as refused:
        demonstrations.read(path, SPEC)
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
        demonstrations.read(path, SPEC)


def test_an_array_alone_is_refused(tmp_path: pathlib.Path) -> None:
    with (tmp_path / "shown.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(UsageError, match="is one array alone"):
        demonstrations.read(tmp_path / "shown.npz", SPEC)


def test_an_array_of_objects_is_not_unpickled(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "shown.npz"
    np.savez(path, **{**file_of(), "actions": np.array([{}] * 15)})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="cannot be read"):
        demonstrations.read(path, SPEC)


def test_environments_whose_states_files_have_not_are_refused(tmp_path: pathlib.Path) -> None:
    np.savez(tmp_path / "shown.npz", **file_of())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="--action_masks=off does without"):
        demonstrations.read(tmp_path / "shown.npz", dataclasses.replace(SPEC, has_masks=True))
