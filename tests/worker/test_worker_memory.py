"""What a worker hands to its memory and gets from it, whatever kind it is.

The toy environment is that of `support/paying_env.py`.
"""

import dataclasses
from typing import Any

import numpy as np
import pytest
from support.counting_env import CONFIGS, NAMES
from support.paying_env import LENGTH, SMALL
from support.worker_calls import Open, Worker

from ps_dqn.config import Config, Environment
from ps_dqn.replay.batch import Rollout, Sequences, Transitions
from ps_dqn.replay.replay import Replay
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Actor

# States of six numbers, stored at every second row.
RECURRENT = {
    "recurrent_size": 2,
    "burn_in": 1,
    "sequence_length": 3,
    "sequence_period": 2,
    "batch_size": 100,
}
ROLLOUT = {
    "replay": "rollout",
    "target_update_period": 0,
    "double_dqn": False,
    "update_period": 3,
    "batch_size": 6,
    "epsilon_start": 0.0,
    "epsilon_end": 0.0,
    "min_replay_size": Config().replay.min_replay_size,
    "replay_capacity": None,
}


def test_recurrent_states_go_on_within_an_episode_and_begin_anew_with_the_next(
    opened: Open,
) -> None:
    worker = opened(min_replay_size=100, **RECURRENT)
    pulled = worker.pull()
    observations, state, *_, should_act = pulled.acting
    assert (state.shape, state.dtype) == ((2, 6), np.float32)
    seen = []
    while should_act:
        # The state that an LSTM would have which counts steps.
        assert (state[:, :4] == observations[:, 1:]).all()
        seen.append(int(observations[0, 1]))
        acted = Acted(np.ones(2, np.int32), state + 1)
        observations, state, *_, should_act = worker.within("step", *acted)
    assert seen[:12] == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]

    # The next push goes on where this one ended.
    should_push, drawn, _ = worker.sample()
    worker.pack(0.0)
    worker.push()
    pulled = worker.pull()
    assert (pulled.acting.observations == observations).all()
    assert (pulled.acting.state == state).all()

    # What was acted on is what replay has: a sequence's state is that before its first row.
    assert isinstance(drawn, Sequences)
    assert should_push == 1
    assert (drawn.states[..., :4] == drawn.observations[:, :, 0, 1:]).all()
    assert len(np.unique(drawn.states[..., :4])) == LENGTH + 1
    assert (drawn.starts == (drawn.observations[..., 1] == 0)).all()


@pytest.mark.parametrize("config", CONFIGS, ids=NAMES)
def test_states_of_rollouts_are_those_acted_with(config: Environment) -> None:
    values = dataclasses.asdict(config) | {
        "num_envs_per_worker": 3, "local_updates": 2, "recurrent_size": 2, "n_step": 1,
    }  # fmt: skip
    values |= ROLLOUT | {"update_period": 6, "batch_size": 12}  # four steps of three environments
    worker = Actor(Config.from_values(values), worker=0)
    for _ in range(12):
        _, before, _ = worker.acting
        for _ in range(4):
            # The state that an LSTM would have which counts steps.
            worker.step(Acted(np.ones(3, np.int32), worker.acting[1] + 1), 0.0)
        rollout = worker.memory.sample(2, 12)
        assert isinstance(rollout, Rollout)
        times = rollout.observations[..., 2]
        assert (rollout.states == before).all()
        assert (rollout.states[:, :4] == times[0][:, None]).all()
        # After an episode that was left already, and after a reset that was a step of its own.
        assert (rollout.starts[1:] == (times[1:] == 0)).all()
        assert not rollout.starts[0].any(), "its state is that of a beginning"
        for order in rollout.order:
            steps = order.reshape(3, 4)
            assert (steps == steps[:, :1] + 3 * np.arange(4)).all(), "whole sequences"
            assert sorted(steps[:, 0].tolist()) == [0, 1, 2]
    worker.close()


