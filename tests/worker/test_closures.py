"""The training closure against the same updates in one process."""

import json
import math
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from support import warm
from support.programs import SUPPORT
from support.reference_updates import q_values, reference_learn
from support.small import SMALL, make_closures, make_training
from support.tiers import tiered

from ps_dqn import environments, networks, optimizers
from ps_dqn.config import Config
from ps_dqn.learning.learner import local_optimizer_slots
from ps_dqn.state import State
from ps_dqn.telemetry.report import Report
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Actor

SINGLE = Config.from_values({**SMALL, "local_updates": 1})
THREE_PUSHES = Config.from_values({**SMALL, "local_updates": 4, "pushes_per_closure": 3})
ONE_PUSH = Config.from_values({**SMALL, "local_updates": 4})
PRIORITIZED = Config.from_values({**SMALL, "local_updates": 1, "replay": "prioritized"})
SCENARIOS = [(SINGLE, 20), (THREE_PUSHES, 3), (ONE_PUSH, 9), (PRIORITIZED, 20)]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """What the scenarios' closures did on a cluster with one worker."""
    folder = tmp_path_factory.mktemp("one_worker")
    scenarios = [(json.loads(config.to_json()), count) for config, count in SCENARIOS]
    arguments = [SUPPORT / "one_worker.py", folder / "played.npz", json.dumps(scenarios)]
    ended = warm.run_python(arguments, folder)
    assert ended.returncode == 0, ended.stderr
    with np.load(folder / "played.npz") as data:
        return [
            {name: data[f"{i}/{name}"] for name in ("online", "target", "counters", "reports")}
            for i in range(len(SCENARIOS))
        ]


def linear(start: float, end: float, length: int, step: int) -> np.float32:
    return np.float32(start + min(step / length, 1) * (end - start))


class OneWorker:
    """What a worker does between a pull and a push, in this process and without the host."""

    def __init__(self, config: Config, index: int, network, workers: int = 1):
        self._config, self._network = config, network
        # `update_period` is 4 and so is the number of environments: one step for each update of
        # all workers.
        self._steps_per_push = config.parameter_server.local_updates / workers
        self._owed = 0.0
        self._actor = Actor(config, index)
        num_slots = local_optimizer_slots(config)
        self._slots, self._steps = np.zeros((num_slots, network.num_parameters), np.float32), 0

    def work(self, online, target, env_steps: int):
        """The vector it would push, env steps, episodes, the sums over updates, epsilon, rate."""
        learning, exploration = self._config.learning, self._config.exploration
        start, end = exploration.epsilon_start, exploration.epsilon_end
        epsilon = linear(start, end, exploration.epsilon_decay_steps, env_steps)
        start, end = learning.learning_rate, learning.learning_rate_end
        rate = linear(start, end, learning.learning_rate_decay_steps, env_steps)
        updates = self._config.parameter_server.local_updates
        self._owed += self._steps_per_push
        to_make = math.floor(self._owed)
        self._owed -= to_make
        made, memory = 0, self._actor.memory
        while made < to_make or not memory.is_warm:
            observations, state, _ = self._actor.acting
            greedy = q_values(self._network, online, observations).numpy().argmax(-1)
            self._actor.step(Acted(greedy, state), epsilon)
            made += 1
        gathered = self._actor.take_gathered()
        batch = memory.sample(
            updates, learning.batch_size, env_steps / self._config.run.total_env_steps
        )
        vector, self._slots, *sums, errors = reference_learn(
            self._config, self._network, online, target, self._slots, self._steps, rate, batch
        )
        memory.update_priorities(errors)
        self._steps += updates
        return vector, gathered.env_steps, len(gathered.returns), sums, epsilon, rate


def start_of(config: Config):
    environment = environments.describe(config.environment)
    network = networks.build(config.network, config.value, environment, config.run.seed)
    return network.initial, network


@pytest.mark.parametrize(
    ("scenario", "config"), [(0, SINGLE), (3, PRIORITIZED)], ids=["uniform", "prioritized"]
)
def test_a_closure_does_what_one_process_does(played, scenario, config):
    online, network = start_of(config)
    worker = OneWorker(config, 0, network)
    optimizer = optimizers.build(config.learning)
    target, slots = online, [tf.zeros_like(online)] * optimizer.num_slots
    env_steps = episodes = copies = 0
    for update in range(1, 21):
        gradient, made, ended, sums, epsilon, rate = worker.work(online, target, env_steps)
        env_steps, episodes = env_steps + made, episodes + ended
        online, slots = optimizer.apply(online, slots, gradient, rate, tf.constant(float(update)))
        if update % 6 == 0:
            target, copies = online, copies + 1

        single = played[scenario]
        np.testing.assert_allclose(single["online"][update - 1], online, atol=1e-5)
        np.testing.assert_allclose(single["target"][update - 1], target, atol=1e-5)
        expected_counters = [update, update, env_steps, episodes, update]
        np.testing.assert_array_equal(single["counters"][update - 1], expected_counters)
        report = Report(*single["reports"][update - 1])
        assert report.counters == tuple(expected_counters)
        assert (report.env_steps, report.episodes, report.updates) == (made, ended, 1)
        measured = (report.td_loss, report.q_values, report.grad_norm, report.epsilon)
        np.testing.assert_allclose(measured, (*sums, epsilon), rtol=1e-4, atol=1e-5)
    assert copies == 3
    assert episodes > 0  # an episode's end was among what was compared


