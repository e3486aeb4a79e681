"""What a worker learns from, filled by real vector environments that reset in either way.

The toy observes [1000·lane + 10·episode + time], its lane being the last digit of its seed; the
reward tells where it was acted. Episodes last three steps; even ones terminate, odd ones are cut
off.
"""

import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from ps_dqn.config import Config
from ps_dqn.environments import Environments
from ps_dqn.replay.batch import Rollout, Sequences, Transitions
from ps_dqn.replay.memory import Memory
from ps_dqn.replay.plan import make_memory

LENGTH, LANES, GAMMA = 3, 2, 0.5


class Telling(gymnasium.Env):
    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 1e5, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(10)
        self.lane, self.episode, self.time = 0, -1, 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        if seed is not None:
            self.lane, self.episode = seed % 10, -1
        self.episode, self.time = self.episode + 1, 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        reward = float(self._observation()[0]) + int(action) / 10
        self.time += 1
        over, terminates = self.time == LENGTH, self.episode % 2 == 0
        return self._observation(), reward, over and terminates, over and not terminates, {}

    def _observation(self) -> np.ndarray:
        return np.array([1000 * self.lane + 10 * self.episode + self.time], np.float32)


gymnasium.register("TestMemory/Telling-v0", Telling, disable_env_checker=True)

SMALL = {
    "env_id": "TestMemory/Telling-v0",
    "vectorization": "sync",
    "num_envs_per_worker": LANES,
    "gamma": GAMMA,
    "n_step": 1,
    "batch_size": 64,
    "local_updates": 2,
    "update_period": 1,
    "min_replay_size": 8,
    "replay_capacity": 200,
}
MODES = ("NextStep", "SameStep")


class Acting:
    """Environments and the memory that remembers them, as an `Actor` puts them together."""

    def __init__(self, mode: str, folder: pathlib.Path | None = None, **values: Any):
        kwargs = json.dumps({"vector_kwargs": {"autoreset_mode": mode}})
        config = Config.from_values({**SMALL, "env_kwargs": kwargs, **values})
        self.environments = Environments(config.environment, LANES)
        self.environments.reset(seed=0)
        rng = np.random.default_rng(3)
        self.memory: Memory = make_memory(config, self.environments.spec, rng, folder)
        self.state_size = config.state_size
        self.steps = 0

    def act(self, count: int) -> None:
        """Steps with action t mod 10 and a state that tells the step, in both lanes."""
        for _ in range(count):
            states = np.full((LANES, self.state_size), self.steps, np.float32)
            actions = np.full(LANES, self.steps % 10)
            self.memory.append(self.environments.step(actions)._replace(states=states))
            self.steps += 1


Open = Callable[..., Acting]


@pytest.fixture
def opened() -> Iterator[Open]:
    made: list[Acting] = []

    def make(*arguments: Any, **values: Any) -> Acting:
        made.append(Acting(*arguments, **values))
        return made[-1]

    yield make
    for each in made:
        each.environments.close()
        each.memory.close()


def where(observation: float) -> tuple[int, int, int]:
    """Lane, episode and time."""
    lane, rest = divmod(round(float(observation)), 1000)
    return lane, *divmod(rest, 10)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n_step", [1, 2])
def test_replayed_transitions_are_what_happened(mode: str, n_step: int, opened: Open) -> None:
    acting = opened(mode, n_step=n_step)
    acting.act(30)
    batch = acting.memory.sample(2, 64)
    assert isinstance(batch, Transitions)
    assert batch.observations.shape == (2, 64, 1)
    seen = set()
    nothing = dict.fromkeys(("masks", "next_masks", "demonstrated"), batch.weights)
    batch = batch._replace(**nothing)
    rows = zip(*(array.reshape(-1) for array in batch), strict=True)
    for before, action, returns, discount, after, _, _, weight, _ in rows:
        lane, episode, time = where(before)
        end = min(time + n_step, LENGTH)
        assert time < LENGTH, "an episode's last observation is no transition"
        assert where(after) == (lane, episode, end)
        # In an episode of which every step was made, actions rise by 1.
        rewards = [before + k + (action + k) % 10 / 10 for k in range(end - time)]
        assert returns == pytest.approx(sum(GAMMA**k * r for k, r in enumerate(rewards)), abs=1e-3)
        terminated = end == LENGTH and episode % 2 == 0
        assert discount == (0.0 if terminated else GAMMA ** (end - time))
        assert weight == 1.0
        seen.add((lane, time, episode % 2))
    assert len(seen) == LANES * LENGTH * 2, "every kind of step in every lane"


