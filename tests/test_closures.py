"""The training closure against the same updates in one process, and what its options change."""

import json

import numpy as np
import pytest
import tensorflow as tf
from conftest import TESTS, run_python
from small import SMALL, make_training

from ps_dqn import (
    environments,
    networks,
    optimizers,
)
from ps_dqn.config import Config
from ps_dqn.experience import Experience
from ps_dqn.learner import local_optimizer_slots, make_learner
from ps_dqn.replay import Transitions
from ps_dqn.reports import Report

SINGLE = Config.from_values({**SMALL, "local_updates": 1})
THREE_PUSHES = Config.from_values({**SMALL, "local_updates": 4, "pushes_per_closure": 3})
ONE_PUSH = Config.from_values({**SMALL, "local_updates": 4})
SCENARIOS = [(SINGLE, 20), (THREE_PUSHES, 3), (ONE_PUSH, 9)]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """What the scenarios' closures did on a cluster with one worker."""
    folder = tmp_path_factory.mktemp("one_worker")
    scenarios = [(json.loads(config.to_json()), count) for config, count in SCENARIOS]
    arguments = [TESTS / "one_worker.py", folder / "played.npz", json.dumps(scenarios)]
    ended = run_python(arguments, folder)
    assert ended.returncode == 0, ended.stderr
    with np.load(folder / "played.npz") as data:
        return [
            {name: data[f"{i}/{name}"] for name in ("online", "target", "counters", "reports")}
            for i in range(len(SCENARIOS))
        ]


def reference_gradient(config: Config, q_function, online, target, batch: Transitions):
    """One minibatch's gradient, its loss, mean Q(s, a) and norm, with choices made in NumPy."""
    learning = config.learning
    rows = np.arange(len(batch.actions))
    next_target = q_function(target, batch.next_observations).numpy()
    chooser = q_function(online, batch.next_observations).numpy()
    greedy = (chooser if learning.double_dqn else next_target).argmax(-1)
    targets = batch.returns + batch.discounts * next_target[rows, greedy]
    with tf.GradientTape() as tape:
        tape.watch(online)
        chosen = tf.gather(q_function(online, batch.observations), batch.actions, batch_dims=1)
        size = tf.abs(targets - chosen)
        losses = 0.5 * size**2
        if learning.loss == "huber":
            delta = learning.huber_delta
            losses = tf.where(size <= delta, losses, delta * (size - 0.5 * delta))
        loss = tf.reduce_mean(losses)
    gradient = tape.gradient(loss, online).numpy()
    norm = np.linalg.norm(gradient)
    if learning.max_grad_norm and norm > learning.max_grad_norm:
        gradient = gradient * (learning.max_grad_norm / norm)
    return gradient, loss.numpy(), chosen.numpy().mean(), norm


def linear(start: float, end: float, length: int, step: int) -> np.float32:
    return np.float32(start + min(step / length, 1) * (end - start))


def reference_learn(config, q_function, online, target, slots, steps, rate, batch: Transitions):
    """The same update after update; the vector is a gradient or a change, as in `Learned`."""
    parameters, kept, sums = tf.constant(online), list(slots), np.zeros(3)
    optimizer = optimizers.build(config.learning)
    for i in range(config.parameter_server.local_updates):
        minibatch = Transitions(*(array[i] for array in batch))
        gradient, *values = reference_gradient(config, q_function, parameters, target, minibatch)
        sums += values
        if config.parameter_server.local_updates == 1:
            return [gradient, slots, *sums]
        step = tf.constant(float(steps + i + 1))
        parameters, kept = optimizer.apply(parameters, kept, gradient, rate, step)
    return [parameters.numpy() - online, np.stack(kept), *sums]


