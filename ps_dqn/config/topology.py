"""Who collects, who learns, and where experience is kept."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from ps_dqn.config.agent import Network, Value
from ps_dqn.config.demonstrations import Demonstrations
from ps_dqn.config.environment import Environment
from ps_dqn.config.options import option
from ps_dqn.config.replay import Replay
from ps_dqn.config.resets import Resets
from ps_dqn.config.run import ROUNDS, ParameterServer
from ps_dqn.errors import UsageError

_NEEDED = {"topology": ("apex", "seed")}


class Rungs(NamedTuple):
    """A worker's environments on the ladder of all that share a replay."""

    first: int
    envs: int  # of the worker
    of_all: int


@dataclasses.dataclass(frozen=True)
class Topology:
    """Who collects, who learns, and where experience is kept."""

    topology: str = option(
        "local",
        "Each worker collects, and learns from a replay of its own (local); or actors collect, "
        "learners learn, and replay servers keep what all of them share (apex: Ape-X, Horgan et "
        "al. 2018); or actors have environments alone, and learners say what they do, remember and "
        "learn (seed: SEED, Espeholt et al. 2020).",
        choices=("local", "apex", "seed"),
    )
    num_actors: int = option(
        2,
        "Tasks that step environments: with topology=apex workers that have the network and no "
        "gradient, with topology=seed tasks that have no network (tasks).",
        low=1,
        needs=_NEEDED,
    )
    num_learners: int = option(
        1,
        "Workers that learn and have no environments: with topology=apex the first ones among "
        "worker_hosts, with topology=seed all of them (tasks).",
        low=1,
        needs=_NEEDED,
    )
    inference_timeout: float = option(
        10.0,
        "How long the first actor of a batch waits for the others until a learner acts for those "
        "that are there (ms); 0: for nobody.",
        low=0.0,
        needs={"topology": ("seed",)},
    )

    @property
    def is_shared(self) -> bool:
        """Whether workers share a replay on tasks of its own."""
        return self.topology == "apex"

    @property
    def has_remote_environments(self) -> bool:
        """Whether the environments are on tasks of their own, which have no network."""
        return self.topology == "seed"

    @property
    def says_workers(self) -> bool:
        """Whether it says how many workers there are."""
        return self.topology != "local"

    @property
    def num_workers(self) -> int:
        """Learners, and actors that are workers."""
        return self.num_learners + (self.num_actors if self.is_shared else 0)

    @property
    def num_actor_tasks(self) -> int:
        """Actors that are no workers."""
        return self.num_actors if self.has_remote_environments else 0

    def actors_of(self, learner: int, addresses: Sequence[str]) -> Sequence[str]:
        """Of all actor tasks those of one learner: each has as many, within one.

        Raises:
            UsageError: they are not as many as the run is for.
        """
        if len(addresses) != self.num_actors:
            raise UsageError(
                f"--num_actors={self.num_actors}: worker {learner} knows of {len(addresses)} actor "
                f"tasks: start it with as many --actor_hosts"
            )
        return addresses[learner :: self.num_learners]

    def pushing(self, num_workers: int) -> int:
        """How many of so many workers learn; they are the first ones."""
        return self.num_learners if self.is_shared else num_workers

    def acting(self, num_workers: int) -> int:
        """How many of so many workers collect."""
        return self.num_actors if self.is_shared else num_workers

    def role(self, worker: int) -> str:
        """What a worker is for, where they are not all alike; else nothing."""
        if not self.is_shared:
            return ""
        return "learner" if worker < self.num_learners else "actor"

    def rungs(self, worker: int, num_envs: int) -> Rungs:
        """A worker's environments among those that share a replay with them.

        A learner, which has none, stands for all of them: it learns what they do.

        Args:
            worker: its index.
            num_envs: of each worker that acts.
        """
        if not self.is_shared:
            return Rungs(0, num_envs, num_envs)
        of_all = self.num_actors * num_envs
        if worker < self.num_learners:
            return Rungs(0, of_all, of_all)
        return Rungs((worker - self.num_learners) * num_envs, num_envs, of_all)

    def check_beside(
        self,
        environment: Environment,
        network: Network,
        value: Value,
        replay: Replay,
        resets: Resets,
        demonstrations: Demonstrations,
        parameter_server: ParameterServer,
    ) -> None:
        """Refuses what does not go with how tasks share the work.

        Raises:
            UsageError: with the flags and what to do.
        """
        unmet: dict[str, tuple[bool, str]] = {}
        if self.has_remote_environments:
            unmet = self._unmet_by_remote(replay, demonstrations)
        elif self.is_shared:
            given = environment, network, value, replay, resets, demonstrations, parameter_server
            unmet = self._unmet_by_shared(*given)
        for flag, (is_met, what_to_do) in unmet.items():
            if not is_met:
                raise UsageError(
                    f"{flag}: does not go with --topology={self.topology}; {what_to_do}"
                )

    def _unmet_by_remote(
        self, replay: Replay, demonstrations: Demonstrations
    ) -> dict[str, tuple[bool, str]]:
        """Flags, whether they go with actors without a network, and what to do where not."""
        return {
            f"--replay={replay.replay}": (
                replay.replay != "rollout",
                "a rollout has a step of every environment in each of its rows, and actors come "
                "when they can: use another",
            ),
            "--offline=true": (
                not demonstrations.offline,
                "nobody acts then: leave one of them out",
            ),
            f"--num_learners={self.num_learners}": (
                self.num_learners <= self.num_actors,
                f"each learner has actors of its own, and --num_actors={self.num_actors}: say "
                f"fewer of them",
            ),
        }

    def _unmet_by_shared(
        self,
        environment: Environment,
        network: Network,
        value: Value,
        replay: Replay,
        resets: Resets,
        demonstrations: Demonstrations,
        parameter_server: ParameterServer,
    ) -> dict[str, tuple[bool, str]]:
        """Flags, whether they go with a replay on tasks of its own, and what to do where not."""
        return {
            f"--replay={replay.replay}": (
                replay.replay == "prioritized",
                "its replay is prioritized: say --replay=prioritized",
            ),
            f"--recurrent_size={network.recurrent_size}": (
                not network.recurrent_size,
                "its actors give priorities to transitions, not to sequences: leave it out",
            ),
            f"--value_distribution={value.value_distribution}": (
                value.value_distribution == "none",
                "first priorities are errors of expected values: leave it out",
            ),
            "--munchausen=true": (
                not value.munchausen,
                "first priorities are errors without its bonus: leave it out",
            ),
            "--value_rescaling=true": (
                not value.value_rescaling,
                "first priorities are errors of plain returns: leave it out",
            ),
            "--normalize_returns=on": (
                value.normalize_returns != "on",
                "first priorities are errors of plain returns: leave it out",
            ),
            "--branching=true": (
                not environment.branching,
                "first priorities are errors of whole actions: leave it out",
            ),
            f"--demonstrations={demonstrations.demonstrations}": (
                not demonstrations.demonstrations,
                "its learners have no replay of their own to keep them in: leave it out",
            ),
            f"--n_step_start={resets.n_step_start}": (
                not resets.n_step_start,
                "actors and replay servers have one length of returns: leave it out",
            ),
            f"--gamma_start={resets.gamma_start:g}": (
                not resets.gamma_start,
                "actors and replay servers have one discount: leave it out",
            ),
            "--overlap=on": (
                parameter_server.overlap != "on",
                "its actors step environments while learners learn: leave it out",
            ),
            f"--backup_workers={parameter_server.backup_workers}": (
                not parameter_server.backup_workers,
                "its learners push as they come, without rounds: leave it out",
            ),
            f"--aggregation={parameter_server.aggregation}": (
                parameter_server.aggregation not in ROUNDS,
                "its learners push as they come: leave it out",
            ),
        }

    def check_workers(self, num_workers: int) -> None:
        """Refuses another number of workers than the topology says.

        Raises:
            UsageError: with the flags and what to do.
        """
        if not self.says_workers or num_workers == self.num_workers:
            return
        who = f"--num_learners={self.num_learners}"
        if self.is_shared:
            who += f" and --num_actors={self.num_actors}, {self.num_workers} in all"
        raise UsageError(
            f"--num_workers={num_workers}: with --topology={self.topology} the workers are {who}: "
            "make both the same"
        )

    def check_learners(self, num_workers: int) -> None:
        """Refuses other workers than the learners, where actors are started apart from them.

        Raises:
            UsageError: with the flags and what to do.
        """
        if self.is_shared and num_workers != self.num_learners:
            raise UsageError(
                f"--num_workers={num_workers}: with --topology={self.topology}, workers are the "
                f"learners where actors are apart from them, and --num_learners="
                f"{self.num_learners}: make both the same"
            )

    def check_environments(self, num_envs: int) -> None:
        """Refuses fewer environments than actors.

        Args:
            num_envs: of each learner.

        Raises:
            UsageError: with the flags and what to do.
        """
        most = -(-self.num_actors // self.num_learners)
        if self.has_remote_environments and num_envs < most:
            raise UsageError(
                f"--num_actors={self.num_actors}: up to {most} of them share the {num_envs} "
                f"environments of a learner: say more --num_envs, or fewer actors"
            )
