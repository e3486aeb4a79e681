"""The update loop: against NumPy on a linear network, compiled and not, its noise, every preset."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from flags import command_line, experiment
from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.learning.learner import Learned, local_optimizer_slots, make_learner
from ps_dqn.replay.batch import Sequences, Transitions, zero_batch
from ps_dqn.worker.actor import Actor

FEATURES, ACTIONS, SIZE = 2, 3, 5
ENVIRONMENT = EnvironmentSpec((FEATURES,), np.dtype(np.float32), ACTIONS, None)
SEED = np.array([1_000, 2_000], np.int32)
STEPS, RATE, DELTA = 7, 0.05, 3.0

SMALL: dict[str, Any] = {
    "hidden_sizes": (),
    "layer_norm": False,
    "double_dqn": False,
    "num_envs_per_worker": 1,
    "update_period": 1,
    "local_updates": 3,
    "batch_size": SIZE,
    "n_step": 2,
    "huber_delta": DELTA,
    "max_grad_norm": 0.0,
    "jit_compile": "none",
}


def make_batch(config: Config) -> Any:
    """Inputs far from zero and from each other, so that no option idles."""
    rng = np.random.default_rng(3)
    zeros = zero_batch(config, ENVIRONMENT)
    batch = zeros._replace(
        observations=rng.normal(size=zeros.observations.shape).astype(np.float32),
        actions=rng.integers(ACTIONS, size=zeros.actions.shape).astype(np.int32),
        returns=3 * rng.normal(size=zeros.returns.shape).astype(np.float32),
        discounts=np.where(rng.random(zeros.discounts.shape) < 0.2, 0, 0.9).astype(np.float32),
        weights=rng.uniform(0.2, 1, zeros.weights.shape).astype(np.float32),
    )
    if isinstance(batch, Sequences):
        first, steps = config.replay.burn_in, config.replay.sequence_length
        bootstraps = first + np.arange(steps) + rng.integers(1, 3, zeros.bootstraps.shape)
        return batch._replace(
            starts=rng.random(zeros.starts.shape) < 0.2,
            states=rng.normal(size=zeros.states.shape).astype(np.float32),
            bootstraps=bootstraps.astype(np.int32),
        )
    following = rng.normal(size=zeros.next_observations.shape)
    return batch._replace(next_observations=following.astype(np.float32))


@dataclasses.dataclass
class Inputs:
    """What a learner of a configuration is called with."""

    config: Config
    network: Any
    online: np.ndarray
    target: np.ndarray
    slots: np.ndarray
    batch: Any
    learner: Any = None


def inputs(**values: Any) -> Inputs:
    config = Config.from_values(SMALL | values)
    online, target = (
        networks.build(config.network, config.value, ENVIRONMENT, seed) for seed in (1, 2)
    )
    shape = local_optimizer_slots(config), online.num_parameters
    slots = np.random.default_rng(5).random(shape).astype(np.float32) * 0.01
    batch = make_batch(config)
    return Inputs(config, online, online.initial, target.initial, slots, batch)


def learn(given: Inputs, seed: np.ndarray = SEED, rate: float = RATE) -> Learned:
    if given.learner is None:
        given.learner = make_learner(given.config, given.network)
    numbers = np.float32(STEPS), np.float32(rate)
    learned = given.learner(
        *map(tf.constant, (given.online, given.target, given.slots, *numbers, seed)),
        type(given.batch)(*map(tf.constant, given.batch)),
    )
    return Learned(*(each.numpy() for each in learned))


def q_values(parameters: np.ndarray, observation: np.ndarray) -> np.ndarray:
    """Of the linear network, from the flat vector of its kernel and bias."""
    kernel = parameters[:-ACTIONS].reshape(FEATURES, ACTIONS)
    return observation @ kernel + parameters[-ACTIONS:]


def reference_gradient(
    given: Inputs, online: np.ndarray, target: np.ndarray, index: int
) -> tuple[np.ndarray, list[float], list[float]]:
    """Of one minibatch: gradient, loss, mean value and norm; errors."""
    config, gradient, loss, chosen, errors = given.config, np.zeros(online.size), 0.0, [], []
    minibatch = Transitions(*(array[index] for array in given.batch))
    for x, a, r, d, y, weight in zip(*minibatch, strict=True):
        after = q_values(target, y)
        best = np.argmax(q_values(online, y) if config.value.double_dqn else after)
        value = q_values(online, x)[a]
        error = r + d * after[best] - value
        slope = np.zeros((FEATURES + 1, ACTIONS))
        slope[:, a] = [*x, 1.0]
        gradient -= weight * np.clip(error, -DELTA, DELTA) * slope.ravel() / SIZE
        size = abs(error)
        loss += weight * (size**2 / 2 if size <= DELTA else DELTA * (size - DELTA / 2)) / SIZE
        chosen.append(value)
        errors.append(size)
    norm = np.sqrt((gradient**2).sum())
    limit = config.learning.max_grad_norm
    if limit and norm > limit:
        gradient *= limit / norm
    return gradient, [loss, float(np.mean(chosen)), norm], errors


def adam(parameters: np.ndarray, slots: np.ndarray, gradient: np.ndarray, step: int) -> np.ndarray:
    """Kingma and Ba 2015 with the paper's ε outside of the corrections; changes `slots`."""
    slots[0] = 0.9 * slots[0] + 0.1 * gradient
    slots[1] = 0.999 * slots[1] + 0.001 * gradient**2
    rate = RATE * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    return parameters - rate * slots[0] / (np.sqrt(slots[1]) + 1e-5)


