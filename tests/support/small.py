"""Runs small enough for tests, on CartPole: quick, and nothing is compiled."""

import contextlib
import pathlib
import secrets

from rich.console import Console

from ps_dqn import environments
from ps_dqn.config import Config
from ps_dqn.coordinator.keeping.saving import Saving
from ps_dqn.coordinator.keeping.snapshots import Snapshots
from ps_dqn.coordinator.loop import Training
from ps_dqn.coordinator.scheduling import dispatch
from ps_dqn.coordinator.supervision.task_failures import TaskFailures
from ps_dqn.coordinator.supervision.tasks import Tasks
from ps_dqn.replay_server.store import ReplayStore
from ps_dqn.run.checkpoints import Checkpoints
from ps_dqn.run.disk import Disk
from ps_dqn.telemetry.display import PlainDisplay
from ps_dqn.telemetry.figures import RunFigures
from ps_dqn.telemetry.observer import Observer
from ps_dqn.telemetry.vitals import Vitals
from ps_dqn.telemetry.writers import Writers


def no_replay_servers(config: Config) -> ReplayStore:
    """The replay servers of a run whose workers have replays of their own."""
    return ReplayStore(config, environments.describe(config.environment), num_ps=1, num_servers=0)


def make_closures(config, num_ps: int, num_workers: int, on_gpus: bool = False):
    """A new run on the connected cluster: its store and its closures.

    It takes the parameter servers from the run before it.
    """
    from ps_dqn import networks
    from ps_dqn.parameter_server.store import ParameterStore
    from ps_dqn.worker.graph import behaviour
    from ps_dqn.worker.graph.closures import Closures

    environment = environments.describe(config.environment)
    network = networks.build(config.network, config.value, environment, config.run.seed)
    store = ParameterStore(config, num_ps, num_workers)
    store.create("run", network.initial, num_moments=network.num_moments, segments=network.segments)
    # Workers go on with the environments and the replay of a run that they know.
    run_id = secrets.token_hex(4)
    acts = behaviour.make(config, environment, network)
    replay = no_replay_servers(config)
    made = config, environment, store, replay, network, acts, run_id
    return store, Closures(*made, on_gpus=on_gpus)


SMALL = {
    "hidden_sizes": (16, 16),
    "num_envs_per_worker": 4,
    "update_period": 4,
    "pushes_per_closure": 1,
    "batch_size": 8,
    "n_step": 2,
    "min_replay_size": 24,
    "replay_capacity": 400,
    "epsilon_decay_steps": 120,
    "epsilon_end": 0.1,
    "learning_rate": 0.01,
    "learning_rate_end": 0.001,
    "learning_rate_decay_steps": 100,
    "target_update_period": 6,
    "max_grad_norm": 1.0,
    "jit_compile": "none",
    "seed": 5,
}


@contextlib.contextmanager
def make_training(coordinator, config: Config, folder: pathlib.Path):
    """A run on the shared cluster, and its store; leaves nothing outstanding for later tests."""
    store, closures = make_closures(config, num_ps=3, num_workers=2)
    schedule = dispatch.Schedule(coordinator, most=7, in_order=False)
    (folder / "tensorboard").mkdir(exist_ok=True)
    display = PlainDisplay(Console(quiet=True), 60.0)
    writers, vitals = Writers(folder), Vitals(RunFigures.planned(config, 2))
    observer = Observer(vitals, display, writers, Disk(print))
    period = config.run.checkpoint_period
    saving = Saving(store, Checkpoints(folder, keep=1), Snapshots(0.0), observer.disk, period)
    try:
        tasks = Tasks(2, None, TaskFailures())
        parts = store, no_replay_servers(config), closures, schedule, tasks, saving, observer
        yield Training(config, 1.0, *parts), store
    finally:
        while schedule.outstanding("train"):
            assert schedule.next(60.0) is not None
        schedule.close()
        writers.close()
