"""Runs small enough for tests, on CartPole: quick, and nothing is compiled."""

import contextlib
import pathlib

from conftest import make_closures
from rich.console import Console

from ps_dqn import scheduling
from ps_dqn.checkpoints import Checkpoints
from ps_dqn.config import Config
from ps_dqn.display import PlainDisplay
from ps_dqn.training import Tasks, Training
from ps_dqn.vitals import Vitals
from ps_dqn.writers import Writers

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
    schedule = scheduling.Schedule(coordinator, most=7, in_order=False)
    (folder / "tensorboard").mkdir(exist_ok=True)
    writers = Writers(folder, store.counters())
    display = PlainDisplay(Console(quiet=True), 60.0)
    tasks = Tasks(2, check=lambda: [], workers_alive=None)
    checkpoints = Checkpoints(folder, keep=1)
    try:
        yield Training(
            config, 1.0, store, closures, schedule, tasks, checkpoints, writers, display,
            Vitals(config, 2),
        ), store  # fmt: skip
    finally:
        while schedule.outstanding("train"):
            assert schedule.next(60.0) is not None
        schedule.close()
        writers.close()
