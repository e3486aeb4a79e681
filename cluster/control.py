"""What the user of a cluster on this machine sees and does of it, in whatever process that is."""

from typing import Protocol

from ps_dqn.cluster.spec import Task


class TaskDiedError(RuntimeError):
    """A task ended that the cluster cannot go on without; the text has the end of its log."""


class Control(Protocol):
    """The tasks of a cluster: `LocalCluster`, or by way of the process that owns that."""

    def ended(self, job: str) -> list[Task]:
        """The tasks of a job whose processes have ended."""

    def check(self, job: str) -> list[str]:
        """Starts the tasks of a job again that have ended; one line for each.

        Raises:
            TaskDiedError: one was started again too often and never was well, nor was another.
        """

    def waiting(self, job: str) -> list[Task]:
        """Those of a job that have ended too often and are started again after a while."""

    def are_well(self, *tasks: Task) -> None:
        """Tasks do their work: each may be started again as often as at first."""

    def tasks(self, job: str) -> list[Task]:
        """The tasks of a job."""

    def kill(self, task: Task) -> None:
        """Ends a task that does not answer; on any thread."""

    def begin_anew(self, job: str, environment: dict[str, str]) -> list[str]:
        """Ends the tasks of a job and starts them again, with more in their environment.

        Whatever is started after that has it, too.

        Returns:
            A line for each task.

        Raises:
            TaskDiedError: one was started again too often and never was well, nor was another.
        """

    def may_be_starting(self, task: Task, silent: float) -> bool:
        """Whether a task that has been silent for so long (seconds) is on its way to serve."""

    def pid(self, task: Task) -> int:
        """The process id of a task."""

    def epitaphs(self) -> str:
        """How tasks have ended, and the ends of their logs; empty where none has."""

    def last_words(self, task: Task) -> str:
        """The end of a task's log."""
