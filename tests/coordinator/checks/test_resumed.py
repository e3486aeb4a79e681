"""A run goes on only in an environment that its parameters fit."""

import dataclasses
import pathlib

import numpy as np
import pytest

from ps_dqn import environments
from ps_dqn.config import Config
from ps_dqn.coordinator.checks import resumed
from ps_dqn.environments import interface
from ps_dqn.errors import UsageError


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Of a run of CartPole that can go on."""
    config = Config()
    interface.write(tmp_path, interface.of(config, environments.describe(config.environment)))
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "updates-000000000001.npz").touch()
    return tmp_path


def test_another_environment_is_refused(folder: pathlib.Path) -> None:
    spec = environments.describe(Config().environment)
    resumed.check(folder, Config(), spec)
    larger = dataclasses.replace(spec, observation_shape=(5,))
    with pytest.raises(UsageError, match=r"observations are 5, 2 actions, and 4 and 2 actions in"):
        resumed.check(folder, Config(), larger)
    pixels = dataclasses.replace(spec, observation_dtype=np.dtype(np.uint8))
    with pytest.raises(UsageError, match="observations 4 are uint8, and float32 in training"):
        resumed.check(folder, Config(), pixels)


def test_masks_may_come_and_go(folder: pathlib.Path) -> None:
    spec = environments.describe(Config().environment)
    resumed.check(folder, Config(), dataclasses.replace(spec, has_masks=True))


def test_what_is_no_run_or_an_older_one_is_not_compared(folder: pathlib.Path) -> None:
    spec = environments.describe(Config().environment)
    larger = dataclasses.replace(spec, observation_shape=(5,))
    (folder / interface.FILE).rename(folder / "interface.old")
    resumed.check(folder, Config(), larger)
    (folder / "interface.old").rename(folder / interface.FILE)
    (folder / "checkpoints" / "updates-000000000001.npz").unlink()
    resumed.check(folder, Config(), larger)
    resumed.check(folder / "new", Config(), larger)
