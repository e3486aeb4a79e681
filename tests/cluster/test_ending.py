"""How often a process has been asked to end."""

import pytest
from support import seen_by
from support.processes import Processes

from ps_dqn.cluster import ending, ports
from ps_dqn.cluster.ending import Requests
from ps_dqn.cluster.spec import Task

# A task whose clean-up takes a second.
CLEANS_UP = """
import os, signal, time
from ps_dqn.cluster import server
from ps_dqn.cluster.spec import TaskOptions, from_tf_config

def clean_up():
    time.sleep(1)
    print("cleaned up", flush=True)

def told():
    # As `timeout` does, to a process and to its group: two that Python hears of one by one.
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_BLOCK, [])

spec, task = from_tf_config(os.environ["TF_CONFIG"])
server.serve(spec, task, TaskOptions(), on_stop=clean_up, on_serving=told)
"""


def test_signals_that_come_together_are_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = Requests()

    def come(seconds: float) -> bool:
        seen_by.clock(monkeypatch, ending, monotonic=lambda: seconds)
        return requests.is_another()

    # The last but one is within a quarter of a second of one that did not count.
    assert [come(each) for each in (10.0, 10.001, 10.2, 10.3, 20.0)] == [
        *(True, False, False, True, True)
    ]


@pytest.mark.slow
def test_a_task_cleans_up_though_it_is_told_twice_at_once(processes: Processes) -> None:
    spec = ports.on_this_machine(1, 1)
    running = processes.start("-c", CLEANS_UP, TF_CONFIG=spec.tf_config(Task("worker", 0)))
    assert running.ended() == 0
    assert running.lines[-1] == "cleaned up"
