"""Environments hide how a vector environment resets, and what its spaces look like.

The toy counts: in lane i of episode e at time t it observes [i, e, t], so an observation tells
where it belongs, and what the right one would have been can be written down.
"""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ps_dqn import environments
from ps_dqn.config import Config, Environment
from ps_dqn.environments import Environments
from ps_dqn.errors import UsageError
from ps_dqn.experience import Experience
from ps_dqn.replay import Transitions

MODES = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)
SPACE = gymnasium.spaces.Box(0, 1000, (3,), np.float32)


def length(lane: int, episode: int) -> int:
    """Steps of an episode, different in each lane so that they end at different times."""
    return 2 + (lane + 2 * episode) % 3


def terminates(lane: int, episode: int) -> bool:
    return (lane + episode) % 2 == 0


def reward(lane: int, episode: int, time: int, action: int) -> float:
    return 100 * lane + 10 * episode + time + action / 10


class CountingVector(VectorEnv):
    """The toy as a vector environment that resets in any of the three ways.

    It hands out the very same buffer at every step, as fast native environments do.
    """

    def __init__(self, num_envs: int, mode: str = "NextStep"):
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode(mode)}
        self.single_observation_space = SPACE
        self.observation_space = batch_space(SPACE, num_envs)
        self.single_action_space = gymnasium.spaces.Discrete(2)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.buffer = np.zeros((num_envs, 3), np.float32)
        self.over = np.zeros(num_envs, np.bool_)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        mask = (options or {}).get("reset_mask")
        if mask is None:
            self.buffer[:] = 0
            self.buffer[:, 0] = np.arange(self.num_envs)
            mask = np.ones(self.num_envs, np.bool_)
        else:
            assert self.mode == AutoresetMode.DISABLED
            assert (mask == self.over).all(), "exactly the ended episodes are to be reset"
            self._next_episode(mask)
        self.over[mask] = False
        return self.buffer, {}

    @property
    def mode(self) -> AutoresetMode:
        return self.metadata["autoreset_mode"]

    def _next_episode(self, mask: np.ndarray) -> None:
        self.buffer[mask, 1] += 1
        self.buffer[mask, 2] = 0

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, ...]:
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), np.bool_)
        for lane, (episode, time) in enumerate(self.buffer[:, 1:].astype(int).tolist()):
            if self.over[lane]:
                assert self.mode == AutoresetMode.NEXT_STEP
                self.over[lane] = False
                self._next_episode(np.arange(self.num_envs) == lane)
                continue
            rewards[lane] = reward(lane, episode, time, actions[lane])
            self.buffer[lane, 2] += 1
            if time + 1 == length(lane, episode):
                (terminated if terminates(lane, episode) else truncated)[lane] = True
        done = terminated | truncated
        infos: dict[str, Any] = {}
        if self.mode == AutoresetMode.SAME_STEP and done.any():
            infos["final_obs"] = np.full(self.num_envs, None, object)
            for lane in np.flatnonzero(done):
                infos["final_obs"][lane] = self.buffer[lane].copy()
            self._next_episode(done)
        else:
            self.over |= done
        return self.buffer, rewards, terminated, truncated, infos