def reference_learn(given: Inputs) -> Learned:
    """One update after the other; a gradient where there is one only."""
    online, slots = given.online.astype(np.float64), given.slots.astype(np.float64)
    sums, errors = np.zeros(3), []
    for i in range(given.config.parameter_server.local_updates):
        has_target = given.config.learning.target_update_period > 0
        target = given.target if has_target else online
        gradient, values, sizes = reference_gradient(given, online, target, i)
        sums += values
        errors.append(sizes)
        if not len(slots):
            return Learned(gradient, slots, *sums, np.array(errors))
        online = adam(online, slots, gradient, STEPS + 1 + i)
    return Learned(online - given.online, slots, *sums, np.array(errors))


def assert_close(learned: Learned, expected: Learned, **tolerance: float) -> None:
    tolerance = {"rtol": 1e-4, "atol": 1e-5} | tolerance
    for name, part, reference in zip(Learned._fields, learned, expected, strict=True):
        assert part.shape == np.shape(reference), name
        np.testing.assert_allclose(part, reference, **tolerance, err_msg=name)


MODES: dict[str, dict[str, Any]] = {
    "dqn": {},
    "double": {"double_dqn": True},
    "no target network": {"target_update_period": 0},
    "clipped": {"max_grad_norm": 0.3},
}


@pytest.mark.parametrize("local_updates", [1, 3])
@pytest.mark.parametrize("mode", MODES)
def test_one_update_gives_the_gradient_and_more_the_change(mode: str, local_updates: int) -> None:
    given = inputs(**MODES[mode], local_updates=local_updates)
    learned = learn(given)
    assert_close(learned, reference_learn(given))
    assert learned.errors.shape == (local_updates, SIZE)
    if mode != "dqn":
        plain = learn(inputs(local_updates=local_updates))
        assert np.abs(learned.vector - plain.vector).max() > 1e-3


RECURRENT = {"recurrent_size": 3, "burn_in": 2, "sequence_length": 3, "sequence_period": 2}
DISTRIBUTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "c51": {"value_distribution": "c51", "num_atoms": 5},
    "qr_dqn": {"value_distribution": "qr_dqn", "num_quantiles": 3},
    "iqn": {"value_distribution": "iqn", "num_quantiles": 3, "num_target_quantiles": 2},
}


