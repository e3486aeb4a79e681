"""What a learner remembers of actors: states, episodes and whole steps, by scripted actors."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support import processes as real
from support.scripted_actor import SPEC, ScriptedActor

from ps_dqn import environments
from ps_dqn.config import Config
from ps_dqn.replay.batch import Sequences, Transitions
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.pushes.push_under_way import PushUnderWay
from ps_dqn.worker.roles.inferring import RemoteActor

VALUES = {
    "topology": "seed",
    "num_actors": 2,
    "inference_timeout": 20.0,
    "num_envs_per_worker": 2,
    "n_step": 2,
    "gamma": 0.5,
    "batch_size": 64,
    "local_updates": 2,
    "replay_capacity": 100,
    "min_replay_size": 1,
}


class Learner:
    """A learner of two actors that have an environment each."""

    def __init__(self, **values: Any):
        self.actors = [ScriptedActor(1), ScriptedActor(1)]
        config = Config.from_values(VALUES | values)
        self.actor = RemoteActor(config, 0, [each.address for each in self.actors], None)
        push = PushUnderWay(1, 0)
        push.begin(1.0)
        self.actor.begin(push)

    def all_join(self, first: float, second: float) -> None:
        for scripted, observation in zip(self.actors, (first, second), strict=True):
            scripted.join(observation)
        while len(self.actor.environments.waiting) < 2:
            self.actor.environments.gather()

    def step(self, come: int, states: Any = None) -> int:
        """Acts greedily, once so many messages have come: the action is the actor's number."""
        inbox = self.actor.environments._inbox
        real.until(lambda: inbox.qsize() >= come, 60, f"{come} messages")
        shown, before, _ = self.actor.acting
        state = before if states is None else np.array(states, np.float32)
        return self.actor.step(Acted(np.arange(len(shown), dtype=np.int32), state), 0.0)

    def close(self) -> None:
        self.actor.close()
        for scripted in self.actors:
            scripted.close()


@pytest.fixture
def learner(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Learner]:
    monkeypatch.setattr(environments, "describe", lambda _: SPEC)
    made = Learner(**getattr(request, "param", {}))
    yield made
    made.close()


def transitions(learner: Learner) -> set[tuple[float, ...]]:
    """All that can be drawn: observation, action, return, discount, observation after it."""
    memory = learner.actor.memory
    batch = memory.sample(2, 64)
    assert isinstance(batch, Transitions)
    fields = (batch.observations, batch.actions, batch.returns, batch.discounts)
    columns = [np.ravel(each) for each in (*fields, batch.next_observations)]
    return {tuple(map(float, row)) for row in zip(*columns, strict=True)}


def test_each_actors_steps_are_its_own_episodes(learner: Learner) -> None:
    """The second actor is slower: it moves once where the first one moves three times."""
    learner.all_join(0.0, 100.0)
    first, second = learner.actors
    for time in range(1, 4):
        first.show(float(time), reward=float(time))
        learner.step(come=1)
    second.show(101.0, reward=7.0)
    learner.step(come=1)
    first.show(4.0, reward=4.0, ends=True)
    second.show(102.0, reward=8.0)
    learner.step(come=2)
    # Returns of two steps: r + r'/2, and none that has steps of both.
    found = transitions(learner)
    assert found == {(0, 0, 1 + 2 / 2, 0.25, 2), (1, 0, 2 + 3 / 2, 0.25, 3)}
    assert learner.actor.take_gathered().env_steps == learner.actor.env_steps == 6


def test_no_transition_joins_episodes_of_two_processes(learner: Learner) -> None:
    learner.all_join(0.0, 100.0)
    first, second = learner.actors
    for time in range(1, 4):
        first.show(float(time), reward=1.0)
        second.show(100.0 + time, reward=1.0)
        learner.step(come=2)
    second.leave()
    first.show(4.0, reward=1.0)
    learner.step(come=2)
    second.join(200.0)
    first.show(5.0, reward=1.0)
    learner.step(come=2)
    for time in range(1, 4):
        first.show(5.0 + time, reward=1.0)
        second.show(200.0 + time, reward=1.0)
        learner.step(come=2)
    found = transitions(learner)
    assert found
    for observation, _, _, _, after in found:
        assert observation // 100 == after // 100, (observation, after)
        assert after - observation in (1, 2)
    # What was acted on last, and what came of it nobody knows: it only ends the one before.
    assert {row[0] for row in found if 100 <= row[0] < 200} == {100, 101, 102}
    assert any(row[0] >= 200 for row in found)


RECURRENT = {
    "n_step": 1,
    "recurrent_size": 1,
    "burn_in": 1,
    "sequence_length": 2,
    "sequence_period": 1,
}


@pytest.mark.parametrize("learner", [RECURRENT], indirect=True)
def test_states_are_the_learners_and_end_with_episodes(learner: Learner) -> None:
    learner.all_join(0.0, 100.0)
    first, second = learner.actors
    assert not learner.actor.acting[1].any()
    # An LSTM's two numbers, and room for the last action and its reward.
    first.show(1.0, reward=3.0)
    second.show(101.0, reward=4.0, ends=True, last=999.0)
    assert learner.step(2, [[0.1, 0.2, 9, 9], [0.3, 0.4, 9, 9]]) == 1
    found = learner.actor.acting[1]
    np.testing.assert_allclose(found[0], [0.1, 0.2, 1, 3], rtol=1e-6)
    assert not found[1].any(), "its episode has ended"

    # The second one alone has moved: the first one's state stays until it is known what came of it.
    second.show(102.0, reward=5.0)
    learner.step(1, [[0.5, 0.6, 9, 9], [0.7, 0.8, 9, 9]])
    found = learner.actor.acting[1]
    np.testing.assert_allclose(found[0], [0.1, 0.2, 1, 3], rtol=1e-6)
    np.testing.assert_allclose(found[1], [0.7, 0.8, 2, 5], rtol=1e-6)
    first.show(2.0, reward=6.0)
    learner.step(1, [[0, 0, 0, 0], [0.9, 1.0, 9, 9]])
    found = learner.actor.acting[1]
    np.testing.assert_allclose(found[0], [0.5, 0.6, 1, 6], rtol=1e-6)


@pytest.mark.parametrize("learner", [RECURRENT], indirect=True)
def test_a_lost_actors_state_is_forgotten_and_what_was_stored_is_kept(learner: Learner) -> None:
    learner.all_join(0.0, 100.0)
    first, second = learner.actors
    state = [[0.1, 0.2, 9, 9], [0.3, 0.4, 9, 9]]
    for time in range(1, 8):
        first.show(float(time), reward=1.0)
        second.show(100.0 + time, reward=1.0)
        learner.step(2, state)
    assert learner.actor.acting[1][1].any()
    second.leave()
    first.show(8.0, reward=1.0)
    learner.step(2, state)
    assert learner.actor.environments.num_connected == 1
    assert not learner.actor.acting[1][1].any()
    batch = learner.actor.memory.sample(2, 64)
    assert isinstance(batch, Sequences)
    later = batch.states[batch.observations[:, :, 0, 0] % 100 > 0]
    np.testing.assert_allclose(np.unique(later[:, 0]), [0.1, 0.3], rtol=1e-6)
