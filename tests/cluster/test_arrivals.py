"""What people hear of tasks as they come."""

import pytest

from ps_dqn.cluster.arrivals import tasks_there
from ps_dqn.cluster.spec import ClusterSpec, Task


@pytest.mark.parametrize(
    ("new", "says"),
    [
        ("worker 1", "worker 1 of 3 is up"),
        ("ps 1", "parameter server 1 is up"),
        ("ps 0, worker 2, worker 0", "parameter server 0, worker 2 and worker 0 are up"),
        (
            "worker 2, ps 0, worker 1, replay 0, worker 0",
            "parameter server 0, replay server 0 and workers 0 to 2 are up",
        ),
        (
            "actor 9, actor 0, actor 1, actor 5, actor 4",
            "actors 0 to 1, actors 4 to 5 and actor 9 are up",
        ),
        ("worker 0, worker 1, worker 2, worker 3, worker 4", "workers 0 to 4 are up"),
        (", ".join(f"worker {2 * i}" for i in range(7)), "7 more tasks are up"),
    ],
)
def test_tasks_are_named_as_they_come(new: str, says: str) -> None:
    cluster = ClusterSpec("c:1", ("p:1", "p:2"), ("w:1", "w:2", "w:3"))
    tasks = [Task(name.split()[0], int(name.split()[1])) for name in new.split(", ")]
    line = tasks_there(cluster, tasks, there=7, of=9)
    assert line == f"{says} (7 of 9 tasks)"
