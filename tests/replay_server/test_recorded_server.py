"""When a replay server records itself: it hears of the run's updates by what learners tell it."""

import numpy as np
import pytest

from ps_dqn import environments
from ps_dqn.config import Config
from ps_dqn.profiling import recording
from ps_dqn.profiling.recording import Progress
from ps_dqn.replay_server import creation
from ps_dqn.replay_server.creation import Creation
from ps_dqn.replay_server.host import ReplayHost

OPTIONS = {
    **{"topology": "apex", "replay": "prioritized", "num_actors": 1, "num_envs": 2},
    **{"replay_capacity": 400, "min_replay_size": 30, "profile": "100:200"},
}


class MadeUp:
    """In the place of TensorFlow's profiler."""

    was_cut = False

    def stop(self) -> bytes:
        return b"of a server"


@pytest.mark.parametrize(
    ("updates", "progress"),
    [(0, Progress.WAITING), (150, Progress.RECORDING), (5_000, Progress.NONE)],
)
def test_a_resumed_run_is_where_it_was(
    updates: int, progress: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "Trace", MadeUp)
    config = Config.from_values(OPTIONS)
    spec = environments.describe(config.environment)
    texts = [each.encode() for each in ("run", config.to_json(), creation.described(spec))]
    place = np.array([0, 1], np.int64)
    host = ReplayHost(None)
    host.methods["create"](*Creation(np.int64(1), *texts, place, np.int64(updates)))
    assert host.recording is not None
    assert host.recording.progress is progress
    host.close()
