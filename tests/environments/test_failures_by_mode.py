"""Environments that fail, however they begin their next episodes."""

import json
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from support.misbehaving_env import LENGTH

from ps_dqn.config import Environment
from ps_dqn.environments import Environments, Step
from ps_dqn.errors import UsageError

NUM_ENVS = 3
MODES = ["NextStep", "SameStep", "Disabled"]
Open = Callable[..., Environments]


@pytest.fixture
def opened() -> Iterator[Open]:
    made: list[Environments] = []

    def make(env_id: str, frame_stack: int = 1, **kwargs: object) -> Environments:
        options = Environment(
            env_id=env_id,
            env_module="support.misbehaving_env",
            env_kwargs=json.dumps(kwargs),
            frame_stack=frame_stack,
        )
        made.append(Environments(options, NUM_ENVS))
        made[-1].reset(0)
        return made[-1]

    yield make
    for each in made:
        each.close()


def play(envs: Environments, steps: int) -> list[Step]:
    return [envs.step(np.zeros(NUM_ENVS, np.int64)) for _ in range(steps)]


def steps_of(envs: Environments, steps: int) -> list[Step]:
    """Steps whose real rows are each of one episode, and finite."""
    found = play(envs, steps)
    for step in found:
        reached = step.next_observations.copy()
        reached[step.final_envs] = step.final_observations
        assert np.isfinite(step.observations).all()
        assert np.isfinite(step.next_observations).all()
        for i in np.flatnonzero(step.is_transition):
            assert (reached[i] - step.observations[i]).tolist() == [0, 1]
            assert step.terminated[i] == (reached[i, 1] == LENGTH)
    return found


def real(steps: list[Step], env: int) -> str:
    """Of each step whether its row is."""
    return "".join(".r"[int(step.is_transition[env])] for step in steps)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("how", "kind"), [("raises", "raised"), ("nan observation", "not_finite")])
def test_a_guarded_failure_is_in_no_transition(
    opened: Open, mode: str, how: str, kind: str
) -> None:
    envs = opened("Misbehaving-v0", how=how, at=7, vector_kwargs={"autoreset_mode": mode})
    steps = steps_of(envs, 16)
    begins = "." if mode == "NextStep" else ""
    assert real(steps, 1) == (("rrrrrr." + begins) * 3)[:16]
    assert steps[6].failed_envs.tolist() == [0, 1, 2]
    assert not steps[6].final_envs.size
    assert envs.failures[kind] == NUM_ENVS * 2


@pytest.mark.parametrize("mode", MODES[1:])  # of the first see test_guarded.py
def test_an_episode_that_begins_badly_does_not_count(opened: Open, mode: str) -> None:
    envs = opened("MisbehavingVector-v0", how="nan anew", at=99, mode=mode)
    steps = steps_of(envs, 25)
    assert real(steps, 0) == "r" * 25
    assert real(steps, 1) == "r" * LENGTH + "." * LENGTH + "r" * 5
    assert steps[LENGTH - 1].final_envs.tolist() == [0, 1, 2]
    assert steps[2 * LENGTH - 1].final_envs.tolist() == [0, 2]
    assert envs.failures["not_finite"] == 1


def test_a_vector_whose_reset_raises_is_made_anew(opened: Open) -> None:
    envs = opened("MisbehavingVector-v0", how="reset raises", at=99, mode="Disabled")
    steps = steps_of(envs, 2 * LENGTH)
    assert real(steps, 2) == ("r" * (LENGTH - 1) + ".") * 2
    assert steps[LENGTH - 1].failed_envs.tolist() == [0, 1, 2]
    assert envs.failures["raised"] == 2


@pytest.mark.parametrize("frames", [1, 2])
def test_a_vector_that_does_not_say_how_episodes_ended_is_refused(
    opened: Open, frames: int
) -> None:
    kwargs = {"how": "no last observations", "at": 99, "mode": "SameStep"}
    envs = opened("MisbehavingVector-v0", frames, **kwargs)
    with pytest.raises(UsageError, match=r"in its infos, and there is no 'final_obs'"):
        play(envs, LENGTH)
