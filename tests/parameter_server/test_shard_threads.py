"""One parameter server that several threads ask at once."""

import sys
import threading

import numpy as np
from support.single_server import SESSION, Server

from ps_dqn.state import Counters, State
from ps_dqn.wire import messages
from ps_dqn.wire.messages import PullHeader, PullRequest


def test_requests_may_come_from_several_threads_at_once():
    # Long vectors: NumPy lets other threads run while it works on them.
    size, pushes = 60_000, 40
    server = Server(size=size)
    server.shard.restore(State(*[np.zeros(size, np.float32)] * 3, (), Counters(0, 0, 0, 0, 0)))
    torn, begin = [], threading.Barrier(4)

    def work(pulls: bool):
        begin.wait()
        for _ in range(pushes):
            if pulls:
                answer = server.shard.pull(messages.pack(PullRequest(SESSION, 0, 1)))
                version = messages.header(PullHeader, answer).version
                values = answer[messages.HEADER :].view(np.float32)
                torn.append((values[:size] != version).any())
            else:
                server.push(np.ones(size))

    threads = [threading.Thread(target=work, args=[i == 0]) for i in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(torn) == pushes
    assert not any(torn)
    assert (server.state.online == 3 * pushes).all()
    done = 3 * pushes
    assert server.counters == Counters(done, 2 * done, 16 * done, done, 2 * done)
    assert server.shard.ledger()["pushes"] == 3 * pushes
