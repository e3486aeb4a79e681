"""Actors and learners at the pace that `--update_period` says, though neither calls the other.

Ape-X leaves both to run as they can; how often an experience is learned from then depends on the
machines. Here the first parameter server, which counts both, has whoever is ahead wait, as Reverb's
rate limiters do (Cassirer et al. 2021, arXiv:2102.04736).
"""

from ps_dqn.config import Config, scaling
from ps_dqn.parameter_server.aggregation import Asynchronous
from ps_dqn.state import Counters
from ps_dqn.wire.messages import PullRequest, Status

# What actors may be ahead of learners, in pushes of each learner: enough that all work at once.
LEAD = 2.0


class Paced(Asynchronous):
    """Every push makes a version as it comes, from learners and actors that keep pace."""

    def __init__(self, config: Config, num_workers: int):
        """Nothing was collected.

        Args:
            config: the experiment.
            num_workers: learners, which are the first of all workers.
        """
        super().__init__(config, num_workers)
        self._least = config.replay.min_replay_size
        self._period = config.parameter_server.update_period
        pushed = num_workers * scaling.sequential_updates(config.parameter_server, num_workers)
        self._lead = LEAD * self._period * pushed

    def status(self, request: PullRequest, counters: Counters) -> Status:
        """A learner waits for experience, an actor for learners; one that must may go on."""
        if counters.env_steps >= self._total_env_steps:
            return Status.FINISHED
        beyond = counters.env_steps - self._least  # what is learned from follows
        learned = counters.sequential_updates * self._period
        is_learner = request.worker < self._num_workers
        if is_learner:
            return Status.READY if learned < beyond else Status.WAIT
        may_go_on = request.is_pressing or beyond < learned + self._lead
        return Status.READY if may_go_on else Status.WAIT
