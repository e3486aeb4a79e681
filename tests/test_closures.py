"""The training closure against the same updates in one process, and what its options change."""

import contextlib
import itertools
import json
import math
import pathlib
import threading

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from conftest import TESTS, make_closures, run_python
from rich.console import Console

from ps_dqn import (
    checks,
    environments,
    experience,
    networks,
    optimizers,
    reports,
    scheduling,
    shard,
)
from ps_dqn.checkpoints import Checkpoints
from ps_dqn.config import Config
from ps_dqn.display import PlainDisplay
from ps_dqn.errors import UsageError, WorkerError
from ps_dqn.experience import Experience
from ps_dqn.learner import local_optimizer_slots, make_learner
from ps_dqn.messages import HEADER
from ps_dqn.replay import Transitions
from ps_dqn.reports import Report
from ps_dqn.training import Tasks, Training
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
    config = sync_config(local_updates=local_updates)
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


def burst_config(**options) -> Config:
    burst = {"env_module": "catch_env", "env_id": "tests/Burst-v0"}
    return Config.from_values({**SMALL, **burst, "local_updates": 4, **options})


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
            config, 1.0, store, closures, schedule, tasks, checkpoints, writers, display
        ), store  # fmt: skip
    finally:
        while schedule.outstanding("train"):
            assert schedule.next(60.0) is not None
        schedule.close()
        writers.close()


@pytest.mark.parametrize("pushes_per_closure", [1, 3])
def test_a_failing_environment_comes_back_as_text_and_nothing_is_pushed(
    coordinator, pushes_per_closure
):
    config = burst_config(pushes_per_closure=pushes_per_closure)
    store, closures = make_closures(config, num_ps=3, num_workers=2)
    before = store.state()
    for ticket in range(1, 5):
        _, error = coordinator.schedule(closures.train, args=(np.array([ticket] * 2),)).fetch()
        assert "RuntimeError: the ball burst" in error.decode()
        assert "catch_env.py" in error.decode()
    after = store.state()
    assert after.counters == before.counters == (0, 0, 0, 0)
    np.testing.assert_array_equal(after.online, before.online)
    np.testing.assert_array_equal(after.target, before.target)
    # Evaluations say so too.
    coordinator.schedule(closures.freeze).fetch()
    *_, error = coordinator.schedule(closures.evaluate(2, freeze=True), args=(np.int64(1),)).fetch()
    assert "RuntimeError: the ball burst" in error.decode()


@pytest.mark.parametrize("pushes_per_closure", [1, 3])
def test_an_environment_that_cannot_be_made_on_a_worker_comes_back_as_text(
    coordinator, monkeypatch, pushes_per_closure
):
    # On the coordinator it can: say, a file that only this machine has.
    config = Config.from_values({**SMALL, "pushes_per_closure": pushes_per_closure})
    _, closures = make_closures(config, num_ps=3, num_workers=2)

    def fail(*_):
        raise FileNotFoundError("no such rom")

    monkeypatch.setattr(experience, "Environments", fail)
    _, error = coordinator.schedule(closures.train, args=(np.array([1, 1]),)).fetch()
    assert "FileNotFoundError: no such rom" in error.decode()


def test_training_raises_what_a_worker_raised(coordinator, tmp_path):
    with (
        make_training(coordinator, burst_config(), tmp_path) as (training, store),
        pytest.raises(WorkerError, match="the ball burst"),
    ):
        training.run()
    assert store.counters() == (0, 0, 0, 0)
    assert list(tmp_path.glob("*.npz")) == []


