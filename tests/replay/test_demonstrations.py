"""Transitions of a file, against what the file's rows say in a loop over them.

`support/shown.py` says what they observe.
"""

import dataclasses
import pathlib
from typing import Any

import numpy as np
import pytest
from support.shown import EPISODES, FRAMES, SPEC, Arrays, file_of, save, seen

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError
from ps_dqn.replay import demonstrations
from ps_dqn.replay.batch import Transitions
from ps_dqn.replay.plan import make_memory
from ps_dqn.replay.rows import CONTINUES, TERMINATED, TRUNCATED

GAMMA, UPDATES, BATCH = 0.5, 4, 256


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
    path = save(tmp_path / "shown.npz", arrays)
    options = {"demonstrations": str(path), "offline": True, "gamma": GAMMA, "local_updates": 8}
    config = Config.from_values({**options, **values})
    return make_memory(config, spec, np.random.default_rng(0), None)


@pytest.mark.parametrize("replay", ["uniform", "prioritized"])
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


def test_stacks_move_on_where_nobody_says_what_came(tmp_path: pathlib.Path) -> None:
    arrays = file_of(frames=2, follows=False)
    batch = memory_of(tmp_path, arrays, FRAMES, frame_stack=2, n_step=1).sample(UPDATES, BATCH)
    assert isinstance(batch, Transitions)
    drawn = {tuple(map(int, each[-1])) for each in batch.observations.reshape(-1, 2, 2)}
    assert drawn == expected(1, follows=False).keys()


@pytest.mark.parametrize("follows", [True, False])
def test_what_is_no_sliding_stack_is_told_by_its_step(follows: bool) -> None:
    arrays = file_of(frames=2, follows=follows)
    ends = np.where(arrays["terminated"], TERMINATED, CONTINUES)
    ends[arrays["truncated"]] = TRUNCATED
    following = arrays["next_observations"] if follows else None
    rows = arrays["actions"], arrays["rewards"], ends, following
    demonstrations.check_stacks(demonstrations.Steps(arrays["observations"], *rows), 2)
    alone = [each if each is None else each[:1] for each in (arrays["observations"], *rows)]
    demonstrations.check_stacks(demonstrations.Steps(*alone), 2)
    arrays["observations"][7, 0] += 1
    with pytest.raises(UsageError, match="--frame_stack=2: what step 6 of the demonstrations led"):
        demonstrations.check_stacks(demonstrations.Steps(arrays["observations"], *rows), 2)


def test_one_long_episode_makes_no_room_for_many() -> None:
    lengths = [1] * 63 + [1000]
    ends = np.cumsum(lengths)
    found = [
        demonstrations.Episode(slice(end - length, end), TERMINATED, np.zeros(1))
        for end, length in zip(ends.tolist(), lengths, strict=True)
    ]
    rings = demonstrations.rings_of(found)
    assert len(rings) == 1
    assert sum(map(len, rings)) == 64


def test_rewards_are_clipped_as_those_of_the_environment(tmp_path: pathlib.Path) -> None:
    batch = memory_of(tmp_path, file_of(), n_step=1, reward_clip=2.0).sample(UPDATES, BATCH)
    assert set(batch.returns.ravel().tolist()) == {0, 1, 2}


def test_masks_are_those_of_the_steps_and_of_what_they_led_to(tmp_path: pathlib.Path) -> None:
    arrays = file_of()
    times, after = arrays["observations"][:, 1], arrays["next_observations"][:, 1]
    arrays["action_masks"] = allowed(times) | (arrays["actions"][:, None] == np.arange(3))
    arrays["next_action_masks"] = allowed(after)
    spec = dataclasses.replace(SPEC, has_masks=True)
    batch = memory_of(tmp_path, arrays, spec, n_step=1).sample(UPDATES, BATCH)
    assert isinstance(batch, Transitions)
    taken = batch.actions[..., None] == np.arange(3)
    assert (batch.masks == allowed(batch.observations[..., 1]) | taken).all()
    goes_on = batch.discounts > 0
    # Of an episode that goes on they are the next row's, which allow what was done there.
    forbidden = allowed(batch.next_observations[..., 1]) & ~batch.next_masks
    assert not forbidden[goes_on].any()
    assert not batch.next_masks[goes_on].all()


def allowed(times: np.ndarray) -> np.ndarray:
    return (times[..., None] + np.arange(3)) % 2 == 0
