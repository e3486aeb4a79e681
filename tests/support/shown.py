"""Files of transitions. Observations are [episode, time], the reward is 10 · episode + time."""

import dataclasses
import pathlib
from typing import Any

import numpy as np

from ps_dqn.environments import EnvironmentSpec

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


def save(path: pathlib.Path, arrays: Arrays) -> pathlib.Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path
