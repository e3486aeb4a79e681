"""A parameter server's host through the sessions of a run, called as the coordinator calls it."""

import time

import numpy as np
import pytest

from ps_dqn.config import Config
from ps_dqn.parameter_server.creation import Creation, Sizes
from ps_dqn.parameter_server.host import ParameterHost
from ps_dqn.profiling import timeline
from ps_dqn.profiling.timeline import Timeline


def create(host: ParameterHost, session: int, run_id: str) -> None:
    """A coordinator has connected."""
    config = Config.from_values({"timeline": True})
    sizes, initial = Sizes(1, 1, 4, 0, 0), np.zeros(4, np.float32)
    given = Creation.of(session, config, sizes, initial, [], 4, run_id)
    texts = {"config": given.config.encode(), "run_id": given.run_id.encode()}
    host.methods["create"](*given._replace(**texts))


def test_its_timeline_is_that_of_a_run_and_not_of_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeline, "_own", Timeline(time.perf_counter()))
    host = ParameterHost()
    for session, run_id, times in ((1, "a1b2", 1), (2, "a1b2", 2), (3, "c3d4", 1)):
        create(host, session, run_id)
        [creating] = timeline.record().spans
        assert (creating.name, creating.times) == ("creating the parameters", times)
    host.leave()
