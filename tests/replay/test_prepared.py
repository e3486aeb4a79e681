"""Batches that are drawn before they are asked for.

The toy environment is that of `support/paying_env.py`: it observes [episode, time].
"""

from typing import Any

import numpy as np
import pytest
from support.paying_env import SMALL

from ps_dqn.config import Config
from ps_dqn.environments import Environments
from ps_dqn.replay.memory import Memory
from ps_dqn.replay.plan import make_memory

UPDATES, BATCH = 8, 16
ITEMS: dict[str, dict[str, Any]] = {
    "transitions": {},
    "sequences": {"recurrent_size": 2, "burn_in": 1, "sequence_length": 3, "n_step": 2},
}


def filled(**values: Any) -> Memory:
    """A memory of forty steps of two environments."""
    config = Config.from_values({**SMALL, "local_updates": UPDATES, **values})
    environments = Environments(config.environment, 2)
    environments.reset(0)
    rng = np.random.default_rng(3)
    memory = make_memory(config, environments.spec, rng, None)
    for _ in range(40):
        states = np.zeros((2, config.state_size), np.float32)
        memory.append(environments.step(np.ones(2, np.int64))._replace(states=states))
    environments.close()
    return memory


@pytest.mark.parametrize("replay", ["uniform", "prioritized", "recent"])
@pytest.mark.parametrize("items", ITEMS.values(), ids=ITEMS)
def test_what_was_prepared_is_sampled_once(replay: str, items: dict[str, Any]) -> None:
    ahead, twin = filled(replay=replay, **items), filled(replay=replay, **items)
    ahead.prepare(UPDATES, BATCH, 0.5)
    ahead.prepare(UPDATES, BATCH, 0.9)  # it is there already
    for progress, now in ((0.5, 0.75), (0.25, 0.25)):
        expected = twin.sample(UPDATES, BATCH, progress)
        pairs = zip(ahead.sample(UPDATES, BATCH, now), expected, strict=True)
        assert all((one == other).all() for one, other in pairs)


def test_priorities_are_of_what_was_sampled_and_not_of_what_is_prepared() -> None:
    memory = filled(replay="prioritized", priority_alpha=1.0, priority_epsilon=1e-6)
    for _ in range(30):
        times = memory.sample(UPDATES, BATCH).observations[..., 1]
        memory.prepare(UPDATES, BATCH)
        memory.update_priorities(np.where(times == 2, np.float32(5), np.float32(0)))
    memory.sample(UPDATES, BATCH)  # drawn before the last errors
    times = memory.sample(UPDATES, BATCH).observations[..., 1]
    assert set(times.ravel().tolist()) == {2.0}