class Odd(gymnasium.Env):
    """What one worker alone does not see, or should not learn."""

    # Two workers' environments meet here.
    meeting = threading.Barrier(2)

    def __init__(self, kind: str):
        self.observation_space = gymnasium.spaces.Box(0, 1, (3,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._kind, self._steps = kind, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.ones(3, np.float32), {}

    def step(self, action):
        self._steps += 1
        rewards = {"meeting": 1.0, "growing": 4.0**self._steps, "nan": np.nan}
        if self._kind == "meeting":
            self.meeting.wait(timeout=60)
        return np.ones(3, np.float32), rewards[self._kind], False, False, {}


gymnasium.register("TestClosures/Odd-v0", Odd, disable_env_checker=True)


def odd_config(kind: str, **options) -> Config:
    # One step and one update for each push, on the two newest transitions.
    rhythm = {"num_envs_per_worker": 1, "update_period": 1, "local_updates": 1, "n_step": 1}
    memory = {"replay_capacity": 3, "min_replay_size": 1}
    odd = {"env_id": "TestClosures/Odd-v0", "env_kwargs": json.dumps({"kind": kind})}
    return Config.from_values({**SMALL, **rhythm, **memory, **odd, **options})


def train(coordinator, closures, first: int = 1, count: int = 1) -> list[Report]:
    """The reports of closures that are scheduled at the same time, with tickets from `first` on."""
    waiting = [
        coordinator.schedule(closures.train, args=(np.array([first + i, 1]),)) for i in range(count)
    ]
    values = [remote.fetch() for remote in waiting]
    assert [error for _, error in values] == [b""] * count
    return [reports.decode(vector) for vector, _ in values]


@pytest.mark.parametrize(("bound", "applied", "refused"), [(None, 2, 0), (1, 2, 0), (0, 1, 1)])
def test_max_staleness_refuses_what_others_have_overtaken(coordinator, bound, applied, refused):
    config = odd_config("meeting", max_staleness=bound)
    store, closures = make_closures(config, num_ps=3, num_workers=2)
    for pair in range(3):
        # Both have pulled before their environments meet, so one pushes after the other's push.
        made = train(coordinator, closures, first=1 + 2 * pair, count=2)
        assert {report.worker for report in made} == {0, 1}
        assert sorted(report.staleness for report in made) == [0, 1]
        assert sum(report.pushes for report in made) == applied
        assert sum(report.refused for report in made) == refused
    state = store.state()
    assert state.counters.version == state.counters.updates == 3 * applied
    assert state.counters.env_steps == sum(tally["env_steps"] for tally in store.tallies()) / 3 >= 6


@pytest.mark.parametrize(("gate", "withheld"), [(0.0, 0), (1.0, 10)])
def test_the_outlier_gate_keeps_back_losses_that_jump(coordinator, gate, withheld):
    config = odd_config("growing", outlier_gate=gate, pushes_per_closure=30)
    store, closures = make_closures(config, num_ps=3, num_workers=2)
    [report] = train(coordinator, closures)
    # The first 20 losses set the scale, and every later one is far beyond it.
    assert (report.withheld_outliers, report.pushes) == (withheld, 30 - withheld)
    assert store.counters().version == 30 - withheld
    assert store.counters().env_steps == report.env_steps >= 30


def test_no_number_that_is_not_finite_reaches_the_servers(coordinator):
    store, closures = make_closures(odd_config("nan", pushes_per_closure=4), 3, num_workers=2)
    before = store.state()
    [report] = train(coordinator, closures)
    assert (report.withheld_not_finite, report.pushes) == (4, 0)
    assert report.bytes_pushed == 4 * 3 * HEADER
    after = store.state()
    for name in ("online", "target", "average", "slots"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert after.counters == (0, 0, report.env_steps, 0)


# Bytes of n numbers; int8 has a scale for each 256 of them.
WIRE = {
    "float32": lambda n: 4 * n,
    "bfloat16": lambda n: 2 * n,
    "float16": lambda n: 4 + 2 * n,
    "int8": lambda n: n + 4 * math.ceil(n / 256),
}


@pytest.mark.parametrize(("pulled", "pushed"), [*itertools.pairwise([*WIRE, "float32"])])
def test_vectors_travel_as_their_wire_dtypes_say(coordinator, pulled, pushed):
    wire = {"pull_wire_dtype": pulled, "push_wire_dtype": pushed}
    config = Config.from_values({**SMALL, "local_updates": 1, **wire})
    store, closures = make_closures(config, num_ps=3, num_workers=2)
    before = store.state().online
    [report] = train(coordinator, closures)
    # Online and target, each at a multiple of 64 bytes.
    pulls = [2 * 64 * math.ceil(WIRE[pulled](size) / 64) for size in store.sizes]
    assert report.bytes_pulled == sum(HEADER + each for each in pulls)
    assert report.bytes_pushed == sum(HEADER + WIRE[pushed](size) for size in store.sizes)
    assert report.pushes == 1
    # No update of Adam moves a parameter by more than its step size, which is 0.01.
    change = np.abs(store.state().online - before)
    assert 0.005 < change.max() < 0.0101


def test_the_largest_numbers_of_a_push_travel_as_push_top_k_says(coordinator):
    config = Config.from_values({**SMALL, "local_updates": 4, "push_top_k": 0.1})
    store, closures = make_closures(config, num_ps=3, num_workers=2)
    before = store.state().online
    [report] = train(coordinator, closures)
    count = round(0.1 * len(before))
    assert np.count_nonzero(store.state().online - before) == count
    assert report.bytes_pushed == 3 * HEADER + 8 * count  # a place and a number


SYNC, SINGLE_UPDATES = {"aggregation": "sync"}, {"local_updates": 1}


@pytest.mark.parametrize(
    ("option", "without", "needed"),
    [
        ({"backup_workers": 1}, {}, "--aggregation=sync"),
        ({"max_staleness": 0}, SYNC, "--aggregation=async"),
        ({"max_staleness": 3}, SYNC, "--aggregation=async"),
        ({"staleness_decay": 0.5}, SYNC, "--aggregation=async"),
        ({"staleness_cutoff": 4}, SYNC, "--aggregation=async"),
        ({"outer_learning_rate": 0.0}, SINGLE_UPDATES, "--local_updates above 1"),
        ({"outer_learning_rate": 0.5}, SINGLE_UPDATES, "--local_updates above 1"),
        ({"outer_momentum": 0.5}, SINGLE_UPDATES, "--local_updates above 1"),
    ],
    ids=str,
)
def test_an_option_that_would_do_nothing_is_refused(option, without, needed):
    [(name, value)] = option.items()
    with pytest.raises(UsageError) as caught:
        Config.from_values({**SMALL, "local_updates": 4, **without, **option})
    line = f"--{name}={value}: has no effect without {needed}; leave it out"
    assert str(caught.value) == line
    # Where it does something it is accepted, and so is leaving it out where it does nothing.
    where = SYNC if name == "backup_workers" else {}
    Config.from_values({**SMALL, "local_updates": 4, **where, **option})
    Config.from_values({**SMALL, "local_updates": 4, **without})


def test_a_round_waits_for_one_worker_at_least():
    config = Config.from_values({**SMALL, **SYNC, "local_updates": 4, "backup_workers": 2})
    checks.check_workers(config, num_workers=3)
    with pytest.raises(UsageError, match="--backup_workers=2: must be less than --num_workers=2"):
        checks.check_workers(config, num_workers=2)


def fail_with_words(*_):
    raise ArithmeticError("the server's own words")


SERVER_METHODS = ["pull", "_stage", "_apply"]


@pytest.mark.parametrize("num_ps", [1, 3])
@pytest.mark.parametrize("method", SERVER_METHODS)
def test_a_closure_says_when_a_parameter_server_failed(coordinator, monkeypatch, method, num_ps):
    config = Config.from_values({**SMALL, "pushes_per_closure": 1})
    store, closures = make_closures(config, num_ps, num_workers=2)
    monkeypatch.setattr(shard.Shard, method, fail_with_words)
    _, error = coordinator.schedule(closures.train, args=(np.array([1, 1]),)).fetch()
    # Nothing is learned from the zeros of a failed call, and the closure does not go unnoticed.
    assert b"Traceback" in error
    assert "the server's own words" in store.errors()
    assert store.errors() == ""


@pytest.mark.parametrize("pushes_per_closure", [1, 3])
@pytest.mark.parametrize("method", SERVER_METHODS)
def test_training_raises_what_a_parameter_server_raised(
    coordinator, tmp_path, monkeypatch, method, pushes_per_closure
):
    config = Config.from_values({**SMALL, "pushes_per_closure": pushes_per_closure})
    with make_training(coordinator, config, tmp_path) as (training, store):
        monkeypatch.setattr(shard.Shard, method, fail_with_words)
        with pytest.raises(WorkerError, match=r"(?s)parameter server \d:.*the server's own words"):
            training.run()
    store.errors()  # what the closures that were on their way met
