"""Who goes on with a run draws otherwise than it began, also from a memory that is the same.

Everything but the draws is the same here: greedy actions in the toy of `support/paying_env.py`.
"""

import pathlib
from typing import Any

import numpy as np
import pytest
from support.worker_calls import Open

from ps_dqn.config import Config
from ps_dqn.replay.batch import Batch, Rollout, Transitions

GREEDY = {"epsilon_start": 0.0, "epsilon_end": 0.0, "min_replay_size": 60}
KINDS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "prioritized": {"replay": "prioritized"},
    "recent": {"replay": "recent", "local_updates": 8},
    "rollout": {
        "replay": "rollout",
        "target_update_period": 0,
        "double_dqn": False,
        "update_period": 3,
        "batch_size": 6,
        "min_replay_size": Config().replay.min_replay_size,
        "replay_capacity": None,
    },
    "demonstrations": {"demonstration_share": 0.5},
    "offline": {"offline": True},
}


def demonstrated(folder: pathlib.Path) -> str:
    path, times = folder / "shown.npz", np.arange(200)
    np.savez(
        path,
        observations=np.stack([times, times], axis=1),
        actions=np.ones(200, np.int64),
        rewards=np.zeros(200, np.float32),
        terminated=times == 199,
    )
    return str(path)


def learned_from(batch: Batch) -> list[list[float]]:
    """What the draws have decided, of each generator that there may be."""
    if isinstance(batch, Rollout):
        return [batch.order.ravel().tolist()]
    assert isinstance(batch, Transitions)
    whole = [batch.observations.ravel().tolist()]
    if not batch.demonstrated.size:
        return whole
    return [*whole, batch.observations[batch.demonstrated[..., 0] == 1].ravel().tolist()]


@pytest.mark.parametrize("kind", KINDS)
def test_the_draws_are_of_where_the_run_is(opened: Open, tmp_path: pathlib.Path, kind: str) -> None:
    values = GREEDY | KINDS[kind]
    if kind in ("demonstrations", "offline"):
        values["demonstrations"] = demonstrated(tmp_path)

    def drawn(env_steps: int) -> list[list[float]]:
        worker = opened(**values)
        if env_steps:
            worker.restore(env_steps)
        if worker.pull().acting.should_act:
            worker.collect()
        return learned_from(worker.sample().batch)

    fresh, resumed, later = drawn(0), drawn(25), drawn(50)
    assert fresh == drawn(0)
    assert resumed == drawn(25), "what it goes on from decides"
    for one, other in ((fresh, resumed), (resumed, later), (fresh, later)):
        assert all(a != b for a, b in zip(one, other, strict=True))
