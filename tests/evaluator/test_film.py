"""How a policy plays, for people: films of CartPole, a window that nobody sees, Q-values."""

import dataclasses
import pathlib
import subprocess
from typing import Any

import gymnasium
import imageio.v3 as imageio
import imageio_ffmpeg
import numpy as np
import pytest

from ps_dqn import environments, networks
from ps_dqn.config import Config
from ps_dqn.environments import rendering
from ps_dqn.errors import UsageError
from ps_dqn.evaluator import film, film_files
from ps_dqn.run.checkpoints import Checkpoint, Checkpoints
from ps_dqn.state import Counters, State

CONFIG = Config.from_values({"hidden_sizes": (8,), "env_id": "CartPole-v1"})


def saved(config: Config, folder: pathlib.Path) -> Checkpoint:
    """A run's only checkpoint, of a network that has learned nothing."""
    environment = environments.describe(config.environment)
    network = networks.build(config.network, config.value, environment, config.run.seed)
    vector = network.initial
    (folder / "checkpoints").mkdir()
    checkpoints = Checkpoints(folder / "checkpoints", keep=1)
    checkpoints.save_newest(State(vector, vector, vector, (), Counters(1, 1, 64, 0, 1)), 1.0)
    return checkpoints.find("newest")


def shown(
    config: Config, folder: pathlib.Path, video: pathlib.Path | None, **options: Any
) -> list[film.Episode]:
    heard: list[film.Episode] = []
    viewer = film.Viewer(config, video, options.get("q_values", False))
    viewer.show(saved(config, folder), 2, options.get("seed", 5), heard.append)
    return heard


def frames_of(video: pathlib.Path, height: int, width: int) -> np.ndarray:
    """Those of a film, uint8 [frames, height, width, 3]."""
    if video.suffix == ".gif":
        frames = imageio.imread(video)
        assert frames.shape[1:] == (height, width, 3)
        return frames
    # As imageio's own way to read leaves files open.
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(video), "-f", "rawvideo"]
    read = subprocess.run([*command, "-pix_fmt", "rgb24", "-"], capture_output=True, check=True)
    assert f"{width}x{height}" in read.stderr.decode()
    return np.frombuffer(read.stdout, np.uint8).reshape(-1, height, width, 3)


@pytest.mark.parametrize("suffix", film_files.FORMATS)
def test_a_film_has_a_frame_for_each_step_and_one_more(suffix: str, tmp_path: pathlib.Path) -> None:
    video = tmp_path / "films" / f"film{suffix}"
    episodes = shown(CONFIG, tmp_path, video)
    assert len(episodes) == 2
    assert all(each.episode_return == each.length > 5 for each in episodes)
    frames = frames_of(video, 400, 600)
    if suffix == ".mp4":  # what does not move is one longer frame of a GIF
        assert len(frames) == sum(each.length + 1 for each in episodes)
    # The pole is there, and moves.
    assert (frames[0] < 100).any()
    assert np.abs(frames[0].astype(int) - frames[-1]).max() > 100


def test_the_same_seed_shows_the_same_episodes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # a window that nobody sees
    config = dataclasses.replace(CONFIG, run=dataclasses.replace(CONFIG.run, max_eval_steps=6))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    window = shown(config, tmp_path / "a", None)
    assert window == shown(config, tmp_path / "b", tmp_path / "b.gif")
    assert [each.length for each in window] == [6, 6]


def test_q_values_are_drawn_beside_the_frame(tmp_path: pathlib.Path) -> None:
    video = tmp_path / "film.mp4"
    shown(CONFIG, tmp_path, video, q_values=True)
    assert len(frames_of(video, 400, 600 + 260)) > 10


def test_the_largest_q_value_has_the_longest_bar_in_another_colour() -> None:
    frame = np.full((20, 30, 3), 200, np.uint8)
    picture = film.beside(frame, np.array([0.5, 2.0, -1.0]), ("NOOP", "FIRE", "UP"))
    np.testing.assert_array_equal(picture[:20, :30], frame)
    assert picture.shape[0] >= 4 * 18, "there is room for three bars and a title"
    lengths = [
        max((picture[row * 18 + 9] == colour).all(-1).sum() for colour in (film._BAR, film._BEST))
        for row in (1, 2, 3)
    ]
    assert lengths[1] > lengths[0] > lengths[2] > 0
    is_best = (picture == film._BEST).all(-1).any(axis=1)
    assert np.flatnonzero(is_best).min() > 2 * 18
    assert np.flatnonzero(is_best).max() < 3 * 18


