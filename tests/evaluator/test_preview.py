"""The small form of a film."""

import pathlib

import imageio.v3 as imageio
import numpy as np
import pytest

from ps_dqn.evaluator import preview
from ps_dqn.evaluator.preview import Preview


@pytest.mark.parametrize(("frames", "kept"), [(1, 1), (200, 200), (201, 101), (1000, 125)])
def test_of_a_long_film_frames_are_left_out(frames: int, kept: int, tmp_path: pathlib.Path) -> None:
    small, path = Preview(), tmp_path / "new" / "small.gif"
    for number in range(frames):
        small.add(np.full((20, 640, 3), number % 256, np.uint8))
    small.save(path)
    read = imageio.imread(path, index=None)
    assert read.shape[0] <= preview.FRAMES
    assert read.shape == (kept, 10, 320, 3)
    levels = read[:, 0, 0, 0].astype(int)
    step = -(-frames // kept) if frames > 1 else 1
    np.testing.assert_allclose(levels, np.arange(kept) * step % 256, atol=3)
