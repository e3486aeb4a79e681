"""A learner's part in a run of SEED: it infers for actors that have no network, and learns.

Espeholt et al. 2020, arXiv:1910.06591. Its closures are those of a worker that collects for itself:
what they act on is what actors show, and what they do is sent to them. So the recurrent state, the
exploration and the replay are here, whatever the actors are.

Shapes: E environments of all of its actors.
"""

import pathlib
from collections.abc import Sequence

import numpy as np

from ps_dqn import environments
from ps_dqn.actor.messages import Hello
from ps_dqn.config import Config
from ps_dqn.worker.calls import Acted, Acting, Plan, Reported
from ps_dqn.worker.playing.actor import Actor, epsilon_greedy
from ps_dqn.worker.playing.remote_environments import RemoteEnvironments
from ps_dqn.worker.pushes.push_under_way import PushUnderWay
from ps_dqn.worker.roles.session import Session


class RemoteActor(Actor):
    """Collects by way of actor tasks."""

    environments: RemoteEnvironments

    def __init__(
        self, config: Config, worker: int, addresses: Sequence[str], folder: pathlib.Path | None
    ):
        """Connects to nobody yet.

        Args:
            config: the experiment.
            worker: index of this learner.
            addresses: of its actors, host:port.
            folder: where replay is kept; None keeps it in memory.
        """
        self._config, self._has_begun = config, False
        self._env_steps_before = 0  # of the run, when it began here
        self._after = np.zeros((config.environment.envs_per_worker, config.state_size), np.float32)
        self._stepped = 0  # rows beyond whole steps of all environments
        self.is_deserted = False  # no actor was heard of when the last batch was waited for
        spec = environments.describe(config.environment)
        whose = RemoteEnvironments(
            spec,
            config.environment.envs_per_worker,
            addresses,
            config.topology.inference_timeout / 1e3,
        )
        super().__init__(config, worker, folder, made=whose)

    def _start_environments(self, env_steps: int) -> None:
        # Actors start them, once they are connected to and told so.
        self._env_steps_before = env_steps

    def begin(self, push: PushUnderWay) -> None:
        """A push begins; the first one connects to the actors."""
        super().begin(push)
        if not self._has_begun:
            self._has_begun = True
            self.environments.start(self._hello)

    def step(self, acted: Acted, epsilon: float | np.ndarray) -> int:
        """Answers the actors that wait, and takes what they show next: see `Actor.step`."""
        those = self.environments.waiting
        num_actions, masks = self.environments.num_actions, self.environments.masks
        greedy = acted.actions
        actions = epsilon_greedy(self._exploration, greedy, epsilon, num_actions, masks)
        self._after[those] = acted.state[those]
        self.environments.act(actions)
        steps = self.environments.gather()
        self.is_deserted = not (steps or self.environments.waiting.size)
        for step in steps:
            states = self._states[step.whose]
            self._take(step._replace(states=states), self._after[step.whose])
            self._stepped += len(step.rewards)
        whole, self._stepped = divmod(self._stepped, self.environments.num_envs)
        return whole

    def _hello(self, actor: int, num_envs: int, times: int) -> Hello:
        """What an actor is told; one that comes back does not repeat what it did."""
        whose = [self._seed, self._worker, self._env_steps_before, actor, times]
        seed = int(np.random.SeedSequence(whose).generate_state(1)[0]) % 2**31
        return Hello(self._config.to_json(), num_envs, seed)


class InferringSession(Session):
    """A worker whose environments are its actors'."""

    actor: RemoteActor

    def plan(self, status: np.ndarray) -> Plan:
        """What is to be done until the next pull: see `Session`."""
        # While nobody is there, nothing is learned: it would be learned from the same again.
        self._acts_first = self._acts_first or self.actor.is_deserted
        self.actor.is_deserted = False
        if self._parameters is not None and self._parameters.counters.updates:
            self.actor.environments.is_new = False  # other actors go on where one cannot
        return super().plan(status)

    def step(self, *arrays: np.ndarray) -> Acting:
        """Answers the actors that wait, from the fields of `Acted`."""
        size = self.actor.environments.waiting.size
        acting = super().step(*arrays)
        shown = self.actor.environments
        if size:
            self.tally.add("inferences")
            self.tally.add("inferred", size)
        for seconds in shown.waited:
            self.tally.add("answers")
            self.tally.add("answer_took", seconds)
            self.tally.maximum("answer_max", seconds)
        shown.waited.clear()
        return acting

    def report(self) -> Reported:
        """Ends a closure, whether or not anybody was acted for in it: see `Session`."""
        shown = self.actor.environments
        self.tally.newest("actors", shown.num_connected)
        self.tally.newest("absent_actor", shown.absent)
        return super().report()

    def _acting(self) -> Acting:
        # Its closure ends where nobody is there to act for.
        self._is_finished = self._is_finished or self.actor.is_deserted
        return super()._acting()