@pytest.mark.parametrize("memory", [{}, RECURRENT], ids=["feedforward", "recurrent"])
@pytest.mark.parametrize("kind", ["none", "iqn"])
def test_the_target_counts_where_there_is_one(kind: str, memory: dict[str, Any]) -> None:
    for period in (0, 10):
        options = {**DISTRIBUTIONS[kind], **memory, "target_update_period": period}
        given = inputs(**options, local_updates=2)
        first, other = learn(given), learn(dataclasses.replace(given, target=given.target * -3))
        if period:
            assert np.abs(first.errors - other.errors).max() > 0.1
            assert np.abs(first.vector - other.vector).max() > 1e-4
        else:
            assert all((a == b).all() for a, b in zip(first, other, strict=True))


@pytest.fixture
def same_noise_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random numbers that XLA and TensorFlow's kernels agree about: theirs they do not share."""

    def waves(shape: Any, seed: tf.Tensor) -> tf.Tensor:
        count = int(np.prod([int(each) for each in shape]))
        start = tf.cast(seed[0] % 997 + seed[1] % 991, tf.float32)
        return tf.reshape(tf.sin(start + 1.7 * tf.range(count, dtype=tf.float32)), shape)

    def uniform(shape: Any, seed: tf.Tensor, **_: Any) -> tf.Tensor:
        return 0.5 + 0.49 * waves(shape, seed)

    monkeypatch.setattr(tf.random, "stateless_uniform", uniform)
    monkeypatch.setattr(tf.random, "stateless_normal", lambda shape, seed, **_: waves(shape, seed))


DUELING, NOISY = {"dueling": True}, {"noisy": True, "hidden_sizes": (4,)}
IQN = DISTRIBUTIONS["iqn"]
C51 = DISTRIBUTIONS["c51"] | {"huber_delta": 1.0}  # its loss has no such thing
COMPILED: dict[str, dict[str, Any]] = {
    "none": DUELING | {"double_dqn": True},
    "c51": C51 | NOISY | {"target_update_period": 0},
    "qr_dqn": DISTRIBUTIONS["qr_dqn"] | DUELING | NOISY | {"double_dqn": True},
    "iqn": IQN | DUELING | {"munchausen": True},
    "recurrent none": RECURRENT | NOISY | {"value_rescaling": True},
    "recurrent c51": RECURRENT | C51 | DUELING | {"double_dqn": True},
    "recurrent qr_dqn": RECURRENT | DISTRIBUTIONS["qr_dqn"] | NOISY | {"target_update_period": 0},
    "recurrent iqn": RECURRENT | IQN | DUELING | NOISY,
}


@pytest.mark.usefixtures("same_noise_everywhere")
@pytest.mark.parametrize("kind", COMPILED)
def test_compiled_and_not_agree(kind: str) -> None:
    # One update compiles sooner; for a loop within the loop one kind of recurrent network will do.
    updates = 1 if kind in ("recurrent c51", "recurrent qr_dqn") else 2
    options = {**COMPILED[kind], "local_updates": updates, "optimizer": "sgd"}
    graph = learn(inputs(**options))
    assert np.abs(graph.vector).max() > 1e-3
    assert_close(learn(inputs(**options, jit_compile="update")), graph, atol=5e-5)


def test_the_optimizer_alone_may_be_compiled() -> None:
    assert_close(learn(inputs(jit_compile="optimizer")), learn(inputs()))


def repeated(given: Inputs) -> Inputs:
    """The same minibatch for every update, and nothing to bootstrap from."""
    same = (np.repeat(array[:1], len(array), axis=0) for array in given.batch)
    batch = type(given.batch)(*same)._replace(discounts=np.zeros_like(given.batch.discounts))
    return dataclasses.replace(given, batch=batch)


@pytest.mark.parametrize("memory", [{}, RECURRENT], ids=["feedforward", "recurrent"])
@pytest.mark.parametrize("options", [NOISY, IQN], ids=["noisy", "iqn"])
def test_every_update_has_noise_of_its_own_which_the_seed_decides(
    options: dict[str, Any], memory: dict[str, Any]
) -> None:
    # Nothing is learned, so what differs between updates is noise.
    given = repeated(inputs(**options, **memory))
    first, again = (learn(given, rate=0.0).errors for _ in range(2))
    other = learn(given, SEED + 1, rate=0.0).errors
    assert (first == again).all()
    rows = [*first, *other]
    for i, row in enumerate(rows):
        assert all(np.abs(row - earlier).max() > 1e-3 for earlier in rows[:i])


