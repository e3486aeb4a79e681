"""EnvPool's environments, stepped in C++."""

import builtins
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from ps_dqn import environments
from ps_dqn.config import Config, Environment
from ps_dqn.environments import Environments, EnvironmentSpec
from ps_dqn.errors import UsageError
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Evaluation

pytest.importorskip("envpool")
# Its own spaces lose precision that nobody needs.
pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered:UserWarning")


def pool(env_id: str = "CartPole-v1", **values: Any) -> Environment:
    return Environment(env_id=env_id, vectorization="envpool", **values)


def test_it_is_described_like_gymnasiums() -> None:
    found = environments.describe(pool())
    assert found == EnvironmentSpec((4,), np.dtype(np.float32), 2, 475.0)
    assert found == environments.describe(Environment(env_id="CartPole-v1"))


def test_steps_are_the_same_as_gymnasiums(opened: Callable[..., Environments]) -> None:
    ours, theirs = opened(pool(), 3), gymnasium.make("CartPole-v1").unwrapped
    rng = np.random.default_rng(0)
    real = ended = 0
    for _ in range(60):
        actions = rng.integers(2, size=3)
        step = ours.step(actions)
        for env in np.flatnonzero(step.is_transition):  # the others are resets
            theirs.reset()
            theirs.state = step.observations[env].astype(np.float64)  # type: ignore[attr-defined]
            following, reward, terminated, _, _ = theirs.step(actions[env])
            np.testing.assert_allclose(step.next_observations[env], following, atol=1e-5)
            assert (step.rewards[env], step.terminated[env]) == (reward, terminated)
            real, ended = real + 1, ended + terminated
        assert step.final_envs.size == 0
    assert 100 < real < 180, "some steps are resets"
    assert ended


def test_the_seed_decides_and_no_two_are_alike(opened: Callable[..., Environments]) -> None:
    first, again, other = (opened(pool(), 2, seed).observations for seed in (5, 5, 6))
    assert (first == again).all()
    assert not (first == other).any()
    assert not (first[0] == first[1]).any()


def test_evaluations_depend_on_the_seed_alone() -> None:
    config = Config.from_values({"env_id": "CartPole-v1", "vectorization": "envpool"})
    evaluation, returns = Evaluation(config, 4), []
    for _ in range(2):
        playing = evaluation.begin(7)
        while playing.episodes:
            playing = evaluation.step(Acted(np.ones(4, np.int32), playing.state))
        returns.append(evaluation.end().returns.tolist())
    assert returns[0] == returns[1]
    evaluation.environments.close()


def test_time_limits_are_truncations(opened: Callable[..., Environments]) -> None:
    envs = opened(pool(env_kwargs='{"max_episode_steps": 3}'), 2)
    steps = [envs.step(np.array([i % 2, i % 2])) for i in range(4)]
    assert [step.truncated.tolist() for step in steps] == [[False] * 2, [False] * 2, [True] * 2,
                                                           [False] * 2]  # fmt: skip
    assert not any(step.terminated.any() for step in steps)
    assert not steps[3].is_transition.any()


def test_frames_of_atari_are_stacked_by_itself() -> None:
    found = environments.describe(pool("Pong-v5", frame_stack=4))
    assert (found.observation_shape, found.observation_dtype) == ((4, 84, 84), np.uint8)


@pytest.mark.parametrize("frames", [1, 3])
def test_continuous_actions_are_listed_and_frames_stacked_around_it(
    opened: Callable[..., Environments], frames: int
) -> None:
    config = pool("Pendulum-v1", action_bins=3, frame_stack=frames)
    envs, single = opened(config, 3), gymnasium.make("Pendulum-v1")
    assert envs.num_actions == 3
    assert envs.spec.observation_shape == ((3,) if frames == 1 else (frames, 3))
    step = envs.step(np.array([0, 1, 2]))
    newest = step.observations.reshape(3, -1, 3)[:, -1]
    for before, torque, reward in zip(newest, (-2.0, 0.0, 2.0), step.rewards, strict=True):
        single.reset()
        single.unwrapped.state = np.array([np.arctan2(before[1], before[0]), before[2]])  # type: ignore[attr-defined]
        assert single.step(np.float32([torque]))[1] == pytest.approx(reward, abs=1e-4)
    if frames > 1:
        assert (step.next_observations[:, :-1] == step.observations[:, 1:]).all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (pool("ALE/Pong-v5"), "EnvPool has none of this name .*Pong-v5"),
        (pool("no such thing"), "--env_id=no such thing: EnvPool has none of this name"),
        (pool("Pendulum-v1"), "--env_id=Pendulum-v1: its actions are Box.* say --action_bins=5"),
        (pool(action_bins=5), "--action_bins=5: has no effect, as the actions of CartPole-v1"),
        (pool("Taxi-v3"), r"--env_id=Taxi-v3: its observations are Discrete\(500\)"),
        (pool(env_wrappers="a.b:C"), "--env_wrappers=a.b:C: EnvPool's environments"),
        (pool("Pong-v5", frame_stack=3), "--frame_stack=3: EnvPool's observations here have the"),
        (pool("Pong-v5", env_kwargs='{"reward_clip": true}'), "it would limit the scores too"),
        (pool(env_kwargs='{"nonsense": 1}'), "--env_id=CartPole-v1: cannot be made .*nonsense"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_is_said(options: Environment, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        environments.describe(options)


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    there = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "envpool":
            raise ImportError(name)
        return there(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r'pip install "ps-dqn\[envpool\]"'):
        environments.describe(pool())
