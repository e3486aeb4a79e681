"""The training closure against the same updates in one process, and what its options change."""

import json

import numpy as np
import pytest
import tensorflow as tf
from conftest import TESTS, run_python

from ps_dqn import environments, networks, optimizers, scheduling
from ps_dqn.checkpoints import Checkpoints
from ps_dqn.closures import Closures
from ps_dqn.config import Config
from ps_dqn.display import PlainDisplay
from ps_dqn.errors import WorkerError
from ps_dqn.experience import Experience
from ps_dqn.learner import make_learner
from ps_dqn.parameters import ParameterStore
from ps_dqn.replay import Transitions
from ps_dqn.reports import Report
from ps_dqn.training import Tasks, Training

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
    "jit_compile": False,
    "seed": 5,
}
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


def test_a_closure_does_what_one_process_does(played):
    config = SINGLE
    environment = environments.describe(config.environment)
    model = networks.build(config.network, environment, config.run.seed)
    online = tf.constant(networks.flatten(model))
    target, q_function = online, networks.pure_function(model)
    optimizer = optimizers.build(config.learning)
    slots = [tf.zeros_like(online)] * optimizer.num_slots
    experience = Experience(config, 0, np.zeros((0, len(online)), np.float32))
    env_steps = episodes = 0
    learning, exploration = config.learning, config.exploration
    copies = 0
    for update in range(1, 21):
        epsilon = linear(
            exploration.epsilon_start,
            exploration.epsilon_end,
            exploration.epsilon_decay_steps,
            env_steps,
        )
        rate = linear(
            learning.learning_rate,
            learning.learning_rate_end,
            learning.learning_rate_decay_steps,
            env_steps,
        )
        observations, missing = experience.observe()
        steps = 0
        while steps < 1 or missing:  # 1 update × 4 env steps an update / 4 environments
            greedy = q_function(online, observations).numpy().argmax(-1)
            observations, missing = experience.step(greedy, epsilon)
            steps += 1
        _, *batch, new_env_steps, new_episodes = experience.sample()
        env_steps, episodes = env_steps + new_env_steps, episodes + new_episodes
        minibatch = Transitions(*(array[0] for array in batch))
        gradient, loss, value, norm = reference_gradient(
            config, q_function, online, target, minibatch
        )
        online, slots = optimizer.apply(online, slots, gradient, rate, tf.constant(float(update)))
        if update % 6 == 0:
            target, copies = online, copies + 1

        single = played[0]
        np.testing.assert_allclose(single["online"][update - 1], online, atol=1e-5)
        np.testing.assert_allclose(single["target"][update - 1], target, atol=1e-5)
        expected_counters = [update, update, env_steps, episodes]
        np.testing.assert_array_equal(single["counters"][update - 1], expected_counters)
        report = Report(*single["reports"][update - 1])
        assert report.env_steps == new_env_steps
        measured = (report.td_loss, report.q_values, report.grad_norm, report.epsilon)
        np.testing.assert_allclose(measured, (loss, value, norm, epsilon), rtol=1e-4)
    assert copies == 3
    assert episodes > 0  # an episode's end was among what was compared


def test_several_pushes_in_a_closure_are_like_as_many_closures(played):
    _, three, one = played
    for name in ("online", "target", "counters"):
        np.testing.assert_allclose(three[name], one[name][2::3], atol=1e-6)
    pushes = Report._fields.index("pushes")
    np.testing.assert_array_equal(three["reports"][:, pushes], 3)
    np.testing.assert_array_equal(one["reports"][:, pushes], 1)
    assert not np.allclose(one["online"][0], one["online"][2], atol=1e-4)


ACTIONS = 2
MODEL_CONFIG = Config.from_values(SMALL)


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
    num_slots = optimizers.build(config.learning).num_slots
    if config.parameter_server.local_updates == 1:
        num_slots = 0
    slots = rng.random((num_slots, len(online))).astype(np.float32) * 0.01
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
    """The same update after update; the vector is a gradient or a change, as in `Learned`."""
    config = Config.from_values({**SMALL, **options})
    q_function, online, target, slots, batch = learner_inputs(config)
    parameters, kept, sums = tf.constant(online), list(slots), np.zeros(3)
    optimizer = optimizers.build(config.learning)
    for i in range(config.parameter_server.local_updates):
        minibatch = Transitions(*(array[i] for array in batch))
        gradient, *values = reference_gradient(config, q_function, parameters, target, minibatch)
        sums += values
        if config.parameter_server.local_updates == 1:
            return [gradient, slots, *sums]
        step = tf.constant(7.0 + i + 1)
        parameters, kept = optimizer.apply(parameters, kept, gradient, 0.01, step)
    return [parameters.numpy() - online, np.stack(kept), *sums]


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


def burst_config(**options) -> Config:
    burst = {"env_module": "catch_env", "env_id": "tests/Burst-v0"}
    return Config.from_values({**SMALL, **burst, "local_updates": 4, **options})


def make_closures(config: Config, session: str) -> tuple[ParameterStore, Closures]:
    environment = environments.describe(config.environment)
    model = networks.build(config.network, environment, config.run.seed)
    initial = networks.flatten(model)
    store = ParameterStore(config, 3, 2, initial)
    q_function = networks.pure_function(model)
    return store, Closures(config, environment, store, q_function, len(initial), 2, session)


@pytest.mark.parametrize("pushes_per_closure", [1, 3])
def test_a_failing_environment_comes_back_as_text_and_nothing_is_pushed(
    coordinator, pushes_per_closure
):
    store, closures = make_closures(
        burst_config(pushes_per_closure=pushes_per_closure), f"burst {pushes_per_closure}"
    )
    before = store.state()
    for _ in range(4):
        _, error = coordinator.schedule(closures.train).fetch()
        assert "RuntimeError: the ball burst" in error.decode()
        assert "catch_env.py" in error.decode()
    after = store.state()
    assert after.counters == before.counters == (0, 0, 0, 0)
    np.testing.assert_array_equal(after.online, before.online)
    np.testing.assert_array_equal(after.target, before.target)
    # Evaluations say so too.
    coordinator.schedule(closures.snapshot).fetch()
    *_, error = coordinator.schedule(closures.evaluate(2, freeze=True), args=(np.int64(1),)).fetch()
    assert "RuntimeError: the ball burst" in error.decode()


def test_training_raises_what_a_worker_raised(coordinator, tmp_path):
    from rich.console import Console

    from ps_dqn.writers import Writers

    config = burst_config()
    store, closures = make_closures(config, "burst training")
    schedule = scheduling.Schedule(coordinator, most=7, in_order=False)
    (tmp_path / "tensorboard").mkdir()
    writers = Writers(tmp_path, store.counters())
    training = Training(
        config,
        1.0,
        store,
        closures,
        schedule,
        Tasks(2, check=lambda: [], workers_alive=None),
        Checkpoints(tmp_path, keep=1),
        writers,
        PlainDisplay(Console(quiet=True), 60.0),
    )
    try:
        with pytest.raises(WorkerError, match="the ball burst"):
            training.run()
    finally:
        # Takes up what the other closures say, so that no error is left for later tests.
        while schedule.outstanding("train"):
            assert schedule.next(60.0) is not None
        schedule.close()
        writers.close()
    assert store.counters() == (0, 0, 0, 0)
    assert list(tmp_path.glob("*.npz")) == []