def test_without_noise_the_seed_has_no_influence() -> None:
    given = repeated(inputs(**DISTRIBUTIONS["qr_dqn"]))
    first, other = learn(given, rate=0.0).errors, learn(given, SEED + 1, rate=0.0).errors
    assert (first == other).all()
    assert (first == first[:1]).all()


@pytest.fixture
def eagerly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Functions run as Python, so that a test sees the numbers they work with."""

    def while_loop(condition: Any, body: Any, values: Any, **_: Any) -> Any:
        while condition(*values):
            values = body(*values)
        return values

    monkeypatch.setattr(tf, "while_loop", while_loop)
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


class Listening:
    """A network that remembers the seeds of its noise."""

    def __init__(self, network: Any):
        self._network = network
        self.heads: list[tuple[int, ...]] = []
        self.encoders: list[tuple[int, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    def features(self, parameters: Any, observations: Any, noise: tf.Tensor) -> Any:
        self.encoders.append(tuple(noise.numpy().tolist()))
        return self._network.features(parameters, observations, noise)

    def outputs(self, parameters: Any, features: Any, noise: tf.Tensor, *taus: Any) -> Any:
        self.heads.append(tuple(noise.numpy().tolist()))
        return self._network.outputs(parameters, features, noise, *taus)


def listen(mode: dict[str, Any]) -> Listening:
    given = inputs(**mode, local_updates=6)
    given.network = Listening(given.network)
    learn(given)
    return given.network


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("mode", [{"double_dqn": True}, {"target_update_period": 0}], ids=str)
def test_no_two_uses_of_a_head_in_a_push_share_their_noise(mode: dict[str, Any]) -> None:
    asked = listen(mode).heads
    # The target once for all and the chooser, or the bootstrap of each update; and the loss.
    assert len(asked) == (1 + 2 * 6 if "double_dqn" in mode else 2 * 6)
    shared = {seed: asked.count(seed) for seed in asked if asked.count(seed) > 1}
    assert not shared, "as seed: how often"


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("mode", [{"double_dqn": True}, {"target_update_period": 0}], ids=str)
def test_noise_of_learning_is_not_that_of_acting(mode: dict[str, Any]) -> None:
    network = listen(mode)
    # Closures act with the push's seed and its second number counted down.
    acting = {(int(SEED[0]), int(SEED[1]) - step) for step in range(1, 10_000)}
    assert not acting & {*network.heads, *network.encoders}
    # An encoder's noise is one draw for an update, another for the target.
    assert len(set(network.encoders)) == (7 if "double_dqn" in mode else 6)


@pytest.mark.parametrize(("optimizer", "slots"), [("adam", 2), ("rmsprop", 1), ("sgd", 1)])
def test_a_gradient_needs_no_slots_of_the_worker(optimizer: str, slots: int) -> None:
    for updates, expected in ((1, 0), (2, slots)):
        values = SMALL | {"optimizer": optimizer, "local_updates": updates}
        assert local_optimizer_slots(Config.from_values(values)) == expected


def preset(name: str) -> Config:
    values = command_line.new_flags()
    experiment.define(values)
    path = command_line.PRESETS / f"{name}.flags"
    command_line.parse(values, ["test", f"--flagfile={path}", "--jit_compile=none"])
    return experiment.read(values)


EXTRAS = {"lunarlander": "Box2D", "minatar": "minatar"}


@pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")  # of version 0 of a game
@pytest.mark.parametrize("name", sorted(path.stem for path in command_line.PRESETS.glob("*.flags")))
def test_every_preset_learns(name: str) -> None:
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    config = preset(name)
    actor = Actor(config, worker=0)
    network = networks.build(config.network, config.value, actor.environments.spec, seed=0)
    act = tf.function(network.act, autograph=False)
    made = 0
    while made < config.vector_steps_per_push or not actor.memory.is_warm:
        greedy, states = act(network.initial, *actor.acting, SEED + made)
        actor.step(greedy.numpy(), states.numpy(), epsilon=0.5)
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
    assert 1e-4 < np.abs(learned.vector).max() < 1
