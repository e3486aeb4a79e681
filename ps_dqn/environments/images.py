"""Whether observations are images that convolutions can read; known before there is a network.

Shapes: H height, W width, C channels, k frames.
"""

from ps_dqn.environments.parts import Part
from ps_dqn.environments.specification import EnvironmentSpec, image_axes
from ps_dqn.errors import UsageError

# Least height and width of an image: what the convolutions without padding leave one pixel of.
LEAST = {"nature": 36, "minatar": 3, "impala": 1}


def check(network: str, environment: EnvironmentSpec) -> None:
    """Refuses convolutions of what is no image, or of one that is too small.

    Args:
        network: its name; one without convolutions reads anything.
        environment: what is observed.

    Raises:
        UsageError: with what is observed, and what to use instead.
    """
    if network not in LEAST:
        return
    if not environment.parts:
        _check_shape(network, environment.observation_shape)
    elif not any(is_image(network, part) for part in environment.parts):
        raise UsageError(
            f"--network={network}: is for images, and no part of the observations here is one that "
            f"is large enough ({environment.describe_observation()}): use --network=mlp"
        )


def is_image(network: str, part: Part) -> bool:
    """Whether a part of an observation goes through a network's convolutions."""
    if network not in LEAST or part.categories or len(part.shape) not in (2, 3):
        return False
    return min(channels_last(part.shape)[:2]) >= LEAST[network]


def channels_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """What shape [H, W, C] an image of two to four axes becomes."""
    if len(shape) == 2:
        return (*shape, 1)
    if len(shape) == 4:
        frames, height, width, channels = shape
        return (height, width, frames * channels)
    return (*shape[1:], shape[0]) if image_axes(shape) == (1, 2) else shape


def _check_shape(network: str, shape: tuple[int, ...]) -> None:
    if len(shape) not in (2, 3, 4):
        raise UsageError(
            f"--network={network}: is for images, and observations here have the shape {shape}: "
            f"use --network=mlp"
        )
    height, width, _ = channels_last(shape)
    if min(height, width) < LEAST[network]:
        smaller = "" if network == "minatar" else "--network=minatar or "
        raise UsageError(
            f"--network={network}: needs images of at least {LEAST[network]}x{LEAST[network]} "
            f"pixels, and observations of the shape {shape} are {height}x{width}: use {smaller}"
            f"--network=mlp"
        )
