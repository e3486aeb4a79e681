"""What a batch is said to be like beforehand, against what a memory hands out."""

import pathlib
from typing import Any

import numpy as np
import pytest

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec, Step
from ps_dqn.replay.batch import Batch, Rollout, Sequences, Transitions, batch_specs, zero_batch
from ps_dqn.replay.plan import make_memory

ENVS = 3
ENVIRONMENT = EnvironmentSpec((4, 5), np.dtype(np.uint8), 2, None)
SIZES = {
    "num_envs_per_worker": ENVS,
    "local_updates": 2,
    "update_period": 6,
    "batch_size": 12,
    "replay_capacity": 300,
    "min_replay_size": 1,
}
ROLLOUT = {
    "replay": "rollout",
    "replay_capacity": None,
    "min_replay_size": Config().replay.min_replay_size,
    "target_update_period": 0,
    "double_dqn": False,
    "n_step": 1,
}
SEQUENCES = {"recurrent_size": 7, "burn_in": 2, "sequence_length": 5, "sequence_period": 3}
KINDS: dict[str, tuple[dict[str, Any], type[Batch], int]] = {
    "transitions": ({"n_step": 2}, Transitions, 20),
    "demonstrations": ({"n_step": 2, "demonstrations": "shown.npz"}, Transitions, 20),
    "sequences": ({"n_step": 2, **SEQUENCES}, Sequences, 20),
    "rollout": (ROLLOUT, Rollout, 4),
    "recurrent_rollout": ({"recurrent_size": 7, **ROLLOUT}, Rollout, 4),
}


def step(state_size: int) -> Step:
    """Of episodes that go on, with nothing in it but ones."""
    observations, no = np.ones((ENVS, 4, 5), np.uint8), np.zeros(ENVS, np.bool_)
    return Step(
        observations=observations,
        actions=np.ones(ENVS, np.int64),
        rewards=np.ones(ENVS),
        terminated=no,
        truncated=no,
        is_transition=~no,
        next_observations=observations,
        final_envs=np.zeros(0, np.int64),
        final_observations=observations[:0],
        states=np.ones((ENVS, state_size), np.float32) if state_size else None,
    )


@pytest.mark.parametrize("name", KINDS)
def test_batches_are_as_they_are_said_to_be(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    observations, nothing = np.ones((9, 4, 5), np.uint8), np.zeros(9, np.int64)
    arrays = {"actions": nothing, "rewards": nothing, "terminated": nothing}
    np.savez("shown.npz", observations=observations, **arrays)  # type: ignore[arg-type]
    values, kind, steps = KINDS[name]
    config = Config.from_values(SIZES | values)
    memory = make_memory(config, ENVIRONMENT, np.random.default_rng(0), folder=None)
    for _ in range(steps):
        memory.append(step(config.state_size))
    batch = memory.sample(2, 12)
    said, specs = batch_specs(config, ENVIRONMENT)
    assert said is type(batch) is kind
    found = {name: (array.shape, array.dtype) for name, array in batch._asdict().items()}
    assert found == specs


@pytest.mark.parametrize("name", KINDS)
def test_a_zero_batch_is_like_any_and_holds_nothing(name: str) -> None:
    values, kind, _ = KINDS[name]
    config = Config.from_values(SIZES | values)
    batch, (_, specs) = zero_batch(config, ENVIRONMENT), batch_specs(config, ENVIRONMENT)
    assert type(batch) is kind
    assert [(array.shape, array.dtype) for array in batch] == list(specs.values())
    assert not any(array.any() for array in batch)


def test_no_two_axes_of_a_sequence_are_mixed_up() -> None:
    config = Config.from_values(SIZES | SEQUENCES | {"n_step": 2})
    _, specs = batch_specs(config, ENVIRONMENT)
    assert specs["observations"] == ((2, 12, 2 + 5 + 2, 4, 5), np.uint8)
    assert specs["states"] == ((2, 12, 16), np.float32)
    assert specs["actions"] == ((2, 12, 2 + 5 + 2), np.int32)
    assert specs["bootstraps"] == ((2, 12, 5), np.int32)
