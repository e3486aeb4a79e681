"""Episodes are counted whose discounted returns the atoms do not span."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from support.paying_env import SMALL

from ps_dqn.config import Config
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing import outside_atoms
from ps_dqn.worker.playing.actor import Actor


class Late(gymnasium.Env):
    """Pays once, with the last of so many steps."""

    def __init__(self, paid: float = 100.0, steps: int = 300, length: int = 300):
        self.observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(3)
        self._paid, self._steps, self._length, self._time = paid, steps, length, 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._time += 1
        paid = self._paid if self._time == self._steps else 0.0
        return np.zeros(1, np.float32), paid, self._time == self._length, False, {}


gymnasium.register("TestOutside/Late-v0", Late, disable_env_checker=True)

Open = Callable[..., Actor]
ATOMS = {"gamma": 0.99, "v_min": -10.0, "value_distribution": "c51"}


@pytest.fixture
def opened() -> Iterator[Open]:
    """Makes actors; their environments are ended after the test."""
    made: list[Actor] = []

    def make(**values: Any) -> Actor:
        made.append(Actor(Config.from_values(SMALL | values), worker=0))
        return made[-1]

    yield make
    for each in made:
        each.close()


def act(actor: Actor, steps: int) -> None:
    for _ in range(steps):
        observations, states, _ = actor.acting
        actor.step(Acted(np.ones(len(observations), np.int32), states), epsilon=0.0)


@pytest.mark.parametrize(
    ("kwargs", "v_max", "outside"),
    [
        # From the start the return is 4.9, from each of the last 230 steps it is beyond 10.
        ('{"paid": 100.0}', 10.0, True),
        ('{"paid": 100.0}', 100.0, False),
        ('{"paid": -100.0}', 100.0, True),
        ('{"paid": 12.0}', 10.0, False),  # 19 of 300 steps are no tenth
    ],
)
def test_a_return_may_leave_the_atoms_late_in_an_episode(
    opened: Open, kwargs: str, v_max: float, outside: bool
) -> None:
    actor = opened(env_id="TestOutside/Late-v0", env_kwargs=kwargs, v_max=v_max, **ATOMS)
    act(actor, 601)  # two episodes, and the reset between them
    gathered = actor.take_gathered()
    assert len(gathered.returns) == 4
    assert gathered.returns_outside == 4 * outside


@pytest.mark.parametrize(("paid_at", "outside"), [(40, 0), (59, 0), (63, 2), (150, 2)])
def test_of_a_long_episode_the_last_steps_are_looked_at(
    opened: Open, monkeypatch: pytest.MonkeyPatch, paid_at: int, outside: int
) -> None:
    monkeypatch.setattr(outside_atoms, "MOST", 100)  # of 150
    kwargs = json.dumps({"steps": paid_at, "length": 150})
    actor = opened(env_id="TestOutside/Late-v0", env_kwargs=kwargs, v_max=10.0, **ATOMS)
    act(actor, 150)
    assert actor.take_gathered().returns_outside == outside


@pytest.mark.parametrize("distribution", ["c51", "hl_gauss"])
@pytest.mark.parametrize(
    ("most", "outside"), [(1 + 0.5 + 0.25 + 0.125 + 0.01, 0), (1 + 0.5 + 0.25 + 0.125 - 0.01, 4)]
)
def test_episodes_are_counted_whose_discounted_return_leaves_the_atoms(
    opened: Open, most: float, outside: int, distribution: str
) -> None:
    # Two episodes of four steps of reward 1 in both environments, and the resets between them.
    options = {"v_min": -1.0, "v_max": most, "gamma": 0.5}
    actor = opened(value_distribution=distribution, **options)
    act(actor, 9)
    gathered = actor.take_gathered()
    assert (len(gathered.returns), gathered.returns_outside) == (4, outside)
    assert actor.take_gathered().returns_outside == 0


HL_GAUSS = {"value_distribution": "hl_gauss"}


@pytest.mark.parametrize("by", [{}, {"value_rescaling": True}, {"normalize_returns": True}])
def test_atoms_of_something_else_than_returns_are_left_by_none(
    opened: Open, by: dict[str, Any]
) -> None:
    actor = opened(**(HL_GAUSS | by if by else {}))
    act(actor, 9)
    assert actor.take_gathered().returns_outside == 0
