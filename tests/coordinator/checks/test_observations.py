"""Options about observations of some kind, where there are none."""

from typing import Any

import numpy as np
import pytest

from ps_dqn.config import Config
from ps_dqn.coordinator.checks import observations
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.environments.parts import Part
from ps_dqn.errors import UsageError

IMAGE = EnvironmentSpec((12, 10, 2), np.dtype(np.uint8), 3, None)
VECTOR = EnvironmentSpec((4,), np.dtype(np.float32), 3, None)
FRAMES = EnvironmentSpec((4, 12, 10), np.dtype(np.uint8), 3, None)
VECTORS = EnvironmentSpec((3, 4), np.dtype(np.float32), 3, None)
PARTS = EnvironmentSpec(
    (240,), np.dtype(np.uint8), 3, None, parts=(Part("view", (12, 10, 2), np.dtype(np.uint8)),)
)


def check(environment: EnvironmentSpec, **values: Any) -> None:
    observations.check(Config.from_values(values), environment)


@pytest.mark.parametrize(
    ("environment", "values", "said"),
    [
        (
            IMAGE,
            {"normalize_observations": "on"},
            "--normalize_observations=on: has no effect, the observations have no quantities "
            "(12×10×2): leave it out",
        ),
        (
            VECTOR,
            {"random_shift": 4},
            "--random_shift=4: is for images, height × width × channels, or stacks of them, and "
            "observations here are 4: leave it out",
        ),
        (PARTS, {"random_shift": 4}, "--random_shift=4: is for images"),
        (VECTORS, {"random_shift": 2}, "--random_shift=2: is for images"),
        (FRAMES, {"random_shift": 10}, "--random_shift=10: would shift images of 12×10 out of"),
        (
            IMAGE,
            {"random_shift": 10},
            "--random_shift=10: would shift images of 12×10 out of sight; say a tenth of that or "
            "less",
        ),
        (
            VECTOR,
            {"network": "nature"},
            "--network=nature: is for images, and observations here have the shape (4,): use "
            "--network=mlp",
        ),
        (FRAMES, {"network": "nature"}, "--network=nature: needs images of at least 36x36 pixels"),
        (PARTS, {"network": "nature"}, "--network=nature: is for images, and no part of the"),
    ],
)
def test_what_would_do_nothing_is_refused(
    environment: EnvironmentSpec, values: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        check(environment, **values)
    assert str(caught.value).startswith(said)


def test_what_has_an_effect_is_not() -> None:
    check(IMAGE, random_shift=9)
    check(FRAMES, random_shift=9)
    check(VECTOR, normalize_observations=True)
    check(FRAMES, network="impala")
    check(PARTS, network="minatar")
    check(VECTOR, network="mine:build")
    for environment in (IMAGE, VECTOR, PARTS):
        check(environment)
