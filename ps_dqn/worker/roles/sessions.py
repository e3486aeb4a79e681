"""Which part a worker has in a run."""

import pathlib
from collections.abc import Sequence
from typing import Any

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.replay.outbox import Outbox
from ps_dqn.worker.calls import Sizes
from ps_dqn.worker.playing.actor import Actor
from ps_dqn.worker.playing.no_actor import NoActor
from ps_dqn.worker.roles.acting import ActingSession
from ps_dqn.worker.roles.inferring import InferringSession, RemoteActor
from ps_dqn.worker.roles.learning import LearningSession
from ps_dqn.worker.roles.session import Session

# What closures call, of all kinds; of these and of those that exchange one may be under way at
# once.
ACTING = ("plan", "step", "steps", "sample", "prepare", "weigh", "hand_over", "handed_over")
EXCHANGING = ("pulled", "pack", "pushed")


def keeps(config: Config, worker: int) -> bool:
    """Whether a worker has something to keep in files with --replay_files: actors have not."""
    return worker < config.topology.pushing(worker + 1)


def make(
    config: Config,
    session: int,
    log_id: int,
    worker: int,
    sizes: Sizes,
    folder: pathlib.Path | None,
    failures: pathlib.Path | None,
    loss_scale: int = 1,
    actors: Sequence[str] = (),
) -> Session:
    """A worker's part in a run.

    Args:
        config: the experiment.
        session: of the run.
        log_id: of its servers' log.
        worker: index; the first ones learn where others act.
        sizes: of the run.
        folder: where replay and the optimizer are kept; None keeps them in memory.
        failures: see `Actor`.
        loss_scale: to begin with, where there is one.
        actors: addresses of actor tasks, where there are some.

    Raises:
        UsageError: they are not as many as the run is for.
    """
    whose = (config, session, log_id, worker, sizes)
    if config.topology.has_remote_environments:
        own = config.topology.actors_of(worker, actors)
        return InferringSession(
            *whose, RemoteActor(config, worker, own, folder), folder, loss_scale
        )
    if not config.topology.is_shared:
        return Session(*whose, Actor(config, worker, folder, failures), folder, loss_scale)
    if worker < config.topology.num_learners:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)  # where others have a replay, that does it
        nobody: Any = NoActor(sizes.num_moments)
        return LearningSession(*whose, nobody, folder, loss_scale)

    def remember(config: Config, environment: EnvironmentSpec, *_: Any) -> Outbox:
        return Outbox(config, environment, sizes.num_replay_servers)

    actor = Actor(config, worker, None, failures, remember)
    return ActingSession(*whose, actor, None, loss_scale)