@pytest.mark.parametrize("mode", MODES)
def test_size_and_warm_up_count_what_can_be_sampled(mode: str, opened: Open) -> None:
    acting = opened(mode, min_replay_size=8)
    assert acting.memory.size == 0
    # Where episodes are reset within a step, their last observation is a row more.
    for rows in [1, 2, 3, 4, 5] if mode == "NextStep" else [1, 2, 4, 5]:
        assert not acting.memory.is_warm
        acting.act(1)
        # The last row of each lane has no row after it yet.
        assert acting.memory.size == LANES * (rows - 1)
    assert acting.memory.is_warm
    acting.act(500)
    # 100 rows a lane, of which the newest has no successor.
    assert acting.memory.size == LANES * 99
    assert acting.memory.is_warm


def test_a_recurrent_memory_is_warm_by_the_rows_its_sequences_stand_for(opened: Open) -> None:
    sizes = {"recurrent_size": 3, "burn_in": 2, "sequence_length": 3, "sequence_period": 4}
    acting = opened("NextStep", **sizes, min_replay_size=8)
    # A sequence spans 2 + 3 + 1 rows; with its first, each lane's stands for 4 rows.
    acting.act(5)
    assert (acting.memory.size, acting.memory.is_warm) == (0, False)
    acting.act(1)
    assert (acting.memory.size, acting.memory.is_warm) == (8, True)
    acting.act(4)
    assert acting.memory.size == 16


@pytest.mark.parametrize("mode", MODES)
def test_sequences_have_the_states_they_began_with(mode: str, opened: Open) -> None:
    sizes = {"recurrent_size": 3, "burn_in": 2, "sequence_length": 3, "sequence_period": 2}
    acting = opened(mode, **sizes)
    acting.act(40)
    batch = acting.memory.sample(2, 64)
    assert isinstance(batch, Sequences)
    assert batch.states.shape == (2, 64, 8)
    checked = 0
    for m, b in np.ndindex(2, 64):
        observations = batch.observations[m, b, :, 0]
        lane, episode, time = where(observations[0])
        # Steps made before this one: episodes take 3 steps, and where a step resets them, 4.
        made = episode * (LENGTH + (mode == "NextStep")) + time
        if mode == "NextStep" or time < LENGTH:  # a row of its own has no state
            assert (batch.states[m, b] == made).all()
            checked += 1
        rows = [where(each) for each in observations]
        assert [row[0] for row in rows] == [lane] * 6
        starts = [row[2] == 0 for row in rows]
        assert batch.starts[m, b].tolist() == starts
        trained = [row[2] < LENGTH for row in rows[2:5]]
        assert (batch.weights[m, b] > 0).tolist() == trained
    assert checked > 64


def test_priorities_reach_the_sampler(opened: Open) -> None:
    acting = opened("NextStep", replay="prioritized", priority_alpha=1.0, priority_epsilon=1e-6)
    acting.act(40)
    for _ in range(20):
        batch = acting.memory.sample(2, 64)
        observations = batch.observations[..., 0]
        # Only lane 0's third step of each episode has an error.
        wanted = (observations < 1000) & (observations % 10 == 2)
        acting.memory.update_priorities(np.where(wanted, np.float32(5), np.float32(0)))
    observations = acting.memory.sample(2, 64).observations[..., 0]
    assert set((observations % 10).ravel().tolist()) == {2.0}
    assert len(set(observations.ravel().tolist())) == 10, "all ten of them"


