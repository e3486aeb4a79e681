"""Attempts at a run: another one where a task was lost and comes back.

Where others start the tasks, they start a parameter server that died again, and this process goes
on from the newest checkpoint with a new connection.
"""

from ps_dqn.coordinator import run
from ps_dqn.coordinator.run import RunContext
from ps_dqn.errors import ClusterLostError
from ps_dqn.run.checkpoints import Checkpoint

# Attempts in a row that may end before a step was made: what ends so is not a server that died.
MAX_FRUITLESS_ATTEMPTS = 3


def train(context: RunContext, resumed: Checkpoint | None) -> int:
    """Trains to the end; returns the exit code.

    Args:
        context: of the run.
        resumed: the checkpoint to go on from.

    Raises:
        UsageError: the checkpoint does not fit the flags.
        WorkerError: hosted Python raised.
        ClusterLostError: a task is gone that nobody starts again, or nothing comes of it.
        TaskDiedError: likewise, where the tasks are ours.
    """
    fruitless, reconnecting = 0, False
    while True:
        before = resumed.state.counters.env_steps if resumed else 0
        try:
            return run.train(context, resumed, reconnecting)
        except ClusterLostError as error:
            # Nothing trains; while it does, a signal lets results be saved.
            context.signals.on_stop(None)
            if context.cluster is not None:
                context.cluster.check()  # knows which task it was, and raises
            fruitless = 0 if context.vitals.env_steps > before else fruitless + 1
            may_come_back = context.placement.kind == "remote" and not context.signals.received
            if not may_come_back or fruitless == MAX_FRUITLESS_ATTEMPTS:
                raise
            context.say(f"{error}; connecting anew")
        reconnecting, resumed = True, context.checkpoints.newest()
