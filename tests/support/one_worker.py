"""Training closures on a cluster of one worker; `test_closures.py` runs this in a process.

Which worker takes a closure up is not ours to say, and each has an experience of its own, so what
is compared step for step needs a cluster of one. Arguments: an .npz file to write, and scenarios
as JSON: a list of [configuration, number of closures].
"""

import json
import os
import sys

import numpy as np

from ps_dqn.cluster import in_process
from ps_dqn.cluster.ports import on_this_machine
from ps_dqn.cluster.spec import Placement
from ps_dqn.config import Config
from ps_dqn.coordinator.connecting import connection
from ps_dqn.parameter_server.host import ParameterHost
from ps_dqn.wire import bridge
from ps_dqn.worker.calls import Tickets
from ps_dqn.worker.graph.closures import read_report
from ps_dqn.worker.host import WorkerHost
from support.small import make_closures


def play(coordinator, config: Config, num_closures: int) -> dict[str, np.ndarray]:
    store, closures = make_closures(config, num_ps=2, num_workers=1)
    online, target, counters, reports = [], [], [], []
    for number in range(num_closures):
        pushes = config.parameter_server.pushes_per_closure
        ticket = 1 + number * pushes
        tickets = np.array(Tickets(ticket, oldest=ticket, pushes=pushes), np.int64)
        value = coordinator.schedule(closures.train, args=(tickets,)).fetch()
        report, error = read_report(value)
        assert not error, error
        state = store.state()
        online.append(state.online)
        target.append(state.target)
        counters.append(state.counters)
        reports.append(report)
    arrays = {"online": online, "target": target, "counters": counters, "reports": reports}
    return {name: np.array(array) for name, array in arrays.items()}


def main(path: str, scenarios: str) -> None:
    bridge.install(lambda task: WorkerHost(task, None) if task >= 0 else ParameterHost())
    placement = Placement("in_process", on_this_machine(2, 1), "fork", 1, 4)
    in_process.start(placement.spec, intra_op_threads=1, inter_op_threads=4)
    coordinator = connection.connect(placement).coordinator
    arrays = {}
    for number, (config, num_closures) in enumerate(json.loads(scenarios)):
        played = play(coordinator, Config.from_json(json.dumps(config)), num_closures)
        arrays |= {f"{number}/{name}": array for name, array in played.items()}
    np.savez(path, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)
