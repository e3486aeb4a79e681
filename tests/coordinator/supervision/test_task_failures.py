"""Failures of tasks: counted once each, however they show, and timed."""

from ps_dqn.cluster.spec import Task
from ps_dqn.coordinator.supervision.task_failures import LOST, OVERDUE, SILENT, TaskFailures
from ps_dqn.telemetry.figures import TaskFailure

WORKER, PS = Task("worker", 1), Task("ps", 0)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_failure_counts_once_until_the_task_works_again() -> None:
    clock = Clock()
    failures = TaskFailures(clock)
    failures.noticed(WORKER, SILENT, 6.0)
    failures.noticed(WORKER, LOST)  # its connections were cut for it
    clock.now = 5.0
    assert failures.rows() == [TaskFailure("worker 1", "silent", 1, 6.0)]
    failures.work([PS, WORKER])
    failures.work([WORKER])
    assert failures.rows() == [TaskFailure("worker 1", "silent", 1, 6.0, 1, 5.0)]

    failures.noticed(WORKER, OVERDUE, 60.0)
    failures.noticed(PS, LOST)
    clock.now = 8.0
    failures.work([WORKER])
    failures.noticed(WORKER, SILENT, 7.0)
    assert failures.rows() == [
        TaskFailure("worker 1", "silent", 2, 13.0, 1, 5.0),
        TaskFailure("worker 1", "overdue", 1, 60.0, 1, 3.0),
        TaskFailure("parameter server 0", "lost", 1),
    ]


def test_one_that_answers_again_is_back_unless_its_connection_had_ended() -> None:
    clock = Clock()
    failures = TaskFailures(clock)
    failures.noticed(PS, SILENT, 6.0)
    clock.now = 2.0
    failures.answers(PS)
    failures.noticed(PS, SILENT, 6.0)
    failures.noticed(PS, LOST)
    clock.now = 4.0
    failures.answers(PS)
    assert failures.rows() == [TaskFailure("parameter server 0", "silent", 2, 12.0, 1, 2.0)]
    clock.now = 9.0
    failures.work([PS])
    assert failures.rows() == [TaskFailure("parameter server 0", "silent", 2, 12.0, 2, 9.0)]
