"""What a learner makes of minibatches that several replay servers have given."""

import numpy as np
import pytest

from ps_dqn.config import Config
from ps_dqn.worker.calls import Sizes
from ps_dqn.worker.roles import sessions
from ps_dqn.worker.roles.learning import LearningSession

OPTIONS = {
    **{"topology": "apex", "replay": "prioritized", "hidden_sizes": (4,), "batch_size": 4},
    **{"local_updates": 2, "priority_beta": 0.4},
}


@pytest.fixture
def session() -> LearningSession:
    config = Config.from_values(OPTIONS)
    session = sessions.make(config, 1, 1, 0, Sizes(1, 1, 6, 2, 0, 2), None, None)
    assert isinstance(session, LearningSession)
    return session


def test_weights_are_those_of_one_replay_with_the_same_chances(session: LearningSession) -> None:
    # Of two servers, each of which gives two of four items: their priorities and their sums.
    priorities = np.array([[3.0, 1.0, 10.0, 2.0], [1.0, 1.0, 40.0, 8.0]])
    sums = np.array([10.0, 10.0, 80.0, 80.0])

    weighed = session.weigh(np.array([30, 50]), np.array([1, 1]), priorities / sums)

    chances = priorities / (2 * sums)  # of an item to be drawn, of the N = 80 there are
    wanted = (80 * chances) ** -0.4
    wanted /= wanted.max(axis=1, keepdims=True)
    np.testing.assert_allclose(weighed.weights, wanted, rtol=1e-6)
    assert weighed.weights.dtype == np.float32
    assert weighed.should_push == 1
    assert session.actor.memory.size == 80


def test_nothing_is_pushed_of_a_server_that_has_not_enough(session: LearningSession) -> None:
    weighed = session.weigh(np.array([30, 0]), np.array([1, 0]), np.zeros((2, 4)))

    assert weighed.should_push == 0
    assert not weighed.weights.any()


def test_a_learner_makes_no_step(session: LearningSession) -> None:
    plan = session.plan(np.int32(2))  # the run is over
    assert plan.acting == ()
    assert session._vector_steps(1) == 0
    report = session.report()
    assert report.ok == 1
