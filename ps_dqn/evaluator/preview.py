"""A small film of an episode, which a browser shows as a picture."""

import pathlib

import numpy as np

SUFFIX = ".gif"
# As large as this at most: what is wider is made smaller (pixels), and of what is longer frames are
# left out.
WIDTH, FRAMES = 320, 200
_FRAME_SECONDS = 0.1


class Preview:
    """Keeps frames of an episode while it is played."""

    def __init__(self) -> None:
        """Has none yet."""
        from PIL import Image

        self._image = Image
        self._frames: list[Image.Image] = []
        self._seen, self._every = 0, 1  # frames; of how many one is kept

    def add(self, frame: np.ndarray) -> None:
        """Takes the next frame, uint8 [height, width, 3]."""
        if self._seen % self._every == 0:
            picture = self._image.fromarray(frame)
            picture.thumbnail((WIDTH, picture.height))
            self._frames.append(picture)
        self._seen += 1
        if len(self._frames) > FRAMES:
            self._frames, self._every = self._frames[::2], 2 * self._every

    def save(self, path: pathlib.Path) -> None:
        """Writes it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        first, *others = self._frames
        milliseconds = round(1000 * _FRAME_SECONDS)
        first.save(path, save_all=True, append_images=others, duration=milliseconds, loop=0)
