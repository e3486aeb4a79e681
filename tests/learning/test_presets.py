"""Every preset learns: from what it collects, one push of its own update loop."""

import numpy as np
import pytest
import tensorflow as tf
from support.small_learner import SEED, Inputs, learn
from support.tiers import tiered

from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.flags import command_line, experiment
from ps_dqn.learning.learner import local_optimizer_slots
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Actor


def preset(name: str) -> Config:
    values = command_line.new_flags()
    experiment.define(values)
    path = command_line.PRESETS / f"{name}.flags"
    less = LESS.get(name, [])
    command_line.parse(values, ["test", f"--flagfile={path}", "--jit_compile=none", *less])
    return experiment.read(values)


NAMES = {path.stem for path in command_line.PRESETS.glob("*.flags")}
LARGE = {"atari_fast", "btr"}  # take long to compile
EXTRAS = {
    **{"lunarlander": "Box2D", "minatar": "minatar"},
    **dict.fromkeys(("atari", "atari_fast", "btr"), "ale_py"),
}
# What would take minutes.
LESS = {
    "atari": ["--min_replay_size=200", "--num_envs=8", "--network_width=0.25", "--local_updates=4"],
    "atari_fast": ["--min_replay_size=200", "--network_width=0.25", "--local_updates=4"],
    "btr": [
        *("--min_replay_size=100", "--num_envs=4", "--batch_size=8", "--local_updates=2"),
        "--network_width=0.25",
    ],
}


@pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")  # of version 0 of a game
@pytest.mark.parametrize("name", tiered(sorted(NAMES), quick=NAMES - LARGE, slow=LARGE))
def test_every_preset_learns(name: str) -> None:
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    config = preset(name)
    actor = Actor(config, worker=0)
    network = networks.build(config.network, config.value, actor.environments.spec, seed=0)
    act = tf.function(network.act, autograph=False)
    made = 0
    while made < config.vector_steps_per_push(1) or not actor.memory.is_warm:
        observations, states, _ = actor.acting
        acted = act(network.initial, observations, states, SEED + made)
        actor.step(Acted(*(each.numpy() for each in acted)), epsilon=0.5)
        made += 1
    batch = actor.memory.sample(config.parameter_server.local_updates, config.learning.batch_size)
    slots = np.zeros((local_optimizer_slots(config), network.num_parameters), np.float32)
    given = Inputs(config, network, network.initial, network.initial, slots, batch)
    learned = learn(given, rate=1e-3)
    actor.memory.update_priorities(learned.errors)
    actor.close()
    assert all(np.isfinite(part).all() for part in learned)
    assert learned.errors.shape == (
        config.parameter_server.local_updates,
        config.learning.batch_size,
    )
    assert (learned.errors >= 0).all()
    is_gradient = config.parameter_server.local_updates == 1
    assert (
        1e-4 < np.abs(learned.vector).max() < (config.learning.max_grad_norm if is_gradient else 1)
    )
