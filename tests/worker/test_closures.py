"""The training closure against the same updates in one process, and what its options change."""

import json

import numpy as np
import pytest
import tensorflow as tf
from support.programs import SUPPORT, run_python
from support.small import SMALL, make_training

from ps_dqn import environments, networks, optimizers
from ps_dqn.config import Config
from ps_dqn.learning.learner import local_optimizer_slots, make_learner
from ps_dqn.replay.batch import zero_batch
from ps_dqn.replay.replay import Transitions
from ps_dqn.wire.report import Report
from ps_dqn.worker.actor import Experience

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
    ended = run_python(arguments, folder)
    assert ended.returncode == 0, ended.stderr
    with np.load(folder / "played.npz") as data:
        return [
            {name: data[f"{i}/{name}"] for name in ("online", "target", "counters", "reports")}
            for i in range(len(SCENARIOS))
        ]


def q_values(network, parameters, observations):
    return network.outputs(parameters, network.features(parameters, observations))


def reference_gradient(config: Config, network, online, target, batch: Transitions):
    """One minibatch's gradient, errors, and loss, mean Q(s, a) and norm; NumPy chooses."""
    value, learning = config.value, config.learning
    rows = np.arange(len(batch.actions))
    next_target = q_values(network, target, batch.next_observations).numpy()
    chooser = q_values(network, online, batch.next_observations).numpy()
    greedy = (chooser if value.double_dqn else next_target).argmax(-1)
    targets = batch.returns + batch.discounts * next_target[rows, greedy]
    with tf.GradientTape() as tape:
        tape.watch(online)
        outputs = q_values(network, online, batch.observations)
        chosen = tf.gather(outputs, batch.actions, batch_dims=1)
        size = tf.abs(targets - chosen)
        losses = 0.5 * size**2
        if value.loss == "huber":
            delta = value.huber_delta
            losses = tf.where(size <= delta, losses, delta * (size - 0.5 * delta))
        loss = tf.reduce_mean(batch.weights * losses)
    gradient = tape.gradient(loss, online).numpy()
    norm = np.linalg.norm(gradient)
    if learning.max_grad_norm and norm > learning.max_grad_norm:
        gradient = gradient * (learning.max_grad_norm / norm)
    return gradient, size.numpy(), [loss.numpy(), chosen.numpy().mean(), norm]


def linear(start: float, end: float, length: int, step: int) -> np.float32:
    return np.float32(start + min(step / length, 1) * (end - start))


def reference_learn(config, network, online, target, slots, steps, rate, batch: Transitions):
    """The same update after update; the vector is a gradient or a change, as in `Learned`."""
    parameters, kept, sums, all_errors = tf.constant(online), list(slots), np.zeros(3), []
    optimizer = optimizers.build(config.learning)
    for i in range(config.parameter_server.local_updates):
        minibatch = Transitions(*(array[i] for array in batch))
        gradient, errors, values = reference_gradient(
            config, network, parameters, target, minibatch
        )
        sums += values
        all_errors.append(errors)
        if config.parameter_server.local_updates == 1:
            return [gradient, slots, *sums, np.stack(all_errors)]
        step = tf.constant(float(steps + i + 1))
        parameters, kept = optimizer.apply(parameters, kept, gradient, rate, step)
    return [parameters.numpy() - online, np.stack(kept), *sums, np.stack(all_errors)]


class OneWorker:
    """What a worker does between a pull and a push, in this process and without the host."""

    def __init__(self, config: Config, index: int, network):
        self._config, self._network = config, network
        self._experience = Experience(config, index)
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
        made, memory = 0, self._experience.memory
        # `update_period` is 4 and so is the number of environments: one step for each update.
        while made < updates or not memory.is_warm:
            observations, state = self._experience.acting
            greedy = q_values(self._network, online, observations).numpy().argmax(-1)
            self._experience.step(greedy, state, epsilon)
            made += 1
        gathered = self._experience.take_gathered()
        batch = memory.sample(env_steps / self._config.run.total_env_steps)
        vector, self._slots, *sums, errors = reference_learn(
            self._config, self._network, online, target, self._slots, self._steps, rate, batch
        )
        memory.remember_errors(errors)
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
        expected_counters = [update, update, env_steps, episodes]
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


