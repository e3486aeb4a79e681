"""Environments that can be looked at: what they draw, or else the images that they observe."""

import contextlib
import dataclasses
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from ps_dqn.config import Environment
from ps_dqn.environments import making
from ps_dqn.errors import UsageError

WINDOW, ARRAY = "human", "rgb_array"
_FRAMES_PER_SECOND = 30
# An image that is observed is enlarged to this height at the least (pixels).
_LEAST_HEIGHT = 320
# What says that there is a screen, on Linux; SDL, which draws most windows, takes the last.
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")


class Looks(NamedTuple):
    """How an environment is looked at."""

    config: Environment  # makes one that renders, if any does
    frames_per_second: float
    action_names: tuple[str, ...]  # in their order; none: they have no names
    draws: bool  # itself; otherwise what it observes is shown


def require_packages(flag: str) -> None:
    """Refuses a flag that makes films where the packages for that are missing.

    Raises:
        UsageError: with the flag.
    """
    if not all(map(importlib.util.find_spec, ("imageio", "imageio_ffmpeg"))):
        raise UsageError(f'{flag}: a package is missing: pip install "ps-dqn[video]"')


def require_display() -> None:
    """Refuses a window where there is no screen: SDL may end the process without a word.

    Raises:
        UsageError: with what to say instead.
    """
    if sys.platform == "linux" and not any(map(os.environ.get, _DISPLAYS)):
        raise UsageError(
            f"no display here for a window ({', '.join(_DISPLAYS[:-1])} and {_DISPLAYS[-1]} are "
            f"not set): say --video=film.mp4"
        )


def looks(config: Environment, mode: str) -> Looks:
    """How an environment can be looked at.

    Args:
        config: of evaluations.
        mode: `WINDOW` or `ARRAY`.

    Raises:
        UsageError: not that way.
    """
    modes, metadata, names = _metadata(config)
    # Gymnasium makes a window for whatever gives an array.
    if ARRAY in modes or mode in modes:
        kwargs = json.loads(config.env_kwargs) | {"render_mode": mode}
        config = dataclasses.replace(config, vectorization="sync", env_kwargs=json.dumps(kwargs))
        return Looks(config, metadata.get("render_fps") or _FRAMES_PER_SECOND, names, True)
    listed = ", ".join(modes) or "none"
    if mode == ARRAY and making.describe(config).image_axes is not None:
        return Looks(config, _FRAMES_PER_SECOND, names, False)
    hint = ": say --video=film.mp4" if making.describe(config).image_axes is not None else ""
    raise UsageError(
        f"--env_id={config.env_id}: cannot be shown, its render modes are {listed}, and {mode} is "
        f"needed{hint}"
    )


@contextlib.contextmanager
def drawn(env_id: str) -> Iterator[None]:
    """Refuses, of what environments draw with in a block, what is missing or finds no screen.

    Raises:
        UsageError: with the environment and what to do.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, gymnasium.error.DependencyNotInstalled):
            hint = 'pip install "ps-dqn[video]" has what Gymnasium\'s own draw with'
        elif type(error).__module__.partition(".")[0] == "pygame":
            hint = "--video=film.mp4 needs no screen"
        else:
            raise
        raise UsageError(f"--env_id={env_id}: cannot be drawn ({error}): {hint}") from None


def _metadata(config: Environment) -> tuple[list[str], dict[str, Any], tuple[str, ...]]:
    """Render modes, all that one environment says of itself, and the names of its actions."""
    single = dataclasses.replace(config, vectorization="sync")
    metadata: dict[str, Any] = {}
    try:
        if config.vectorization != "envpool":
            made: Any = making.make_vector(single, 1)
            with contextlib.closing(made) as env:
                metadata, names = dict(env.get_attr("metadata")[0]), _names(env)
                spec = making.specification.of(env, config.branching)
            if spec.observation_shape != making.describe(config).observation_shape:
                return [], metadata, names  # a policy cannot act in what draws
            return metadata.get("render_modes", []), metadata, names
    except UsageError:
        pass  # it has a vector form only, or one of other arguments
    return [], metadata, ()


def _names(env: Any) -> tuple[str, ...]:
    try:
        [names] = env.call("get_action_meanings")
    except AttributeError:
        return ()
    is_whole = len(names) == making.specification.actions_of(env).n
    return tuple(map(str, names)) if is_whole else ()


def as_picture(observation: np.ndarray, axes: tuple[int, int]) -> np.ndarray:
    """The newest frame of an image that is observed, for people: uint8 [height, width, 3].

    Args:
        observation: one, as it is stored.
        axes: of its height and width.
    """
    while axes[0] > 0:  # frames are stacked before them: the last is the newest
        observation, axes = observation[-1], (axes[0] - 1, axes[1] - 1)
    if observation.dtype != np.uint8:
        scale = 255.0 / max(float(observation.max()), 1e-9)
        observation = (np.clip(observation.astype(np.float32), 0, None) * scale).astype(np.uint8)
    if observation.ndim == 2:
        observation = observation[:, :, np.newaxis]
    if observation.shape[2] not in (1, 3):  # planes of things, as MinAtar has them
        observation = observation.max(axis=2, keepdims=True)
    picture = np.broadcast_to(observation, (*observation.shape[:2], 3))
    times = max(-(-_LEAST_HEIGHT // picture.shape[0]), 1)
    return np.kron(picture, np.ones((times, times, 1), np.uint8))