class OneWorker:
    """What a worker does between a pull and a push, in this process and without the host."""

    def __init__(self, config: Config, index: int, q_function, num_parameters: int):
        self._config, self._q_function = config, q_function
        self._experience = Experience(config, index)
        num_slots = local_optimizer_slots(config)
        self._slots, self._steps = np.zeros((num_slots, num_parameters), np.float32), 0

    def work(self, online, target, env_steps: int):
        """The vector it would push, env steps, episodes, the sums over updates, epsilon, rate."""
        learning, exploration = self._config.learning, self._config.exploration
        start, end = exploration.epsilon_start, exploration.epsilon_end
        epsilon = linear(start, end, exploration.epsilon_decay_steps, env_steps)
        start, end = learning.learning_rate, learning.learning_rate_end
        rate = linear(start, end, learning.learning_rate_decay_steps, env_steps)
        updates = self._config.parameter_server.local_updates
        made = 0
        # `update_period` is 4 and so is the number of environments: one step for each update.
        while made < updates or not self._experience.is_warm:
            observations = self._experience.environments.observations
            greedy = self._q_function(online, observations).numpy().argmax(-1)
            self._experience.step(greedy, epsilon)
            made += 1
        gathered, batch = self._experience.take_gathered(), self._experience.sample()
        vector, self._slots, *sums = reference_learn(
            self._config, self._q_function, online, target, self._slots, self._steps, rate, batch
        )
        self._steps += updates
        return vector, gathered.env_steps, len(gathered.returns), sums, epsilon, rate


def start_of(config: Config):
    environment = environments.describe(config.environment)
    model = networks.build(config.network, environment, config.run.seed)
    return networks.flatten(model), networks.pure_function(model)


def test_a_closure_does_what_one_process_does(played):
    online, q_function = start_of(SINGLE)
    worker = OneWorker(SINGLE, 0, q_function, len(online))
    optimizer = optimizers.build(SINGLE.learning)
    target, slots = online, [tf.zeros_like(online)] * optimizer.num_slots
    env_steps = episodes = copies = 0
    for update in range(1, 21):
        gradient, made, ended, sums, epsilon, rate = worker.work(online, target, env_steps)
        env_steps, episodes = env_steps + made, episodes + ended
        online, slots = optimizer.apply(online, slots, gradient, rate, tf.constant(float(update)))
        if update % 6 == 0:
            target, copies = online, copies + 1

        single = played[0]
        np.testing.assert_allclose(single["online"][update - 1], online, atol=1e-5)
        np.testing.assert_allclose(single["target"][update - 1], target, atol=1e-5)
        expected_counters = [update, update, env_steps, episodes]
        np.testing.assert_array_equal(single["counters"][update - 1], expected_counters)
        report = Report(*single["reports"][update - 1])
        assert report.counters == tuple(expected_counters)
        assert (report.env_steps, report.episodes, report.updates) == (made, ended, 1)
        measured = (report.td_loss, report.q_values, report.grad_norm, report.epsilon)
        np.testing.assert_allclose(measured, (*sums, epsilon), rtol=1e-4)
    assert copies == 3
    assert episodes > 0  # an episode's end was among what was compared


def sync_config(**options) -> Config:
    # Evaluations are the run's business, not the rounds'.
    judged = {"total_env_steps": 150, "eval_episodes": 1, "eval_period": 10**6}
    return Config.from_values({**SMALL, "aggregation": "sync", **judged, **options})


@pytest.mark.parametrize("local_updates", [1, 4])
def test_a_round_does_what_one_process_does_with_the_mean(coordinator, tmp_path, local_updates):
    plain = {} if local_updates == 1 else {"outer_momentum": 0.0}
    config = sync_config(local_updates=local_updates, **plain)
    online, q_function = start_of(config)
    workers = [OneWorker(config, i, q_function, len(online)) for i in range(2)]
    optimizer = optimizers.build(config.learning)
    target, slots = online, [tf.zeros_like(online)] * optimizer.num_slots
    rounds = updates = env_steps = episodes = 0
    while env_steps < config.run.total_env_steps:
        pushed = [worker.work(online, target, env_steps) for worker in workers]
        mean = (pushed[0][0] + pushed[1][0]) / 2
        if local_updates == 1:
            step = tf.constant(float(rounds + 1))
            online, slots = optimizer.apply(online, slots, mean, pushed[0][-1], step)
        else:
            online = online + mean
        before = updates
        rounds, updates = rounds + 1, updates + 2 * local_updates
        env_steps, episodes = (
            env_steps + sum(each[1] for each in pushed), episodes + sum(each[2] for each in pushed)
        )  # fmt: skip
        if before // 6 < updates // 6:
            target = online
    assert rounds >= 4
    with make_training(coordinator, config, tmp_path) as (training, store):
        assert training.run().reason == "finished"
        state = store.state()
    # Counted by the log, so that no push more or less than these rounds was applied.
    assert state.counters == (rounds, updates, env_steps, episodes)
    np.testing.assert_allclose(state.online, online, atol=2e-5)
    np.testing.assert_allclose(state.target, target, atol=2e-5)


