"""Environments that fail: what they do wrong is in no transition, and others go on."""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.misbehaving_env import LENGTH

from ps_dqn.config import Config, Environment
from ps_dqn.environments import Environments, Step
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Actor, Evaluation

NUM_ENVS = 3
KINDS = {
    "raises": "raised",
    "leaves": "raised",
    "nan observation": "not_finite",
    "infinite reward": "not_finite",
    "huge reward": "not_finite",  # it is infinite in float32, which is kept
    "no reward": "malformed",
    "wrong shape": "malformed",
    "no observation": "malformed",
}


def config(env_id: str = "Misbehaving-v0", vectorization: str = "auto", **kwargs: Any) -> Any:
    timeout = kwargs.pop("env_timeout", 60.0)
    return Environment(
        env_id=env_id,
        env_module="support.misbehaving_env",
        env_kwargs=json.dumps(kwargs),
        vectorization=vectorization,
        env_timeout=timeout,
    )


@pytest.fixture
def opened(tmp_path: pathlib.Path) -> Iterator[Any]:
    made: list[Environments] = []

    def make(options: Environment) -> Environments:
        made.append(Environments(options, NUM_ENVS, str(tmp_path)))
        made[-1].reset(0)
        return made[-1]

    yield make
    for each in made:
        each.close()


def steps_of(envs: Environments, steps: int) -> list[Step]:
    return [envs.step(np.zeros(NUM_ENVS, np.int64)) for _ in range(steps)]


def check(steps: list[Step]) -> int:
    """Real rows are of one episode each, one after the other; how many there are."""
    rows = 0
    for step in steps:
        assert np.isfinite(step.observations).all()
        assert np.isfinite(step.next_observations).all()
        assert np.isfinite(step.rewards).all()
        for i in np.flatnonzero(step.is_transition):
            before, after = step.observations[i], step.next_observations[i]
            assert before[0] == after[0]
            assert after[1] == before[1] + 1
            assert step.rewards[i] == 1.0
            assert step.terminated[i] == (after[1] == LENGTH)
            assert not step.truncated[i]
            rows += 1
        assert not step.is_transition[step.failed_envs].any()
    return rows


@pytest.mark.parametrize("how", KINDS)
def test_a_failure_cuts_the_episode_off_and_another_begins(opened, how: str) -> None:
    envs = opened(config(how=how, at=7))
    steps = steps_of(envs, 40)
    # Six real steps, the seventh fails, the eighth is the reset; and so on in the environment that
    # takes its place.
    assert check(steps) == NUM_ENVS * 40 * 6 // 8
    assert [step.failed_envs.tolist() for step in steps[:8]] == [[]] * 6 + [[0, 1, 2], []]
    assert {kind: count for kind, count in envs.failures.items() if count} == {
        KINDS[how]: NUM_ENVS * 5
    }


def test_large_numbers_are_finite(opened) -> None:
    envs = opened(config(offset=3e38))
    steps = steps_of(envs, 11)
    assert all(step.is_transition.all() for step in steps[:10])
    assert not any(envs.failures.values())


def test_a_reset_that_fails_is_made_again(opened) -> None:
    envs = opened(config(resets=2))
    steps = steps_of(envs, 45)
    assert check(steps) > 100
    # One that is made anew begins; the second episode of each would not.
    assert envs.failures["raised"] == 0, "no step has failed"


def test_an_environment_that_never_begins_is_an_error(opened) -> None:
    with pytest.raises(RuntimeError, match="it will not begin"):
        opened(config(resets=1))


def test_failures_in_processes_of_their_own(opened) -> None:
    envs = opened(config(how="raises", at=7, vectorization="async"))
    assert check(steps_of(envs, 16)) == NUM_ENVS * 12
    assert envs.failures["raised"] == NUM_ENVS * 2


@pytest.mark.parametrize(
    ("how", "kind", "limit"), [("exits", "vanished", 60.0), ("hangs", "hung", 0.5)]
)
def test_processes_that_vanish_or_hang_are_replaced(
    opened, how: str, kind: str, limit: float
) -> None:
    envs = opened(config(how=how, at=7, vectorization="async", env_timeout=limit))
    # Of the step that never ends: others may take their time, however busy the machine is.
    limit, envs._timeout = envs._timeout, 60.0
    steps = steps_of(envs, 6)
    envs._timeout = limit
    steps += steps_of(envs, 1)
    envs._timeout = 60.0
    steps += steps_of(envs, 3)
    assert check(steps) == NUM_ENVS * 9
    assert steps[6].failed_envs.tolist() == [0, 1, 2]
    assert envs.failures[kind] == 1