def sync_config(**options) -> Config:
    # Evaluations are the run's business, not the rounds'.
    judged = {"total_env_steps": 150, "eval_episodes": 1, "eval_period": 10**6}
    return Config.from_values({**SMALL, "aggregation": "sync", **judged, **options})


def run_in_rounds(coordinator, config: Config, folder: pathlib.Path) -> State:
    """What a run on the shared cluster ends with."""
    with make_training(coordinator, config, folder) as (training, store):
        assert training.run().reason == "finished"
        return store.state()


@pytest.fixture(scope="module", params=tiered([1, 4], quick=(4,)), ids="local_updates={}".format)
def in_rounds(request, coordinator, tmp_path_factory) -> tuple[Config, State]:
    """A run in rounds: of gradients, or of the changes of several updates."""
    plain = {} if request.param == 1 else {"outer_momentum": 0.0}
    config = sync_config(local_updates=request.param, **plain)
    return config, run_in_rounds(coordinator, config, tmp_path_factory.mktemp("in_rounds"))


def test_a_round_does_what_one_process_does_with_the_mean(in_rounds):
    config, state = in_rounds
    local_updates = config.parameter_server.local_updates
    online, network = start_of(config)
    workers = [OneWorker(config, i, network, workers=2) for i in range(2)]
    optimizer = optimizers.build(config.learning)
    target, slots = online, [tf.zeros_like(online)] * optimizer.num_slots
    rounds = env_steps = episodes = 0
    while env_steps < config.run.total_env_steps:
        pushed = [worker.work(online, target, env_steps) for worker in workers]
        mean = (pushed[0][0] + pushed[1][0]) / 2
        if local_updates == 1:
            step = tf.constant(float(rounds + 1))
            online, slots = optimizer.apply(online, slots, mean, pushed[0][-1], step)
        else:
            online = online + 2 ** (1 / 3) * mean  # of two workers
        before = rounds * local_updates  # those of both are made side by side
        rounds += 1
        env_steps, episodes = (
            env_steps + sum(each[1] for each in pushed), episodes + sum(each[2] for each in pushed)
        )  # fmt: skip
        if before // 6 < rounds * local_updates // 6:
            target = online
    assert rounds >= 4
    # Counted by the log, so that no push more or less than these rounds was applied.
    updates = rounds * local_updates
    assert state.counters == (rounds, 2 * updates, env_steps, episodes, updates)
    np.testing.assert_allclose(state.online, online, atol=2e-5)
    np.testing.assert_allclose(state.target, target, atol=2e-5)


def test_synchronous_runs_with_one_seed_are_equal_to_the_bit(in_rounds, coordinator, tmp_path):
    config, first = in_rounds
    again = run_in_rounds(coordinator, config, tmp_path)
    assert first.counters == again.counters
    assert first.counters.env_steps >= config.run.total_env_steps
    for name in ("online", "target", "average"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))


@pytest.mark.slow
@pytest.mark.parametrize("in_rounds", [1], indirect=True)
def test_another_seed_gives_another_run(in_rounds, coordinator, tmp_path):
    _, first = in_rounds
    other = run_in_rounds(coordinator, sync_config(local_updates=1, seed=6), tmp_path)
    assert not np.array_equal(first.online, other.online)


def test_a_pull_in_rounds_begins_with_nothing_as_long_as_the_parameters(coordinator):
    _, closures = make_closures(sync_config(local_updates=1), num_ps=3, num_workers=2)
    size = closures._network.num_parameters
    operations = closures.train.graph.get_operations()
    loops = [each for each in operations if each.type in ("While", "StatelessWhile")]
    assert len(loops) == 2, "that of the first pull, and that of the pushes"
    begun_with = [each.op.type for loop in loops for each in loop.inputs if each.shape == [size]]
    assert set(begun_with) == {"EnsureShape"}


def test_several_pushes_in_a_closure_are_like_as_many_closures(played):
    _, three, one, _ = played
    for name in ("online", "target", "counters"):
        np.testing.assert_allclose(three[name], one[name][2::3], atol=1e-6)
    pushes = Report._fields.index("pushes")
    np.testing.assert_array_equal(three["reports"][:, pushes], 3)
    np.testing.assert_array_equal(one["reports"][:, pushes], 1)
    assert not np.allclose(one["online"][0], one["online"][2], atol=1e-4)