@pytest.mark.parametrize("local_updates", [1, 4])
def test_a_round_does_what_one_process_does_with_the_mean(coordinator, tmp_path, local_updates):
    plain = {} if local_updates == 1 else {"outer_momentum": 0.0}
    config = sync_config(local_updates=local_updates, **plain)
    online, network = start_of(config)
    workers = [OneWorker(config, i, network) for i in range(2)]
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
    _, three, one, _ = played
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
    network, other = (
        networks.build(config.network, config.value, environment, seed) for seed in (1, 2)
    )
    rng = np.random.default_rng(3)
    shape = (config.parameter_server.local_updates, config.learning.batch_size)
    batch = Transitions(
        rng.normal(size=(*shape, 4)).astype(np.float32),
        rng.integers(ACTIONS, size=shape).astype(np.int32),
        rng.normal(size=shape).astype(np.float32) * 3,
        np.where(rng.random(shape) < 0.2, 0, 0.9).astype(np.float32),
        rng.normal(size=(*shape, 4)).astype(np.float32),
        rng.uniform(0.2, 1, size=shape).astype(np.float32),
    )
    slots_shape = (local_optimizer_slots(config), network.num_parameters)
    slots = rng.random(slots_shape).astype(np.float32) * 0.01
    return network, network.initial, other.initial, slots, batch


def learn(**options):
    config = Config.from_values({**SMALL, **options})
    network, online, target, slots, batch = learner_inputs(config)
    learner = make_learner(config, network)
    vectors = (tf.constant(each) for each in (online, target, slots))
    tensors = Transitions(*(tf.constant(array) for array in batch))
    numbers = tf.constant(7.0), tf.constant(0.01), tf.constant(0.3), tf.constant([1, 2])
    return [part.numpy() for part in learner(*vectors, *numbers, tensors)]


def learn_by_reference(**options):
    config = Config.from_values({**SMALL, **options})
    network, online, target, slots, batch = learner_inputs(config)
    return reference_learn(config, network, online, target, slots, 7, 0.01, batch)


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


@pytest.mark.parametrize("compiled", ["update", "optimizer"])
@pytest.mark.parametrize("local_updates", [1, 4])
def test_xla_and_graph_agree(local_updates, compiled):
    options = {"local_updates": local_updates}
    graph, xla = learn(**options, jit_compile="none"), learn(**options, jit_compile=compiled)
    for part, other in zip(graph, xla, strict=True):
        np.testing.assert_allclose(part, other, atol=1e-5)
    assert np.abs(graph[0]).max() > 1e-3


def is_compiled(function) -> bool:
    """Whether XLA must compile a function, as its definition says."""
    return function.attr["_XlaMustCompile"].b


@pytest.mark.parametrize(
    ("compiled", "network", "whole", "inside"),
    [
        ("none", "mlp", False, 0),
        ("optimizer", "mlp", False, 1),
        ("update", "mlp", True, 0),
        ("auto", "mlp", True, 0),
        ("update", "impala", True, 0),
        # XLA is slow with convolutions.
        ("auto", "impala", False, 1),
    ],
)
def test_xla_compiles_what_it_is_asked_to(compiled, network, whole, inside):
    options = {"local_updates": 4, "jit_compile": compiled, "network": network}
    config = Config.from_values({**SMALL, **options})
    environment = environments.EnvironmentSpec((10, 10, 4), np.dtype(np.bool_), 3, None)
    built = networks.build(config.network, config.value, environment, seed=1)
    vector = tf.constant(built.initial)
    slots = tf.zeros([local_optimizer_slots(config), built.num_parameters])
    numbers = tf.constant(7.0), tf.constant(0.01), tf.constant(0.3), tf.constant([1, 2])
    batch = zero_batch(config, environment)
    tensors = Transitions(*(tf.constant(array) for array in batch))
    learner = make_learner(config, built)
    traced = learner.get_concrete_function(vector, vector, slots, *numbers, tensors)
    assert is_compiled(traced.function_def) == whole
    library = traced.graph.as_graph_def().library.function
    assert sum(map(is_compiled, library)) == inside