@pytest.mark.parametrize("config", CONFIGS, ids=NAMES)
def test_states_begin_anew_however_environments_reset(config: Environment) -> None:
    values = dataclasses.asdict(config) | {
        "num_envs_per_worker": 3, "update_period": 3, "local_updates": 1, "min_replay_size": 1,
        "replay_capacity": 300, **RECURRENT,
    }  # fmt: skip
    worker = Actor(Config.from_values(values), worker=0)
    began = 0
    for _ in range(40):
        observations, states, _ = worker.acting
        # [lane, episode, time].
        assert (states[:, :4] == observations[:, 2:]).all()
        began += int((observations[:, 2] == 0).sum())
        worker.step(Acted(np.zeros(3, np.int32), states + 1), 0.0)
    assert began > 20
    drawn = worker.memory.sample(1, 100)
    assert isinstance(drawn, Sequences)
    # Where a row is the last of an episode that was left already, its state is of no use.
    has_state = ~drawn.starts[:, :, 1]
    first = drawn.observations[:, :, 0]
    assert (drawn.states[..., :4] == first[..., 2:])[has_state].all()
    assert len(np.unique(drawn.states[has_state][:, :4])) >= 3
    worker.close()


def test_networks_without_a_state_have_none(opened: Open) -> None:
    pulled = opened().pull()
    assert pulled.acting.state.shape == (2, 0)


def draws_of(worker: Worker, episode: int, time: int) -> tuple[np.ndarray, np.ndarray]:
    """Where a step is in a sample, bool [M, B], and the weights."""
    should_push, drawn, _ = worker.sample()
    assert should_push == 1
    assert isinstance(drawn, Transitions)
    return (drawn.observations == [episode, time]).all(-1), drawn.weights


PRIORITIZED = {"replay": "prioritized", "priority_alpha": 1.0, "batch_size": 200}


@pytest.mark.parametrize(
    ("options", "share"),
    [
        (PRIORITIZED, 1.0),
        # Two environments' steps, |δ| + ε = 100.001, and ten with 0.001, to the root.
        (
            {**PRIORITIZED, "priority_alpha": 0.25},
            2 * 100**0.25 / (2 * 100**0.25 + 10 * 0.001**0.25),
        ),
        ({**PRIORITIZED, "priority_alpha": 0.0}, 2 / 12),
        # … and ten with 100.
        ({**PRIORITIZED, "priority_epsilon": 100.0}, 4 / 14),
        ({"batch_size": 200}, 2 / 12),
    ],
    ids=str,
)
@pytest.mark.parametrize("vector", [0.0, np.nan], ids=["pushed", "withheld"])
def test_errors_become_priorities(
    opened: Open, options: dict[str, Any], share: float, vector: float
) -> None:
    worker = opened(**options)
    worker.pull()
    worker.collect()
    is_it, _ = draws_of(worker, 0, 2)
    worker.pack(vector, errors=np.where(is_it, 100.0, 0.0))
    worker.push()
    worker.pull()
    is_it, _ = draws_of(worker, 0, 2)
    # The bound is four standard deviations of 400 independent draws.
    assert is_it.mean() == pytest.approx(share, abs=0.01 + 4 * (share * (1 - share) / 400) ** 0.5)


@pytest.mark.parametrize(("env_steps", "share"), [(0, 0.0), (100, 0.25), (400, 1.0), (999, 1.0)])
def test_samplers_hear_how_much_of_the_run_is_done(
    opened: Open, monkeypatch: pytest.MonkeyPatch, env_steps: int, share: float
) -> None:
    heard: list[float] = []
    draw = Replay.sample

    def sample(replay: Replay, minibatches: int, batch_size: int, progress: float) -> Any:
        heard.append(progress)
        return draw(replay, minibatches, batch_size, progress)

    monkeypatch.setattr(Replay, "sample", sample)
    worker = opened(total_env_steps=400)
    worker.restore(env_steps)
    worker.pull()
    worker.collect()
    worker.sample()
    assert heard == [pytest.approx(share)]


