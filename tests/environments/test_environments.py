"""Environments hide how a vector environment resets.

The toy is that of `support/counting_env.py`: an observation tells where it belongs.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from support.counting_env import CONFIGS, MODES, NAMES, length, native, reward, terminates

from ps_dqn.config import Config, Environment
from ps_dqn.environments import Environments
from ps_dqn.replay.batch import Transitions
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Actor


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


NO_STATE = np.zeros((3, 0), np.float32)


def actor(environment: Environment) -> Actor:
    config = Config.from_values(
        dataclasses.asdict(environment)
        | {
            "num_envs_per_worker": 3, "update_period": 3, "local_updates": 1, "batch_size": 2000,
            "n_step": 2, "gamma": 0.5, "replay_capacity": 3000, "min_replay_size": 1,
        }
    )  # fmt: skip
    return Actor(config, 0)


@pytest.mark.parametrize("config", CONFIGS[:3], ids=NAMES[:3])
def test_replay_gets_the_same_transitions_from_every_mode(config: Environment) -> None:
    n_step, gamma = 2, 0.5
    worker = actor(config)
    for _ in range(40):
        worker.step(Acted(np.ones(3, np.int32), NO_STATE), 0.0)
    drawn = Transitions(*(minibatches[0] for minibatches in worker.memory.sample(1, 2000)))
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
def test_what_is_gathered_counts_alike_in_every_mode(config: Environment) -> None:
    worker = actor(config)
    returns = []
    # Enough of lane 0's first three episodes whatever resets cost.
    for _ in range(30):
        worker.step(Acted(np.zeros(3, np.int32), NO_STATE), 0.0)
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
