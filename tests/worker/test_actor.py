"""What collects in a worker, called as the worker's host calls them.

The toy environment is that of `support/paying_env.py`: rewards tell which actions were taken.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.paying_env import SMALL

from ps_dqn.config import Config
from ps_dqn.errors import UsageError
from ps_dqn.replay.batch import Transitions
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Actor

# A sequence takes 3 + 4 + 3 rows.
RECURRENT = {"recurrent_size": 1, "burn_in": 3, "sequence_length": 4, "n_step": 3}


def config(**values: Any) -> Config:
    return Config.from_values(SMALL | values)


Open = Callable[..., Actor]


@pytest.fixture
def opened() -> Iterator[Open]:
    """Makes actors; their environments are ended after the test."""
    made: list[Actor] = []

    def make(worker: int = 0, **values: Any) -> Actor:
        made.append(Actor(config(**values), worker))
        return made[-1]

    yield make
    for each in made:
        each.close()


def act(actor: Actor, steps: int, epsilon: float = 0.0, action: int = 1) -> np.ndarray:
    """Steps with the same greedy action for everyone; what there is to act on next."""
    for _ in range(steps):
        observations, states, _ = actor.acting
        actor.step(Acted(np.full(len(observations), action, np.int32), states), epsilon)
    return actor.environments.observations


def sample(actor: Actor) -> Transitions:
    """What a push would learn from."""
    batch = actor.memory.sample(*actor.nothing.actions.shape)
    assert isinstance(batch, Transitions)
    return batch


def test_it_collects_until_it_is_warm_and_samples(opened: Open) -> None:
    actor = opened()
    assert actor.environments.observations.tolist() == [[0, 0], [0, 0]]
    calls = 0
    while not actor.memory.is_warm:
        act(actor, 1)
        calls += 1
    # 6 rows of each environment that have one after them.
    assert calls == 7
    assert actor.memory.size == 12
    batch = sample(actor)
    assert batch.observations.shape == batch.next_observations.shape == (2, 8, 2)
    assert [batch[i].shape for i in (1, 2, 3)] == [(2, 8)] * 3
    assert batch.actions.dtype == np.int32
    assert (batch.returns == 1).all(), "the reward is the action"
    # 7 steps: four of an episode, a reset, two more.
    gathered = actor.take_gathered()
    assert gathered.env_steps == 12
    assert gathered.returns == [4, 4]


def test_environments_of_a_run_that_others_began_are_seeded_otherwise(opened: Open) -> None:
    def reset_seeds(env_steps: int) -> list[Any]:
        actor, seen = opened(), []
        actor.environments.reset = seen.append  # type: ignore[method-assign, assignment]
        actor.start(env_steps)
        return seen

    assert reset_seeds(10) == reset_seeds(10) != reset_seeds(11)
    assert reset_seeds(0) != reset_seeds(10)


def test_no_minibatches_look_like_minibatches_and_draw_nothing(opened: Open) -> None:
    actor, twin = opened(), opened()
    for each in (actor, twin):
        act(each, 20, epsilon=0.5)
    nothing, drawn, expected = actor.nothing, sample(actor), sample(twin)
    for empty, real, same in zip(nothing, drawn, expected, strict=True):
        assert (empty.shape, empty.dtype) == (real.shape, real.dtype)
        assert not empty.any()
        assert (real == same).all(), "the sampler's random numbers went on as if nothing had been"


def test_reset_steps_are_not_counted(opened: Open) -> None:
    actor = opened()
    # Ten steps: 4 of an episode, a reset, 4, a reset. Two environments.
    act(actor, 10)
    gathered = actor.take_gathered()
    assert gathered.env_steps == 16
    assert len(gathered.returns) == 4
    act(actor, 1)
    assert actor.take_gathered().env_steps == 2


def test_what_is_gathered_is_since_the_last_time(opened: Open) -> None:
    actor = opened()
    act(actor, 3)
    assert actor.take_gathered().env_steps == 6
    assert actor.take_gathered().env_steps == 0
    act(actor, 1)
    gathered = actor.take_gathered()
    assert (gathered.env_steps, len(gathered.returns)) == (2, 2)
    act(actor, 2)
    assert actor.take_gathered().env_steps == 2, "one of the two steps was the reset"


def test_episode_returns_span_what_is_taken(opened: Open) -> None:
    actor = opened()
    act(actor, 2, action=2)
    assert actor.take_gathered().returns == []
    act(actor, 2, action=1)
    assert actor.take_gathered().returns == [2 + 2 + 1 + 1] * 2
    # The next episode starts from zero; its reset step pays nothing.
    act(actor, 5, action=1)
    assert actor.take_gathered().returns == [4, 4]


def test_the_replay_size_is_of_rows_that_can_be_sampled(opened: Open) -> None:
    actor = opened(n_step=2)
    act(actor, 4)
    assert actor.memory.size == 2 * (4 - 2)


def test_epsilon_zero_is_all_greedy(opened: Open) -> None:
    actor = opened(local_updates=64)
    act(actor, 90, epsilon=0.0, action=2)
    batch = sample(actor)
    assert set(batch.actions.ravel().tolist()) == {2}
    assert set(batch.returns.ravel().tolist()) == {2.0}


def test_epsilon_one_is_all_random(opened: Open) -> None:
    actor = opened()
    act(actor, 1500, epsilon=1.0, action=2)
    gathered = actor.take_gathered()
    assert gathered.env_steps == 2400
    # Uniform over 0, 1, 2 has mean 1 and variance 2/3; the bound is five standard deviations.
    assert abs(sum(gathered.returns) / 2400 - 1) < 5 * (2 / 3 / 2400) ** 0.5


def test_epsilon_is_the_share_of_random_actions(opened: Open) -> None:
    actor = opened()
    act(actor, 1500, epsilon=0.3, action=0)
    # Three in ten are random, and those pay 1 on average: variance 0.3 · 5/3 - 0.3².
    mean = sum(actor.take_gathered().returns) / 2400
    assert abs(mean - 0.3) < 5 * (0.41 / 2400) ** 0.5


def test_each_environment_explores_on_its_own(opened: Open) -> None:
    actor = opened(local_updates=64, env_id="CartPole-v1")
    pairs = set()
    for _ in range(40):
        before = actor.environments.observations.copy()
        after = act(actor, 1, epsilon=0.5, action=0)
        # CartPole's speed goes up with action 1 and down with action 0; resets are left out.
        speed = after[:, 1] - before[:, 1]
        if (abs(speed) > 0.1).all():
            pairs.add(tuple((speed > 0).tolist()))
    assert pairs == {(False, False), (False, True), (True, False), (True, True)}


def history(actor: Actor) -> list[bytes]:
    """Everything random that it shows: first states, exploration, sampling."""
    shown = [actor.environments.observations.tobytes()]
    shown += [act(actor, 1, epsilon=0.5).tobytes() for _ in range(60)]
    return shown + [each.tobytes() for each in sample(actor)]


def test_seed_and_worker_decide_the_data(opened: Open) -> None:
    cartpole = {"env_id": "CartPole-v1"}
    first = history(opened(worker=1, seed=5, **cartpole))
    again = history(opened(worker=1, seed=5, **cartpole))
    other_worker = history(opened(worker=2, seed=5, **cartpole))
    other_seed = history(opened(worker=1, seed=6, **cartpole))
    assert first == again
    for other in (other_worker, other_seed):
        assert first[0] != other[0], "other first states"
        assert first[-5] != other[-5], "other minibatches"  # after it are masks, weights, nothing


def test_worker_decides_exploration_and_sampling_too(opened: Open) -> None:
    # In the toy nothing but exploration and sampling is random.
    def shown(worker: int, seed: int) -> tuple[list[float], list[float]]:
        actor = opened(worker=worker, seed=seed)
        act(actor, 40, epsilon=0.0)
        draws = sample(actor).observations.ravel().tolist()
        actor.take_gathered()
        act(actor, 50, epsilon=1.0)
        return draws, actor.take_gathered().returns

    first, again = shown(0, 0), shown(0, 0)
    assert first == again
    for other in (shown(1, 0), shown(0, 1)):
        assert first[0] != other[0]
        assert first[1] != other[1]


@pytest.mark.parametrize("num_envs", [2, 4])
@pytest.mark.parametrize(
    ("options", "capacity", "lost"),
    [
        # The newest rows of each environment cannot be drawn: a return needs them.
        ({"n_step": 3}, 40, 3),
        ({"n_step": 3, "frame_stack": 3}, 40, 3 + 2),
        # And a sequence begins at every fourth row, say.
        ({**RECURRENT, "sequence_period": 1}, 100, 9),
        ({**RECURRENT, "sequence_period": 4}, 100, 9 + 3),
        ({**RECURRENT, "sequence_period": 7, "frame_stack": 2}, 100, 10 + 6),
        # Environments whose episodes end at different times.
        (
            {**RECURRENT, "sequence_period": 7, "frame_stack": 2, "env_kwargs": '{"longer": true}'},
            100,
            10 + 6,
        ),
    ],
    ids=str,
)
def test_warm_up_ends_wherever_the_configuration_is_accepted(
    num_envs: int,
    options: dict[str, Any],
    capacity: int,
    lost: int,
    opened: Open,
) -> None:
    # A closure steps until the replay is warm: one that can never hold `min_replay_size`
    # transitions would keep it there for ever.
    values = {"num_envs_per_worker": num_envs, "update_period": 4, **options}
    limits = {"replay_capacity": capacity, "min_replay_size": capacity}
    with pytest.raises(UsageError):
        config(**values, **limits)
    # The most that these environments offer is accepted, and can be reached.
    limits["min_replay_size"] = num_envs * (capacity // num_envs - lost)
    actor = opened(**values, **limits)
    act(actor, 1000, action=0)
    assert actor.memory.is_warm


def test_the_discount_is_the_configurations(opened: Open) -> None:
    actor = opened(gamma=0.5)
    act(actor, 3)
    assert set(sample(actor).discounts.ravel().tolist()) == {0.5}


def test_recurrent_states_have_what_was_done_and_what_it_paid(opened: Open) -> None:
    actor = opened(recurrent_size=1, reward_clip=1.5)
    found = []
    for _ in range(6):
        acted = Acted(np.full(2, 2, np.int32), np.full((2, 4), 7, np.float32))
        actor.step(acted, epsilon=0.0)
        found.append(actor.acting[1].tolist())
    # Action 2, counted from 1, pays 2, of which 1.5 is learned from. An episode takes four steps,
    # and a fifth one begins the next, with nothing before it.
    went_on = [[7, 7, 3, 1.5]] * 2
    assert found == [went_on] * 4 + [[[0] * 4] * 2, went_on]
