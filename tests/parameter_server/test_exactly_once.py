"""Every push counts once, whatever dies in the middle of it."""

import json
import os
import pathlib
import sys

import pytest
from support.programs import SUPPORT, processes_that_mention, run_python


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("num_ps", "share"), [(3, 1.0), (1, 0.4)])
def test_killed_workers_lose_no_push_and_repeat_none(
    num_ps: int, share: float, tmp_path: pathlib.Path
) -> None:
    """SIGKILL at random moments; at the end all servers have applied every push once.

    PS_DQN_KILLS (default 60) says how many workers are killed, PS_DQN_KILL_SEED (default 0) seeds
    whom and when. A kill takes a second, because TensorFlow does not take a worker back sooner.
    """
    kills = round(share * int(os.environ.get("PS_DQN_KILLS", "60")))
    seed = os.environ.get("PS_DQN_KILL_SEED", "0")

    arguments = [SUPPORT / "kill_cluster.py", tmp_path, num_ps, kills, seed]
    ended = run_python(arguments, tmp_path, seconds=120 + 4 * kills)

    # TensorFlow writes of every worker that was lost: only the end tells of a failure.
    assert ended.returncode == 0, ended.stdout + ended.stderr[-12000:]
    seen = json.loads(ended.stdout)
    print(ended.stdout)
    assert seen["differences"] == []
    assert len(seen["tallies"]) == num_ps
    assert seen["tallies"] == num_ps * seen["tallies"][:1]
    # Else it would prove nothing: workers died in pushes, closures ran again, and what had been
    # applied before they died came again.
    assert seen["kills"] >= kills
    # With one server a push is a single short call, which few kills fall into.
    assert seen["cut_in_a_push"] > 0 or num_ps == 1
    assert seen["run_again"] > 0
    assert seen["duplicates"] > 0
    assert processes_that_mention(str(tmp_path)) == []