@pytest.mark.parametrize("local_updates", [1, 4])
def test_synchronous_runs_with_one_seed_are_equal_to_the_bit(coordinator, tmp_path, local_updates):
    def run(seed: int):
        config = sync_config(local_updates=local_updates, total_env_steps=160, seed=seed)
        with make_training(coordinator, config, tmp_path) as (training, store):
            assert training.run().reason == "finished"
            return store.state()

    first, again, other = run(1), run(1), run(2)
    assert first.counters == again.counters
    assert first.counters.env_steps >= 160
    for name in ("online", "target", "average"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert not np.array_equal(first.online, other.online)


def test_several_pushes_in_a_closure_are_like_as_many_closures(played):
    _, three, one = played
    for name in ("online", "target", "counters"):
        np.testing.assert_allclose(three[name], one[name][2::3], atol=1e-6)
    pushes = Report._fields.index("pushes")
    np.testing.assert_array_equal(three["reports"][:, pushes], 3)
    np.testing.assert_array_equal(one["reports"][:, pushes], 1)
    assert not np.allclose(one["online"][0], one["online"][2], atol=1e-4)


ACTIONS = 2


def learner_inputs(config: Config):
    """A network, and inputs far from zero and from each other, so that no option idles."""
    environment = environments.describe(config.environment)
    model = networks.build(config.network, environment, seed=1)
    other = networks.build(config.network, environment, seed=2)
    rng = np.random.default_rng(3)
    shape = (config.parameter_server.local_updates, config.learning.batch_size)
    batch = Transitions(
        rng.normal(size=(*shape, 4)).astype(np.float32),
        rng.integers(ACTIONS, size=shape).astype(np.int32),
        rng.normal(size=shape).astype(np.float32) * 3,
        np.where(rng.random(shape) < 0.2, 0, 0.9).astype(np.float32),
        rng.normal(size=(*shape, 4)).astype(np.float32),
    )
    online, target = networks.flatten(model), networks.flatten(other)
    slots = rng.random((local_optimizer_slots(config), len(online))).astype(np.float32) * 0.01
    return networks.pure_function(model), online, target, slots, batch


def learn(**options):
    config = Config.from_values({**SMALL, **options})
    q_function, online, target, slots, batch = learner_inputs(config)
    learner = make_learner(config, q_function)
    tensors = Transitions(*(tf.constant(array) for array in batch))
    steps, rate = tf.constant(7.0), tf.constant(0.01)
    learned = learner(
        tf.constant(online), tf.constant(target), tf.constant(slots), steps, rate, tensors
    )
    return [part.numpy() for part in learned]


def learn_by_reference(**options):
    config = Config.from_values({**SMALL, **options})
    q_function, online, target, slots, batch = learner_inputs(config)
    return reference_learn(config, q_function, online, target, slots, 7, 0.01, batch)


def assert_close(learned, expected):
    for part, reference in zip(learned, expected, strict=True):
        np.testing.assert_allclose(part, reference, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "adagrad", "sgd"])
def test_local_updates_are_single_updates_in_a_row(optimizer):
    options = {"local_updates": 4, "optimizer": optimizer}
    assert_close(learn(**options), learn_by_reference(**options))


# The gradient's norm is about 1 to 10 here and TD errors are about 3.
BASE = {
    "local_updates": 1,
    "batch_size": 32,
    "max_grad_norm": 0.0,
    "loss": "huber",
    "huber_delta": 1.0,
}


@pytest.mark.parametrize(
    "option",
    [
        {"double_dqn": False},
        {"loss": "squared"},
        {"huber_delta": 0.2},
        {"max_grad_norm": 0.05},
    ],
    ids=str,
)
def test_an_option_changes_the_gradient_as_it_should(option):
    base, changed = learn(**BASE), {**BASE, **option}
    learned = learn(**changed)
    assert_close(learned, learn_by_reference(**changed))
    assert np.abs(learned[0] - base[0]).max() > 1e-3


@pytest.mark.parametrize("local_updates", [1, 4])
def test_xla_and_graph_agree(local_updates):
    options = {"local_updates": local_updates}
    graph, xla = learn(**options, jit_compile=False), learn(**options, jit_compile=True)
    for part, other in zip(graph, xla, strict=True):
        np.testing.assert_allclose(part, other, atol=1e-5)
    assert np.abs(graph[0]).max() > 1e-3