@pytest.mark.parametrize(
    ("env_steps", "beta"), [(0, 0.2), (100, 0.2 + 0.8 / 4), (400, 1.0)], ids=str
)
def test_priority_beta_goes_to_one_over_the_run(opened: Open, env_steps: int, beta: float) -> None:
    worker = opened(**PRIORITIZED, priority_beta=0.2, total_env_steps=400)
    worker.restore(env_steps)
    worker.pull()
    worker.collect()
    is_it, _ = draws_of(worker, 0, 2)
    worker.pack(0.0, errors=np.where(is_it, 2.0, 1.0))
    worker.pull()
    is_it, weights = draws_of(worker, 0, 2)
    # Twice the probability; |δ| + ε is 2.001 and 1.001.
    assert weights[is_it] == pytest.approx((1.001 / 2.001) ** beta)
    assert weights[~is_it] == pytest.approx(1)


def test_recent_steps_are_drawn_more_often(opened: Open) -> None:
    memory = {"replay_capacity": 400, "min_replay_size": 300, "batch_size": 200}
    newest = {}
    for name, options in {
        "uniform": {},
        "recent": {"replay": "recent", "recency_eta": 0.99, "recency_min_size": 20},
        "wide": {"replay": "recent", "recency_eta": 0.99, "recency_min_size": 200},
        "no narrowing": {"replay": "recent", "recency_eta": 1.0, "recency_min_size": 20},
    }.items():
        # The window narrows over the minibatches of a push.
        worker = opened(**memory, local_updates=8, **options)
        worker.pull()
        worker.collect()
        observations = worker.sample().batch.observations
        # Of the last minibatch: the first is hardly narrowed.
        newest[name] = float(np.median(observations[-1, :, 0]))
    assert newest["uniform"] == pytest.approx(newest["no narrowing"], abs=4)
    # Of 30 episodes: the middle one, and that of the newest 200 of 300 steps and of 20.
    assert newest["uniform"] + 2 < newest["wide"] < newest["recent"] - 5


def test_rollouts_are_the_steps_since_the_last_push(opened: Open) -> None:
    assert SMALL["n_step"] == 1
    worker = opened(**ROLLOUT)  # 3 steps of 2 environments for 2 updates of 6
    times = []
    for action in (1, 2):
        worker.pull()
        assert worker.collect(action) == 3
        rollout = worker.sample().batch
        assert isinstance(rollout, Rollout)
        assert rollout.observations.shape == (3, 2, 2)
        real = rollout.weights > 0
        assert (rollout.rewards[real] == action).all()
        times += rollout.observations[:, 0, 1].tolist()
        assert rollout.order.shape == (2, 6)
        assert sorted(rollout.order.ravel().tolist()) == sorted(2 * list(range(6)))
        worker.pack(0.0)
        worker.push()
    # The last but one is the row that a reset step began with.
    assert times == [0, 1, 2, 3, 4, 0]
    assert (real == [[True] * 2, [False] * 2, [True] * 2]).all()
    assert worker.report().replay_size == 6


def test_recurrent_rollouts_come_with_the_states_that_were_acted_with(opened: Open) -> None:
    worker = opened(**ROLLOUT, recurrent_size=1)  # 3 steps of 2 environments for 2 updates of 6
    first = []
    for action in (1, 2):
        pulled = worker.pull()
        acting = pulled.acting
        first.append(acting.state[0].tolist())
        while acting.should_act:
            acted = Acted(np.full(2, action, np.int32), acting.state + 1)
            acting = worker.within("step", *acted)
        rollout = worker.sample().batch
        assert isinstance(rollout, Rollout)
        assert rollout.states[0].tolist() == first[-1]
        assert rollout.starts.any(axis=1).tolist() == [False, False, action == 2]
        worker.pack(0.0)
        worker.push()
    # Three steps counted, action 1 counted from 1, and what it paid.
    assert first == [[0, 0, 0, 0], [3, 3, 2, 1]]
