"""From a worker's environments to the head of the parameters, through pushes of real tasks."""

import numpy as np
import pytest
from support.small import SMALL, make_closures

from ps_dqn.config import Config
from ps_dqn.moments import Moments
from ps_dqn.worker.calls import Tickets
from ps_dqn.worker.graph.closures import read_report

NORMALIZED = {"normalize_observations": True, "normalize_returns": True}
FEATURES, HEAD = 4, 9


@pytest.mark.parametrize("num_ps", [1, 2])
def test_all_that_was_collected_is_counted_once(coordinator, num_ps: int) -> None:
    config = Config.from_values({**SMALL, **NORMALIZED, "local_updates": 2})
    store, closures = make_closures(config, num_ps, num_workers=2)
    waiting = [
        coordinator.schedule(closures.train, args=(np.array(Tickets(1 + 5 * i, 1, 5)),))
        for i in range(4)
    ]
    reports = [read_report(remote.fetch()) for remote in waiting]
    assert not any(error for _, error in reports)
    state = store.state()
    seen = Moments.of_numbers(state.moments)
    assert len(seen.mean) == FEATURES + 1
    assert seen.count == state.counters.env_steps > 0
    # Poles fall before they are fast, and pay 1 a step until then.
    assert np.abs(seen.mean[:FEATURES]).max() < 3
    assert seen.mean[FEATURES] > 1
    scales = 1 / np.sqrt(seen.squares / seen.count)
    expected = np.concatenate([seen.mean[:FEATURES], scales]).astype(np.float32)
    for vector in (state.online, state.target, state.average):
        np.testing.assert_array_equal(vector[:HEAD], expected)


def test_nothing_is_learned_before_the_servers_have_heard_of_the_environments(coordinator) -> None:
    config = Config.from_values({**SMALL, **NORMALIZED, "local_updates": 2})
    store, closures = make_closures(config, num_ps=1, num_workers=1)
    before = store.state().online
    for ticket, moved in ((1, False), (2, True)):
        remote = coordinator.schedule(closures.train, args=(np.array(Tickets(ticket, 1, 1)),))
        _, error = read_report(remote.fetch())
        assert not error
        online = store.state().online
        assert (online[HEAD:] != before[HEAD:]).any() == moved
        assert (online[:HEAD] != before[:HEAD]).any()
