"""Environments hide what their spaces look like: shapes, dtypes, where actions begin, frames."""

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from support.counting_env import COUNTING, SPACE
from support.programs import ROOT

from ps_dqn import environments
from ps_dqn.config import Environment
from ps_dqn.environments import Environments, parts
from ps_dqn.errors import UsageError


class Shaped(gymnasium.Env):
    """An environment of any spaces that shows a fixed observation and records its actions."""

    actions: list[Any] = []  # noqa: RUF012 - one list for all, so that a test can read it

    def __init__(self, observation_space: Any, action_space: Any, observation: Any):
        self.observation_space, self.action_space = observation_space, action_space
        self.observation = observation

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        return self.observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        assert self.action_space.contains(action)
        Shaped.actions.append(action)
        return self.observation, 1.0, False, False, {}


def shaped(name: str, observation_space: Any, observation: Any, action_space: Any = None) -> str:
    action_space = action_space or gymnasium.spaces.Discrete(3)
    gymnasium.register(
        f"TestEnvironments/{name}-v0",
        lambda: Shaped(observation_space, action_space, observation),
        disable_env_checker=True,
        order_enforce=False,
        reward_threshold=12.5,
    )
    return f"TestEnvironments/{name}-v0"


PIXELS = shaped(
    "Pixels",
    gymnasium.spaces.Box(0, 255, (2, 2, 1), np.uint8),
    np.array([[[0], [7]], [[200], [255]]], np.uint8),
)
PLANES = shaped(
    "Planes",
    gymnasium.spaces.Box(0, 1, (2, 2, 3), np.bool_),
    np.arange(12).reshape(2, 2, 3) % 5 == 0,
)
DOUBLES = shaped("Doubles", gymnasium.spaces.Box(-1, 1, (2,), np.float64), np.array([0.1, -0.2]))
WHOLE = shaped("Whole", gymnasium.spaces.Box(0, 2**24, (2,), np.int64), np.array([1, 2]))
LARGE = shaped("Large", gymnasium.spaces.Box(0, 2**24 + 1, (2,), np.int64), np.array([1, 2]))
CELLS = shaped("Cells", gymnasium.spaces.Discrete(4, start=1), 3)
PARTS = shaped(
    "Parts",
    gymnasium.spaces.Dict(
        {
            "cell": gymnasium.spaces.Discrete(3),
            "place": gymnasium.spaces.Box(0, 9, (2,), np.float32),
        }
    ),
    {"cell": 1, "place": np.array([4.0, 5.0], np.float32)},
)
SHIFTED = shaped("Shifted", SPACE, np.zeros(3, np.float32), gymnasium.spaces.Discrete(3, start=-1))
CONTINUOUS = shaped(
    "Continuous", SPACE, np.zeros(3, np.float32), gymnasium.spaces.Box(-1, 1, (1,), np.float32)
)
GRAPH = shaped("Graph", gymnasium.spaces.Graph(gymnasium.spaces.Discrete(2), None), None)


def test_actions_are_shifted_to_where_the_space_starts(
    opened: Callable[..., Environments],
) -> None:
    envs = opened(Environment(env_id=SHIFTED))
    Shaped.actions.clear()
    envs.step(np.array([0, 1, 2], np.int32))
    assert Shaped.actions == [-1, 0, 1]
    assert envs.num_actions == 3


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_discrete_observations_are_numbers_from_0(
    opened: Callable[..., Environments], vectorization: str
) -> None:
    envs = opened(Environment(env_id=CELLS, vectorization=vectorization), num_envs=2)
    assert envs.spec.parts == (parts.Part("", (), np.dtype(np.int32), (4,)),)
    # Cells are counted from 1: cell 3 is the third.
    assert envs.observations.view(np.int32).tolist() == [[2]] * 2
    envs.step(np.zeros(2, np.int32))
    assert envs.observations.view(np.int32).tolist() == [[2]] * 2


def test_parts_of_observations_are_rows_of_bytes(opened: Callable[..., Environments]) -> None:
    envs = opened(Environment(env_id=PARTS), num_envs=2)
    assert [part.name for part in envs.spec.parts] == ["cell", "place"]
    assert envs.observations.dtype == np.uint8
    assert envs.observations[:, :4].copy().view(np.int32).tolist() == [[1]] * 2
    assert envs.observations[:, 4:].copy().view(np.float32).tolist() == [[4, 5]] * 2


def test_bytes_stay_bytes(opened: Callable[..., Environments]) -> None:
    envs = opened(Environment(env_id=PIXELS), num_envs=2)
    envs.step(np.zeros(2, np.int32))
    assert envs.observations.dtype == np.uint8
    assert envs.observations.shape == (2, 2, 2, 1)
    assert envs.observations[1].ravel().tolist() == [0, 7, 200, 255]


def test_truth_values_stay_truth_values(opened: Callable[..., Environments]) -> None:
    envs = opened(Environment(env_id=PLANES), num_envs=2)
    envs.step(np.zeros(2, np.int32))
    assert envs.observations.dtype == np.bool_
    assert np.flatnonzero(envs.observations[1]).tolist() == [0, 5, 10]


def test_doubles_become_floats(opened: Callable[..., Environments]) -> None:
    envs = opened(Environment(env_id=DOUBLES), num_envs=2)
    assert envs.observations.dtype == np.float32
    envs.step(np.zeros(2, np.int32))
    assert envs.observations.dtype == np.float32
    assert envs.observations[0].tolist() == np.array([0.1, -0.2], np.float32).tolist()


