"""Shows how a saved policy plays: in a window, or in a film with its Q-values beside it."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.environments import rendering
from ps_dqn.environments.interface import Interface
from ps_dqn.evaluator.checkpoint_player import CheckpointPlayer
from ps_dqn.evaluator.preview import Preview
from ps_dqn.networks import inputs
from ps_dqn.policy import loading
from ps_dqn.run.checkpoints import Checkpoint
from ps_dqn.worker.calls import Playing

_PANEL = 260  # width of the Q-values (pixels)
_ROW, _MOST_ROWS = 18, 24  # height of one of them, and how many are drawn at most
_BACKGROUND, _FOREGROUND = (24, 24, 28), (220, 220, 220)
_BAR, _BEST = (70, 110, 160), (220, 140, 40)


class Episode(NamedTuple):
    """One that was played."""

    episode_return: float
    length: int  # environment steps


class Viewer:
    """The environment and the network of a run, to be looked at."""

    def __init__(
        self,
        config: Config,
        video: pathlib.Path | None,
        draws_values: bool,
        preview: pathlib.Path | None = None,
        interface: Interface | None = None,
    ):
        """Makes them.

        Args:
            config: of the run.
            video: the film to write; None: a window is opened.
            draws_values: the Q-values of what is shown are drawn beside it.
            preview: a small film to write beside it.
            interface: of the run; None: its folder has none.

        Raises:
            UsageError: the environment cannot be shown that way, or is not the run's any more.
        """
        mode = rendering.WINDOW if video is None else rendering.ARRAY
        self._looks = rendering.looks(config.environment.in_evaluations, mode)
        shown = dataclasses.replace(config, environment=self._looks.config)
        self._player = CheckpointPlayer(shown, 1, 0, interface)
        self._video, self._draws_values, self._preview = video, draws_values, preview

    def show(
        self, checkpoint: Checkpoint, episodes: int, seed: int, hear: Callable[[Episode], None]
    ) -> None:
        """Plays episodes one after the other.

        Args:
            checkpoint: of the run.
            episodes: how many.
            seed: of the first; each one after it has the next.
            hear: is told of each that has ended.
        """
        loading.check_size(self._player.network, checkpoint)
        self._player.network.assign(checkpoint.state.average)
        with contextlib.closing(self._player), self._writing() as write:
            for episode in range(episodes):
                length = -1
                for playing in self._player.steps(checkpoint, seed + episode):
                    length += 1
                    if self._video is not None:
                        write(self._frame(playing))
                hear(Episode(float(self._player.returns[0]), length))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Callable[[np.ndarray], None]]:
        """What takes the frames of a film."""
        if self._video is None:
            yield lambda _: None
            return
        import imageio.v2 as imageio

        rate = self._looks.frames_per_second
        self._video.parent.mkdir(parents=True, exist_ok=True)
        options: dict[str, Any] = {"fps": rate, "macro_block_size": 2}
        if self._video.suffix == ".gif":
            options = {"duration": 1000 / rate, "loop": 0}
        made: Any = imageio.get_writer(self._video, mode="I", **options)
        preview, path = Preview(), self._preview

        def write(frame: np.ndarray) -> None:
            writer.append_data(_even(frame))
            if path is not None:
                preview.add(frame)

        with made as writer:
            yield write
        if path is not None:
            preview.save(path)

    def _frame(self, playing: Playing) -> np.ndarray:
        environments = self._player.environments
        if self._looks.draws:
            frame = environments.render()
        else:
            axes = environments.spec.image_axes
            assert axes is not None
            frame = rendering.as_picture(playing.observations[0], axes)
        if not self._draws_values:
            return frame
        values = self._values(playing)
        title = "logits" if self._player.network.has_policy else "Q-values"
        masks = np.asarray(playing.masks)
        allowed = masks[0] if masks.shape[1] == len(values) else None
        return beside(frame, values, self._looks.action_names, title, allowed)

    def _values(self, playing: Playing) -> np.ndarray:
        """What actions are chosen by in what is acted on, float [A]."""
        model, spec = self._player.network.as_keras(), self._player.environments.spec
        given: Any = inputs.given(tf.constant(playing.observations), spec)
        if playing.state.shape[1]:
            return model([given, tf.constant(playing.state)])[0].numpy()[0]
        return model(given).numpy()[0]


def beside(
    frame: np.ndarray,
    values: np.ndarray,
    names: tuple[str, ...] = (),
    title: str = "Q-values",
    allowed: np.ndarray | None = None,
) -> np.ndarray:
    """A frame with a bar for each value at its right, the largest in another colour.

    Args:
        frame: uint8 [height, width, 3].
        values: float [A]; of many, the largest are drawn.
        names: of the actions.
        title: what the values are.
        allowed: the actions that may be taken, bool [A]: others, of which nothing is learned, have
            no bar. None: all.

    Returns:
        uint8 [height, width, 3], higher than the frame where there is no room for all bars.
    """
    from PIL import Image, ImageDraw

    ranks = np.argsort(-values, kind="stable")
    ranks = ranks if allowed is None else ranks[allowed[ranks]]
    shown, ranked = np.sort(ranks[:_MOST_ROWS]), values[ranks]
    height = max(frame.shape[0], _ROW * (len(shown) + 1))
    picture = Image.new("RGB", (frame.shape[1] + _PANEL, height), _BACKGROUND)
    picture.paste(Image.fromarray(frame), (0, 0))
    draw = ImageDraw.Draw(picture)
    left, low, best = frame.shape[1] + 8, float(ranked[-1]), int(ranks[0])
    span = max(float(ranked[0]) - low, 1e-9)
    draw.text((left, 2), title, fill=_FOREGROUND)
    for row, action in enumerate(shown, start=1):
        top = row * _ROW
        name = names[action] if names else f"action {action}"
        draw.text((left, top + 2), name[:14], fill=_FOREGROUND)
        # The smallest has a short bar, so that it is seen that there is one.
        length = 4 + round(76 * (float(values[action]) - low) / span)
        colour = _BEST if action == best else _BAR
        draw.rectangle((left + 94, top + 4, left + 94 + length, top + _ROW - 5), fill=colour)
        draw.text((left + 182, top + 2), f"{values[action]:.3f}", fill=_FOREGROUND)
    return np.asarray(picture)


def _even(frame: np.ndarray) -> np.ndarray:
    """Films have even heights and widths."""
    missing = [(0, size % 2) for size in frame.shape[:2]]
    return np.pad(frame, [*missing, (0, 0)], mode="edge")