class Counting(gymnasium.Env):
    """The toy as a single environment. Its lane is what its first seed ends with."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = SPACE, gymnasium.spaces.Discrete(2)
        self.lane, self.episode, self.time = 0, -1, 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        if seed is not None:
            self.lane, self.episode = seed % 10, -1
        self.episode, self.time = self.episode + 1, 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        value = reward(self.lane, self.episode, self.time, int(action))
        self.time += 1
        over = self.time == length(self.lane, self.episode)
        end = terminates(self.lane, self.episode)
        return self._observation(), value, over and end, over and not end, {}

    def _observation(self) -> np.ndarray:
        return np.array([self.lane, self.episode, self.time], np.float32)


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


gymnasium.register(
    "TestEnvironments/Counting-v0",
    Counting,
    vector_entry_point=CountingVector,
    disable_env_checker=True,
)
COUNTING = "TestEnvironments/Counting-v0"
PIXELS = shaped(
    "Pixels",
    gymnasium.spaces.Box(0, 255, (2, 2, 1), np.uint8),
    np.array([[[0], [7]], [[200], [255]]], np.uint8),
)
DOUBLES = shaped("Doubles", gymnasium.spaces.Box(-1, 1, (2,), np.float64), np.array([0.1, -0.2]))
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


def native(mode: AutoresetMode) -> Environment:
    return Environment(env_id=COUNTING, env_kwargs=json.dumps({"mode": mode.value}))


def synchronous() -> Environment:
    return Environment(env_id=COUNTING, vectorization="sync")


@pytest.fixture
def opened() -> Iterator[Callable[..., Environments]]:
    """Makes environments and closes them after the test."""
    made: list[Environments] = []

    def make(config: Environment, num_envs: int = 3, seed: int = 0) -> Environments:
        made.append(Environments(config, num_envs))
        made[-1].reset(seed)
        return made[-1]

    yield make
    for each in made:
        each.close()


def transitions(envs: Environments, steps: int) -> set[tuple]:
    """(state, action, reward, terminated, truncated, next state) of all real steps."""
    rng = np.random.default_rng(0)
    found = set()
    for _ in range(steps):
        before, actions = envs.observations, rng.integers(2, size=envs.num_envs)
        step = envs.step(actions)
        after = envs.observations.copy()
        after[step.final_envs] = step.final_observations
        for i in np.flatnonzero(step.is_transition):
            ended = (bool(step.terminated[i]), bool(step.truncated[i]))
            action, value = int(actions[i]), round(float(step.rewards[i]), 3)
            found.add((tuple(before[i]), action, value, *ended, tuple(after[i])))
    return found


CONFIGS = [*map(native, MODES), synchronous()]
NAMES = ["native NEXT_STEP", "native SAME_STEP", "native DISABLED", "sync"]


@pytest.mark.parametrize("config", CONFIGS, ids=NAMES)
def test_transitions_are_what_the_toy_says(
    config: Environment, opened: Callable[..., Environments]
) -> None:
    found = transitions(opened(config), 60)
    assert len(found) > 100
    for before, action, value, terminated, truncated, after in found:
        lane, episode, time = (int(number) for number in before)
        assert value == pytest.approx(reward(lane, episode, time, action))
        # The next state is the same episode's, also where the environment has left it.
        assert after == (lane, episode, time + 1)
        over = time + 1 == length(lane, episode)
        assert terminated == (over and terminates(lane, episode))
        assert truncated == (over and not terminates(lane, episode))


@pytest.mark.parametrize("config", CONFIGS, ids=NAMES)
def test_no_step_of_an_episode_is_missing(
    config: Environment, opened: Callable[..., Environments]
) -> None:
    found = transitions(opened(config), 60)
    visited = {before for before, *_ in found}
    for lane in range(3):
        episodes = int(max(episode for at, episode, _ in visited if at == lane))
        assert episodes >= 10
        for episode in range(episodes):
            for time in range(length(lane, episode)):
                assert (lane, episode, time) in visited


def test_only_the_next_step_mode_has_steps_that_are_no_transitions(
    opened: Callable[..., Environments],
) -> None:
    for config, name in zip(CONFIGS, NAMES, strict=True):
        envs = opened(config)
        was_done = np.zeros(3, np.bool_)
        resets = 0
        for _ in range(30):
            step = envs.step(np.zeros(3, np.int32))
            has_resets = name in ("native NEXT_STEP", "sync")
            expected = ~was_done if has_resets else np.ones(3, np.bool_)
            assert (step.is_transition == expected).all(), name
            assert not has_resets or not step.final_envs.size
            was_done = step.terminated | step.truncated
            resets += int((~step.is_transition).sum())
        assert (resets > 0) == has_resets


def test_a_reset_forgets_an_unfinished_reset(opened: Callable[..., Environments]) -> None:
    envs = opened(native(AutoresetMode.NEXT_STEP))
    while not (step := envs.step(np.zeros(3, np.int32))).terminated.any():
        assert step.is_transition.all()
    envs.reset(0)
    assert envs.observations[:, 2].tolist() == [0, 0, 0]
    assert envs.step(np.zeros(3, np.int32)).is_transition.all()


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_a_reused_buffer_does_not_change_what_was_observed(
    mode: AutoresetMode, opened: Callable[..., Environments]
) -> None:
    envs = opened(native(mode))
    seen = [envs.observations]
    finals = []
    for _ in range(20):
        finals.append(envs.step(np.zeros(3, np.int32)).final_observations)
        seen.append(envs.observations)
    copies = [each.copy() for each in seen + finals]
    for _ in range(5):
        envs.step(np.zeros(3, np.int32))
    assert all((now == then).all() for now, then in zip(seen + finals, copies, strict=True))
    # Each lane's own time went on, so the arrays differ from one another.
    assert len({each.tobytes() for each in seen}) == len(seen)


def experience(environment: Environment) -> Experience:
    config = Config.from_values(
        dataclasses.asdict(environment)
        | {
            "num_envs_per_worker": 3, "update_period": 3, "local_updates": 1, "batch_size": 2000,
            "n_step": 2, "gamma": 0.5, "replay_capacity": 3000, "min_replay_size": 1,
        }
    )  # fmt: skip
    return Experience(config, 0)


@pytest.mark.parametrize("config", CONFIGS[:3], ids=NAMES[:3])
def test_replay_gets_the_same_transitions_from_every_mode(config: Environment) -> None:
    n_step, gamma = 2, 0.5
    worker = experience(config)
    for _ in range(40):
        worker.step(np.ones(3, np.int32), 0.0)
    drawn = Transitions(*(minibatches[0] for minibatches in worker.sample()))
    starts = set()
    for before, value, discount, after in zip(
        drawn.observations, drawn.returns, drawn.discounts, drawn.next_observations, strict=True
    ):
        lane, episode, time = (int(number) for number in before)
        last = length(lane, episode)
        assert time < last, "an episode's last observation is no start"
        steps = min(n_step, last - time)
        rewards = [reward(lane, episode, time + k, 1) for k in range(steps)]
        assert value == pytest.approx(sum(gamma**k * each for k, each in enumerate(rewards)))
        ends = time + steps == last and terminates(lane, episode)
        assert discount == (0 if ends else gamma**steps)
        assert after.tolist() == [lane, episode, time + steps]
        starts.add((lane, episode, time))
    # 2000 draws from about a hundred transitions find them all, in every mode alike.
    everything = {
        (lane, episode, time)
        for lane in range(3)
        for episode in range(8)
        for time in range(length(lane, episode))
    }
    assert everything <= starts


@pytest.mark.parametrize("config", CONFIGS[:3], ids=NAMES[:3])
def test_experience_counts_alike_in_every_mode(config: Environment) -> None:
    worker = experience(config)
    returns = []
    # Enough of lane 0's first three episodes whatever resets cost.
    for _ in range(30):
        worker.step(np.zeros(3, np.int32), 0.0)
    gathered = worker.take_gathered()
    env_steps, episodes = gathered.env_steps, len(gathered.returns)
    return_sum = sum(gathered.returns)
    for lane in range(3):
        steps, episode = 0, 0
        while True:
            cost = length(lane, episode) + (config == CONFIGS[0])
            # The last step of an episode ends it; the reset comes after.
            if steps + length(lane, episode) > 30:
                break
            returns.append(
                sum(reward(lane, episode, time, 0) for time in range(length(lane, episode)))
            )
            steps, episode = steps + cost, episode + 1
    assert episodes == len(returns)
    assert return_sum == pytest.approx(sum(returns))
    assert (env_steps == 90) == (config != CONFIGS[0])


def test_actions_are_shifted_to_where_the_space_starts(
    opened: Callable[..., Environments],
) -> None:
    envs = opened(Environment(env_id=SHIFTED))
    Shaped.actions.clear()
    envs.step(np.array([0, 1, 2], np.int32))
    assert Shaped.actions == [-1, 0, 1]
    assert envs.num_actions == 3


def test_discrete_observations_become_one_hot(opened: Callable[..., Environments]) -> None:
    envs = opened(Environment(env_id=CELLS), num_envs=2)
    assert envs.observations.dtype == np.float32
    # Cells are counted from 1: cell 3 is the third.
    assert envs.observations.tolist() == [[0, 0, 1, 0]] * 2
    envs.step(np.zeros(2, np.int32))
    assert envs.observations.tolist() == [[0, 0, 1, 0]] * 2


def test_dict_observations_are_flattened(opened: Callable[..., Environments]) -> None:
    envs = opened(Environment(env_id=PARTS), num_envs=2)
    assert envs.observations.dtype == np.float32
    assert envs.observations.tolist() == [[0, 1, 0, 4, 5]] * 2


def test_bytes_stay_bytes(opened: Callable[..., Environments]) -> None:
    envs = opened(Environment(env_id=PIXELS), num_envs=2)
    envs.step(np.zeros(2, np.int32))
    assert envs.observations.dtype == np.uint8
    assert envs.observations.shape == (2, 2, 2, 1)
    assert envs.observations[1].ravel().tolist() == [0, 7, 200, 255]


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
        (DOUBLES, (2,), np.float32, 3, 12.5),
        (CELLS, (4,), np.float32, 3, 12.5),
        (PARTS, (5,), np.float32, 3, 12.5),
    ],
)
def test_describe(
    env_id: str, shape: tuple, dtype: Any, actions: int, threshold: float | None
) -> None:
    spec = environments.describe(Environment(env_id=env_id))
    assert spec == environments.EnvironmentSpec(shape, np.dtype(dtype), actions, threshold)


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
        (Environment(env_id=CONTINUOUS), "Discrete"),
        (Environment(env_id="Pendulum-v1"), "Discrete"),
        (Environment(env_id=GRAPH), f"--env_id={GRAPH}"),
        (Environment(env_id="NoSuchEnvironment-v0"), "NoSuchEnvironment"),
        (Environment(env_id="CartPole-v99"), "CartPole-v99"),
        (Environment(env_id="not an id at all"), "not an id at all"),
        (
            Environment(env_id="CartPole-v1", env_kwargs='{"nonsense": 3}', vectorization="sync"),
            "nonsense",
        ),
        (Environment(env_id=COUNTING, env_kwargs='{"mode": "no such"}'), "no such"),
        (Environment(env_id="CartPole-v1", env_kwargs='{"num_envs": 3}'), "--env_kwargs"),
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
