"""Attempts at a run: another one where a task was lost and comes back.

A parameter server that died is started again, by others or here, and this process goes on from its
newest snapshot with a new connection; see `recovery`.
"""

import time

from ps_dqn.cluster import remote
from ps_dqn.cluster.spec import SERVERS, Task, of_servers
from ps_dqn.coordinator import run
from ps_dqn.coordinator.context import RunContext
from ps_dqn.coordinator.supervision.task_failures import LOST
from ps_dqn.errors import ClusterLostError
from ps_dqn.run import compile_cache
from ps_dqn.run.checkpoints import Checkpoint
from ps_dqn.wire import failures

# Where others start the tasks: attempts in a row that may end before a step was made, for what ends
# so may not be a server that died. Of tasks of ours it is known how often each has died.
MAX_FRUITLESS_ATTEMPTS = 3
# How long a local task may take to end after it was lost (seconds).
DEATH_SECONDS = 5.0


def train(context: RunContext, resumed: Checkpoint | None) -> int:
    """Trains to the end; returns the exit code.

    Args:
        context: of the run.
        resumed: the checkpoint to go on from.

    Raises:
        UsageError: the checkpoint does not fit the flags.
        WorkerError: hosted Python raised.
        ClusterLostError: a task is gone that nobody starts again, or nothing comes of it.
        TaskDiedError: a task of ours keeps dying.
    """
    fruitless, reconnecting = 0, False
    while True:
        replaced, began_at = context.watchdog.replaced, context.history.began_at
        try:
            return run.train(context, resumed, reconnecting)
        except ClusterLostError as error:
            # Nothing trains; while it does, a signal lets results be saved.
            context.signals.on_stop(None)
            if context.history.began_at > began_at:
                fruitless = 0  # workers had pushed more than their closures had told of
            has_trained = context.vitals.env_steps > context.history.began_at
            fruitless = 0 if has_trained else fruitless + 1
            _wait_for_an_end(context)
            lost = _lost_servers(context)
            for task in lost:
                context.history.failures.noticed(task, LOST)
            gives_up = context.cluster is None and fruitless == MAX_FRUITLESS_ATTEMPTS
            if context.signals.received or gives_up:
                raise _explained(context, error) from error
            lines = _started_again(context, error, lost, replaced)
            if not lines:
                raise
            for line in lines:
                context.say(f"{line}; connecting anew")
        reconnecting, resumed = True, context.checkpoints.newest()


def _wait_for_an_end(context: RunContext) -> None:
    """A task's connections end before it does."""
    if context.cluster is not None:
        deadline = time.monotonic() + DEATH_SECONDS
        while not context.cluster.epitaphs() and time.monotonic() < deadline:
            time.sleep(0.01)


def _lost_servers(context: RunContext) -> list[Task]:
    """Servers that have ended; of those that others start, that do not answer."""
    if context.cluster is not None:
        return of_servers(context.cluster.ended)
    spec = context.placement.spec
    servers = [task for task in spec.tasks() if task.job in SERVERS]
    return remote.silent(spec, servers) if context.is_remote else []


def _started_again(
    context: RunContext, error: ClusterLostError, lost: list[Task], replaced: int
) -> list[str]:
    """A line for each task that is started again, here or by others; none where nobody does.

    Args:
        context: of the run.
        error: what TensorFlow says of it.
        lost: parameter servers.
        replaced: tasks that the watchdog had started again before this attempt.

    Raises:
        TaskDiedError: a task was started again too often.
    """
    if context.cluster is None:
        said = [f"{task} is lost" for task in lost] or [str(error)]
        return said if context.is_remote else []
    lines = of_servers(context.cluster.check) + context.cluster.check("worker")
    mistaken = failures.mistaken(error)
    if not lines and mistaken is not None:  # another one is known as it is
        task = context.placement.spec.task_at(Task(*mistaken))
        context.cluster.kill(task)
        _wait_for_an_end(context)
        lines = context.cluster.check(task.job)
    known = context.watchdog.replaced > replaced  # while this process waited for all tasks
    if not lines and (known or context.cluster.waiting("worker")):
        return [str(error)]
    if not lines and (environment := compile_cache.forget()):
        # Nobody has ended, so a closure has failed. TensorFlow has many words for a file of
        # compiled code that it cannot write or read.
        context.say(
            f"workers begin again, and compile for themselves, as a closure failed "
            f"({failures.reason(error.__cause__ or error)})"
        )
        lines = context.cluster.begin_anew("worker", environment)
    return lines


def _explained(context: RunContext, error: ClusterLostError) -> ClusterLostError:
    """The same, with the ends of tasks of ours."""
    told = context.cluster.epitaphs() if context.cluster is not None else ""
    return ClusterLostError(told) if told else error