@pytest.mark.parametrize("how", ["nan observation", "huge reward"])
def test_rows_of_a_vector_do_not_count_from_the_failure_to_the_episodes_end(opened, how) -> None:
    envs = opened(config("MisbehavingVector-v0", how=how, at=7))
    steps = steps_of(envs, 25)
    lane = [bool(step.is_transition[1]) for step in steps]
    others = [bool(step.is_transition[0]) for step in steps]
    assert others == ([True] * 10 + [False]) * 2 + [True] * 3
    assert lane == [True] * 6 + [False] * 5 + others[11:]
    check(steps)
    assert envs.failures["not_finite"] == 1
    assert [step.failed_envs.tolist() for step in steps].count([1]) == 1


def test_an_episode_that_begins_with_what_is_not_finite_does_not_count(opened) -> None:
    envs = opened(config("MisbehavingVector-v0", at=0))
    steps = steps_of(envs, 21)
    assert [bool(step.is_transition[1]) for step in steps] == [False] * 11 + [True] * 10
    check(steps)
    assert envs.failures["not_finite"] == 1


def test_an_episode_that_ends_with_what_is_not_finite_ends_before_it(opened) -> None:
    """Where the next one begins in the same step, its first observation is what is to be seen."""
    envs = opened(config("MisbehavingVector-v0", how="nan once", at=LENGTH, mode="SameStep"))
    steps = steps_of(envs, 25)
    last = steps[LENGTH - 1]
    assert last.is_transition.tolist() == [True, False, True]
    assert last.final_envs.tolist() == [0, 2]
    assert np.isfinite(last.final_observations).all()
    assert last.failed_envs.tolist() == [1]
    assert not (last.terminated | last.truncated)[1]
    assert (last.next_observations[:, 1] == 0).all()
    # The one after it begins as if nothing had been.
    assert all(step.is_transition.all() for step in steps[:9] + steps[10:])
    assert envs.failures["not_finite"] == 1


def test_a_vector_that_raises_is_made_anew(opened) -> None:
    envs = opened(config("MisbehavingVector-v0", how="raises", at=7))
    steps = steps_of(envs, 21)
    assert [bool(step.is_transition.all()) for step in steps] == ([True] * 6 + [False]) * 3
    assert check(steps) == NUM_ENVS * 18
    assert steps[6].failed_envs.tolist() == [0, 1, 2]
    assert envs.failures["raised"] == 3


def actor_config(**options: Any) -> Config:
    return Config.from_values(
        {
            "env_id": "Misbehaving-v0",
            "env_module": "support.misbehaving_env",
            "env_kwargs": '{"how": "raises", "at": 7}',
            "num_envs": NUM_ENVS,
            "replay_capacity": 600,
            "min_replay_size": 64,
            "batch_size": 32,
            **options,
        }
    )


@pytest.mark.parametrize("n_step", [1, 3])
def test_no_sampled_transition_joins_two_episodes(n_step: int) -> None:
    actor = Actor(actor_config(n_step=n_step), worker=0)
    for _ in range(150):
        acted = Acted(np.zeros(NUM_ENVS, np.int32), np.zeros((NUM_ENVS, 0), np.float32))
        actor.step(acted, 0.0)
    batch = actor.memory.sample(20, 32)
    counted = batch.weights > 0
    before, after = batch.observations[counted], batch.next_observations[counted]
    assert len(before) > 300
    assert (before[:, 0] == after[:, 0]).all()
    taken = after[:, 1] - before[:, 1]
    # Six steps before the failure: those near it look less far ahead.
    assert (taken == np.minimum(n_step, 6 - before[:, 1])).all()
    # None of them ended: values are bootstrapped.
    assert np.allclose(batch.discounts[counted], 0.99**taken)
    gathered = actor.take_gathered()
    assert gathered.returns == []  # no episode was whole
    assert gathered.failures["raised"] == NUM_ENVS * (150 // 8)
    assert gathered.env_steps == actor_steps(150)
    actor.close()


def actor_steps(steps: int) -> int:
    return NUM_ENVS * sum(step % 8 < 6 for step in range(steps))


def test_an_evaluation_plays_the_episode_again() -> None:
    options = actor_config(env_kwargs='{"how": "raises", "at": 7}', max_eval_steps=1000)
    evaluation = Evaluation(options, 2)
    evaluation.begin(3)
    playing = 2
    steps = 0
    while playing and steps < 60:
        playing = int(evaluation.step(Acted(np.zeros(2, np.int32), np.zeros((2, 0)))).episodes)
        steps += 1
    # It fails again and again here; what came before a failure never counts.
    assert playing == 2
    assert (evaluation.end().returns <= 6).all()
    evaluation.environments.close()