def test_seed_decides_the_first_observations(opened: Callable[..., Environments]) -> None:
    config = Environment(env_id="CartPole-v1")
    first, again, other = (opened(config, 2, seed).observations for seed in (5, 5, 6))
    assert (first == again).all()
    assert not (first == other).all()
    assert not (first[0] == first[1]).all(), "the environments differ from one another"


@pytest.mark.parametrize(
    ("env_id", "shape", "dtype", "actions", "threshold"),
    [
        ("CartPole-v1", (4,), np.float32, 2, 475.0),
        (COUNTING, (3,), np.float32, 2, None),
        (PIXELS, (2, 2, 1), np.uint8, 3, 12.5),
        (PLANES, (2, 2, 3), np.bool_, 3, 12.5),
        (DOUBLES, (2,), np.float32, 3, 12.5),
        (CELLS, (4,), np.uint8, 3, 12.5),
        (PARTS, (12,), np.uint8, 3, 12.5),
    ],
)
def test_describe(
    env_id: str, shape: tuple, dtype: Any, actions: int, threshold: float | None
) -> None:
    spec = environments.describe(Environment(env_id=env_id))
    expected = environments.EnvironmentSpec(shape, np.dtype(dtype), actions, threshold)
    assert dataclasses.replace(spec, parts=()) == expected


def test_describe_takes_an_id_with_its_module(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Gymnasium's own notation "module:id" imports the module first.
    module = "test_environments_registers_itself"
    text = "import gymnasium\ngymnasium.register('TestEnvironments/InModule-v0', {entry!r}, {more})"
    entry = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
    (tmp_path / f"{module}.py").write_text(text.format(entry=entry, more="reward_threshold=3.0"))
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = environments.describe(Environment(env_id=f"{module}:TestEnvironments/InModule-v0"))
    assert spec.reward_threshold == 3.0


def test_env_module_registers_the_environment(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "test_environments_plugin"
    (tmp_path / f"{module}.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('TestEnvironments/Plugin-v0',"
        " 'gymnasium.envs.classic_control.cartpole:CartPoleEnv')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    config = Environment(env_id="TestEnvironments/Plugin-v0", env_module=module)
    assert environments.describe(config).num_actions == 2
    assert module in sys.modules


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (Environment(env_id=CONTINUOUS), "--action_bins=5"),
        (Environment(env_id="Pendulum-v1"), "--action_bins=5"),
        (Environment(env_id=GRAPH), f"--env_id={GRAPH}"),
        (Environment(env_id="NoSuchEnvironment-v0"), "NoSuchEnvironment"),
        (Environment(env_id="CartPole-v99"), "CartPole-v99"),
        (Environment(env_id="not an id at all"), "not an id at all"),
        (
            Environment(env_id="CartPole-v1", env_kwargs='{"nonsense": 3}', vectorization="sync"),
            "nonsense",
        ),
        (Environment(env_id=COUNTING, env_kwargs='{"mode": "no such"}'), "no such"),
        (Environment(env_id="CartPole-v1", env_kwargs='{"num_envs": 3}'), '{"num_envs": 3}'),
        (Environment(env_module="no_such_module_anywhere"), "--env_module=no_such_module_anywhere"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_used_is_a_usage_error(config: Environment, said: str) -> None:
    for make in (environments.describe, lambda config: Environments(config, 2)):
        with pytest.raises(UsageError) as caught:
            make(config)
        assert said in str(caught.value)


def test_a_module_that_fails_is_a_usage_error(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_environments_broken.py").write_text("raise RuntimeError('I am broken')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match="I am broken"):
        environments.describe(Environment(env_module="test_environments_broken"))


@pytest.mark.parametrize(
    ("env_id", "dtype"), [(DOUBLES, "float64"), (LARGE, "int64"), (WHOLE, ""), (CELLS, "")]
)
def test_observations_that_float32_does_not_hold_are_told_of(env_id: str, dtype: str) -> None:
    assert environments.describe(Environment(env_id=env_id)).rounded_from == dtype


@pytest.mark.parametrize("where", ["alone", "in a dictionary", "in a tuple"])
def test_text_is_refused(where: str) -> None:
    text, number = gymnasium.spaces.Text(5), gymnasium.spaces.Discrete(2)
    space = {
        "alone": text,
        "in a dictionary": gymnasium.spaces.Dict({"a": number, "b": text}),
        "in a tuple": gymnasium.spaces.Tuple([number, gymnasium.spaces.Tuple([text])]),
    }[where]
    name = shaped(f"Text{where.replace(' ', '')}", space, space.sample())
    with pytest.raises(UsageError, match="its observations have text, which a network cannot read"):
        environments.describe(Environment(env_id=name))


def test_the_example_of_several_parts_is_read_part_by_part(
    opened: Callable[..., Environments], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    envs = opened(Environment(env_id="hall:Picker"), num_envs=2)
    assert envs.spec.describe_observation() == "battery 1, carries one of 2, hall 5×5×3"
    for _ in range(40):
        step = envs.step(np.zeros(2, np.int32))
    assert not any(envs.failures.values())
    assert step.observations.shape == (2, 4 + 4 + 75)
