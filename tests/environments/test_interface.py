"""What a run's folder says of its environment."""

import json
import pathlib

import numpy as np
import pytest
from gymnasium import spaces
from support import kinds_of_runs

from ps_dqn import environments
from ps_dqn.environments import interface, spaces_json
from ps_dqn.errors import UsageError

SPACES = [
    *kinds_of_runs.OBSERVATIONS.values(),
    *kinds_of_runs.ACTIONS.values(),
    spaces.Box(-np.inf, np.inf, (2, 3), np.float64),
    spaces.Box(np.float32([-np.inf, 0.1]), np.float32([1, np.inf])),
    spaces.Box(-(2**62), 2**62, (1,), np.int64),
    spaces.Box(0, 1, (2,), np.bool_),
    spaces.MultiBinary([2, 3]),
    spaces.Dict([("z", spaces.Discrete(2)), ("a", spaces.Discrete(3))]),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_spaces_come_back_from_json(space: spaces.Space) -> None:
    text = json.dumps(spaces_json.write(space), allow_nan=False)
    found = spaces_json.read(json.loads(text))
    assert found == space
    assert found.dtype == space.dtype
    if isinstance(space, spaces.Dict):
        assert list(found.spaces) == list(space.spaces)


def test_what_no_environment_of_a_run_has_is_refused() -> None:
    with pytest.raises(TypeError, match="Text"):
        spaces_json.write(spaces.Text(3))
    with pytest.raises(ValueError, match="Sphere"):
        spaces_json.read({"kind": "Sphere"})


@pytest.mark.parametrize("kind", kinds_of_runs.KINDS)
def test_an_interface_comes_back_from_its_file(kind: str, tmp_path: pathlib.Path) -> None:
    config = kinds_of_runs.config(kind)
    spec = environments.describe(config.environment)
    written = interface.of(config, spec)
    interface.write(tmp_path, written)
    found = interface.read(tmp_path)
    assert found is not None
    assert found.to_json() == written.to_json()
    assert found.spec == spec
    assert found.own == written.own
    assert found.frame_stack == config.environment.frame_stack
    numbers = np.arange(spec.num_actions)
    own = written.actions.of(numbers)
    assert found.actions.of(numbers).tolist() == own.tolist()
    assert all(written.own.action.contains(np.asarray(each)) for each in own)


def test_frames_that_an_environment_stacks_itself_are_left_to_it() -> None:
    config = kinds_of_runs.config("nature")
    spec = environments.describe(config.environment)
    stacked = spaces.Box(0, 255, spec.observation_shape, np.uint8)
    own = spec.own._replace(observation=stacked)
    found = interface.Interface("one", spec, own, interface.of(config, spec).actions, False, 0, 0.0)
    assert found.frame_stack == 1
    assert found.frames == ()


def test_older_runs_have_no_file_and_damaged_ones_are_refused(tmp_path: pathlib.Path) -> None:
    assert interface.read(tmp_path) is None
    for text in ("{", "[]", '{"format": 1}', '{"format": 2}'):
        (tmp_path / interface.FILE).write_text(text)
        with pytest.raises(UsageError, match=r"interface\.json: cannot be read"):
            interface.read(tmp_path)