def test_what_may_not_be_done_has_no_bar() -> None:
    frame = np.full((20, 30, 3), 200, np.uint8)
    values, allowed = np.array([0.5, 9.0, -1.0]), np.array([True, False, True])
    drawn = film.beside(frame, values, ("NOOP", "FIRE", "UP"), allowed=allowed)
    without = film.beside(frame, values[[0, 2]], ("NOOP", "UP"))
    np.testing.assert_array_equal(drawn, without)


class Images(gymnasium.Env):
    """Cannot render; observes images of 8 × 6 points that change."""

    observation_space = gymnasium.spaces.Box(0, 255, (8, 6, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self._time = 0
        return np.zeros((8, 6, 1), np.uint8), {}

    def step(self, action):
        self._time += 1
        return np.full((8, 6, 1), 50 * self._time, np.uint8), 1.0, self._time == 4, False, {}

    def get_action_meanings(self) -> list[str]:
        return ["LEFT", "RIGHT"]


class Numbers(gymnasium.Env):
    """Cannot render, and observes no image."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, True, False, {}


gymnasium.register("FilmImages-v0", Images)
gymnasium.register("FilmNumbers-v0", Numbers)


def of(env_id: str) -> Any:
    return dataclasses.replace(CONFIG.environment, env_id=env_id)


def test_images_are_shown_where_nothing_is_rendered(tmp_path: pathlib.Path) -> None:
    config = dataclasses.replace(CONFIG, environment=of("FilmImages-v0"))
    looks = rendering.looks(config.environment, rendering.ARRAY)
    assert (looks.draws, looks.action_names) == (False, ("LEFT", "RIGHT"))
    video = tmp_path / "film.mp4"
    assert shown(config, tmp_path, video) == [film.Episode(4.0, 4)] * 2
    frames = frames_of(video, 320, 240)
    levels = frames[:5].mean(axis=(1, 2, 3))
    assert (np.diff(levels) > 30).all(), levels


@pytest.mark.parametrize(
    ("env_id", "mode", "words"),
    [
        ("FilmNumbers-v0", rendering.ARRAY, "render modes are ansi, and rgb_array is needed"),
        ("FilmImages-v0", rendering.WINDOW, "render modes are none, and human is needed: say"),
    ],
)
def test_what_cannot_be_shown_is_refused(env_id: str, mode: str, words: str) -> None:
    with pytest.raises(UsageError, match=f"--env_id={env_id}: cannot be shown, its {words}"):
        rendering.looks(of(env_id), mode)


def test_the_newest_of_stacked_frames_is_what_is_seen() -> None:
    stack = np.zeros((4, 10, 10), np.uint8)
    stack[-1, :5] = 255
    picture = rendering.as_picture(stack, (1, 2))
    assert picture.shape == (320, 320, 3)
    assert (picture[:160] == 255).all()
    assert not picture[160:].any()


def test_planes_of_things_are_seen_together() -> None:
    planes = np.zeros((10, 10, 4), np.bool_)
    planes[0, 0, 1] = planes[9, 9, 3] = True
    picture = rendering.as_picture(planes, (0, 1))
    assert picture[0, 0].tolist() == picture[-1, -1].tolist() == [255] * 3
    assert picture.mean() < 10


def test_other_formats_are_refused() -> None:
    with pytest.raises(UsageError, match=r"--video=film.avi: its name must end with .mp4 or .gif"):
        film_files.check(pathlib.Path("film.avi"))
    for name in ("film.mp4", "film.gif"):
        with pytest.raises(UsageError, match=rf"--preview={name}: must be another file, whose"):
            film_files.check(pathlib.Path("film.gif"), pathlib.Path(name))


def test_a_small_form_is_written_beside_it(tmp_path: pathlib.Path) -> None:
    video, small = tmp_path / "film.mp4", tmp_path / "small.gif"
    heard: list[film.Episode] = []
    viewer = film.Viewer(CONFIG, video, False, small)
    viewer.show(saved(CONFIG, tmp_path), 1, 5, heard.append)
    assert video.stat().st_size > 1000
    frames = imageio.imread(small, index=None)
    assert frames.shape[1:] == (213, 320, 3)
    assert 2 <= len(frames) <= heard[0].length + 1  # of frames that are alike one is written


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (gymnasium.error.DependencyNotInstalled("pygame is not installed"), r'"ps-dqn\[video\]"'),
        (type("error", (Exception,), {"__module__": "pygame"})("no screen"), "--video=film.mp4"),
    ],
    ids=["a package", "a screen"],
)
def test_what_is_missing_to_draw_with_is_said(error: Exception, hint: str) -> None:
    said = rf"^--env_id=CartPole-v1: cannot be drawn \({error}\): .*{hint}"
    with pytest.raises(UsageError, match=said), rendering.drawn("CartPole-v1"):
        raise error


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(ZeroDivisionError), rendering.drawn("CartPole-v1"):
        raise ZeroDivisionError