def test_the_progress_of_the_run_reaches_the_sampler(opened: Open) -> None:
    acting = opened("NextStep", replay="prioritized", priority_alpha=1.0, priority_beta=0.5)
    acting.act(40)
    errors = np.random.default_rng(1).uniform(0.1, 5, (2, 64)).astype(np.float32)
    ratios = []
    for progress in (0.0, 1.0):
        acting.memory.sample(2, 64)
        acting.memory.update_priorities(errors)
        weights = acting.memory.sample(2, 64, progress).weights
        assert weights.max(axis=1).tolist() == [1.0, 1.0]
        ratios.append(float(weights.min()))
    # With β = 1 the correction is full, the square of that with ½.
    assert ratios[1] < 0.9 * ratios[0] < 0.9


def test_uniform_memory_takes_errors_without_priorities(opened: Open) -> None:
    acting, twin = opened("NextStep"), opened("NextStep")
    for each in (acting, twin):
        each.act(20)
    acting.memory.sample(2, 64)
    twin.memory.sample(2, 64)
    acting.memory.update_priorities(np.full((2, 64), 9.0, np.float32))
    pairs = zip(acting.memory.sample(2, 64), twin.memory.sample(2, 64), strict=True)
    assert all((one == other).all() for one, other in pairs)


def test_a_folder_keeps_replay_for_a_worker_that_comes_back(
    opened: Open, tmp_path: pathlib.Path
) -> None:
    first = opened("NextStep", tmp_path)
    first.act(20)
    size = first.memory.size
    first.memory.close()
    again = opened("NextStep", tmp_path)
    assert again.memory.size == size == LANES * 19
    assert again.memory.is_warm
    fresh = opened("NextStep")
    assert fresh.memory.size == 0


# Twelve environment steps a push: six of each lane. Two epochs.
PQN = {
    "replay": "rollout",
    "replay_capacity": None,
    "min_replay_size": 1000,
    "target_update_period": 0,
    "double_dqn": False,
    "local_updates": 4,
    "update_period": 3,
    "batch_size": 6,
}


@pytest.mark.parametrize("mode", MODES)
def test_a_rollout_is_the_steps_just_made(mode: str, opened: Open) -> None:
    acting = opened(mode, **PQN)
    assert acting.memory.is_warm, "a push makes the steps it needs"
    assert acting.memory.size == 12
    for _ in range(3):
        acting.act(6)
        rollout = acting.memory.sample(4, 6)
        assert isinstance(rollout, Rollout)
        assert rollout.order.shape == (4, 6)
        acting.memory.update_priorities(np.zeros((4, 6), np.float32))
        check_rollout(rollout, first=acting.steps - 6, resets=mode == "NextStep")


def check_rollout(rollout: Rollout, first: int, resets: bool) -> None:
    length = LENGTH + resets  # steps from one episode to the next
    for t, lane in np.ndindex(6, LANES):
        episode, time = divmod(first + t, length)
        observation = 1000 * lane + 10 * episode + time
        assert rollout.observations[t, lane, 0] == observation
        assert rollout.actions[t, lane] == (first + t) % 10
        if time == LENGTH:
            assert rollout.weights[t, lane] == 0, "a reset"
            continue
        assert rollout.weights[t, lane] == 1
        assert rollout.rewards[t, lane] == pytest.approx(observation + (first + t) % 10 / 10)
        assert rollout.next_observations[t, lane, 0] == observation + 1, "also where it ended"
        ended = time + 1 == LENGTH
        assert rollout.discounts[t, lane] == (0.0 if ended and episode % 2 == 0 else GAMMA)
        assert rollout.continues[t, lane] == (not ended and t < 5)
