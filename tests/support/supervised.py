"""Coordinators that end in different ways, and who starts them; `test_supervisor.py` runs this.

`python supervised.py FOLDER NAME` prints what they see, a line of JSON each; their tasks listen.
"""

import json
import os
import pathlib
import signal
import socket
import sys
import time

from ps_dqn.cluster import local, ports, supervisor
from ps_dqn.cluster.control import Control, TaskDiedError
from ps_dqn.cluster.spec import ClusterSpec, Task
from ps_dqn.cluster.supervisor import Attended, Loss

PS, WORKER = Task("ps", 0), Task("worker", 0)
# Shorter than they are, so that tests need not wait as long; longer than a pause of the supervisor
# may count, so that nobody is given up because the machine is busy.
BEAT, SILENT, SILENT_AT_END = 0.1, 4.0, 3.0


def listens(spec: ClusterSpec, task: Task) -> None:
    host, _, port = spec.addresses(task.job)[task.index].rpartition(":")
    _server = socket.create_server((host, int(port)))
    signal.pause()


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def dies(number: int) -> None:
    os.kill(os.getpid(), number)
    signal.pause()


def returns(control: Control, loss: Loss | None) -> int:
    say(pid=os.getpid(), tasks=[control.pid(PS), control.pid(WORKER)])
    return 7


def raises(control: Control, loss: Loss | None) -> int:
    raise RuntimeError("the battery is flat")


def leaves(control: Control, loss: Loss | None) -> int:
    raise SystemExit(75)


def dies_once(control: Control, loss: Loss | None) -> int:
    say(tasks=[control.pid(PS), control.pid(WORKER)])
    if loss is None:
        dies(signal.SIGKILL)
    return 0


def dies_at_work(control: Attended, loss: Loss | None) -> int:
    """Three of them tell of themselves, and are well."""
    now = time.perf_counter()
    if loss is not None:
        say(loss={"times": loss.times, "memory": loss.memory, "ago": now - loss.at})
        if loss.times == 3:
            return 0
    number, times_told = 0 if loss is None else loss.memory + 1, []

    def memory() -> int:
        times_told.append(now)
        return number

    control.remember(memory)
    while len(times_told) < 2:  # the first one has arrived when the second one is asked for
        time.sleep(0.01)
    control.are_well(WORKER)
    control.are_well(WORKER)
    time.sleep(0.2)
    dies(signal.SIGSEGV)
    return 1


def keeps_dying(control: Control, loss: Loss | None) -> int:
    say(first=loss is None, since=time.perf_counter() if loss is None else loss.at)
    dies(signal.SIGKILL)
    return 1


def is_well_and_dies(control: Control, loss: Loss | None) -> int:
    if loss is not None and loss.times == 8:
        return 0
    control.are_well(WORKER)
    dies(signal.SIGKILL)
    return 1


def stands_still_once(control: Control, loss: Loss | None) -> int:
    if loss is None:
        dies(signal.SIGSTOP)
    return 0


def takes_its_time(control: Control, loss: Loss | None) -> int:
    """Its main thread says nothing for longer than it may be silent."""
    time.sleep(SILENT + 1.0)
    say(lives=True)
    return 0


def hears(control: Control, loss: Loss | None) -> int:
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    say(waits=True)
    for count in (1, 2):
        while len(heard) < count:
            time.sleep(0.01)
        say(heard=count)
    return 20 + len(heard)


def stands_still(control: Control, loss: Loss | None) -> int:
    say(waits=True)
    dies(signal.SIGSTOP)
    return 1


def ends_at_a_signal(control: Control, loss: Loss | None) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    say(waits=True)
    signal.pause()
    return 1


def replaces(control: Control, loss: Loss | None) -> int:
    """Ends its worker again and again, and has another one forked."""
    before, lines = control.pid(WORKER), []
    try:
        while True:
            control.kill(WORKER)
            while not control.ended("worker"):
                time.sleep(0.01)
            epitaph = control.epitaphs()
            lines += control.check("worker")
    except TaskDiedError as error:
        say(
            lines=lines,
            error=str(error),
            epitaph=epitaph,
            other=control.pid(WORKER) != before,
            tasks=[str(task) for task in control.tasks("ps")],
            starting=control.may_be_starting(PS, 0.0),
            words=control.last_words(PS),
        )
    return 0


def main(folder: pathlib.Path, name: str) -> int:
    supervisor.BEAT_SECONDS = BEAT
    supervisor.SILENT_SECONDS, supervisor.SILENT_AT_END_SECONDS = SILENT, SILENT_AT_END
    spec = ports.on_this_machine(1, 1)
    role = local.Role("none", (), listens)
    cluster = local.LocalCluster(spec, {"ps": role, "worker": role}, folder, "fork", True)
    with local.running(cluster):
        return supervisor.Supervisor(cluster, lambda line: say(said=line)).run(globals()[name])


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2]))
