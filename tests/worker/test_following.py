"""A worker counts what its environments show and pay, in steps that are real."""

import json

import numpy as np
import pytest
from gymnasium import spaces
from support.small_networks import NUMBER, VECTOR

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec, Step, parts
from ps_dqn.moments import Moments
from ps_dqn.worker.playing.following import Following

NUM_ENVS = 3
SPACE = spaces.Dict(far=spaces.Box(-99, 99, (2,), np.float32), which=spaces.Discrete(3))
PARTS = EnvironmentSpec((12,), np.dtype(np.uint8), 3, None, parts=parts.parts_of(SPACE))
NONE = np.zeros(NUM_ENVS, np.bool_)


def config(**values: object) -> Config:
    return Config.from_values({"num_envs_per_worker": NUM_ENVS, "gamma": 0.5, **values})


def step(observations: np.ndarray, rewards: list[float], **changes: object) -> Step:
    made = Step(
        observations=observations, actions=np.zeros(NUM_ENVS, np.int64),
        rewards=np.array(rewards), terminated=NONE, truncated=NONE, is_transition=~NONE,
        next_observations=observations, final_envs=np.zeros(0, np.int64),
        final_observations=observations[:0],
    )  # fmt: skip
    return made._replace(**changes)


def seen(options: Config, spec: EnvironmentSpec, steps: list[Step]) -> Moments:
    following = Following(options, spec)
    found = following.nothing()
    for each in steps:
        following.see(each, found)
    return found


def test_nothing_is_counted_where_nothing_is_wanted() -> None:
    assert len(seen(config(), VECTOR, [step(np.ones((3, 4)), [1, 1, 1])]).mean) == 0


def test_observations_that_were_acted_on_are_counted() -> None:
    first, second = np.random.default_rng(0).normal(size=(2, NUM_ENVS, 4)).astype(np.float32)
    resets = np.array([True, False, True])
    steps = [step(first, [0, 0, 0]), step(second, [0, 0, 0], is_transition=resets)]
    found = seen(config(normalize_observations=True), VECTOR, steps)
    expected = np.concatenate([first, second[resets]])
    assert found.count == 5
    np.testing.assert_allclose(found.mean, expected.mean(axis=0), atol=1e-7)
    np.testing.assert_allclose(found.squares / 5, expected.var(axis=0), rtol=1e-5)


def test_an_observation_may_be_a_single_number() -> None:
    observations = np.array([1.0, 2.0, 6.0], np.float32)
    options = config(normalize_observations=True)
    assert seen(options, NUMBER, [step(observations, [0, 0, 0])]).mean.tolist() == [3.0]


def test_returns_are_discounted_sums_of_the_rewards_so_far() -> None:
    shown = np.zeros((NUM_ENVS, 4), np.float32)
    ends = np.array([False, True, False])
    steps = [
        step(shown, [1, 2, 4], terminated=ends),
        step(shown, [1, 9, 4], is_transition=~ends),  # environment 1 begins anew
        step(shown, [1, 2, 4], failed_envs=np.array([2]), is_transition=np.array([1, 1, 0], bool)),
        step(shown, [0, 0, 4]),
    ]
    found = seen(config(normalize_returns=True), VECTOR, steps)
    expected = [1, 2, 4, 1.5, 6, 1.75, 2, 0.875, 1, 4]
    assert found.count == len(expected)
    assert found.mean[0] == pytest.approx(np.mean(expected))
    assert found.squares[0] == pytest.approx(len(expected) * np.var(expected))


def test_of_parts_the_quantities_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from support.programs import ROOT

    from ps_dqn.environments import Environments

    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    options = config(env_id="hall:Picker", normalize_observations=True)
    envs = Environments(options.environment, NUM_ENVS)
    envs.reset(seed=0)
    steps = [envs.step(np.zeros(NUM_ENVS, np.int64)) for _ in range(3)]
    found = seen(options, envs.spec, steps)
    assert envs.spec.num_quantities == 1
    batteries = [each.observations[:, :4].copy().view(np.float32) for each in steps]
    assert found.mean.tolist() == [pytest.approx(np.mean(batteries))]
    envs.close()


def test_the_options_are_refused_where_they_have_no_effect() -> None:
    from ps_dqn.errors import UsageError

    options = config(normalize_observations=True)
    for values, said in (
        ({"normalize_returns": True, "value_distribution": "c51"}, "--normalize_returns=on"),
        (
            {"normalize_observations": True, "optimizer": "adamw"},
            "--optimizer=adamw: would shrink the means of --normalize_observations",
        ),
        (
            {"normalize_observations": True, "pull_wire_dtype": "bfloat16"},
            "--pull_wire_dtype=bfloat16: would round the means of --normalize_observations",
        ),
    ):
        with pytest.raises(UsageError, match=said):
            config(**values)
    assert json.loads(options.to_json())


@pytest.mark.parametrize("spec", [VECTOR, NUMBER, PARTS], ids=["vector", "number", "parts"])
def test_a_step_in_which_all_begin_anew_counts_nothing(spec: EnvironmentSpec) -> None:
    options = config(normalize_observations=True, normalize_returns=True)
    observations = np.ones((NUM_ENVS, *spec.observation_shape), spec.observation_dtype)
    steps = [step(observations, [0, 0, 0], is_transition=NONE)]
    assert seen(options, spec, steps).count == 0
