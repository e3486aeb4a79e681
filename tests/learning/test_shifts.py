"""Images shifted at random, pixel by pixel, and what is learned from them."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from support.tiers import tiered

from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.learning import loss_scaling, masking, shifts
from ps_dqn.learning.learner import local_optimizer_slots, make_learner
from ps_dqn.replay.batch import Rollout, Sequences, Transitions, zero_batch

HEIGHT, WIDTH, CHANNELS = 6, 5, 2
IMAGE = EnvironmentSpec((HEIGHT, WIDTH, CHANNELS), np.dtype(np.uint8), 3, None)
SEED = tf.constant([3, 4])
SMALL: dict[str, Any] = {
    "network": "minatar",
    "hidden_sizes": (4,),
    "num_envs_per_worker": 1,
    "update_period": 1,
    "local_updates": 2,
    "batch_size": 3,
}
SEQUENCES = {"recurrent_size": 2, "burn_in": 1, "sequence_length": 2, "sequence_period": 1}
PQN = {
    "replay": "rollout", "target_update_period": 0, "n_step": 1, "double_dqn": False,
    "replay_capacity": None, "update_period": 3, "num_envs_per_worker": 3,
}  # fmt: skip


def images(number: int, length: int = 1) -> np.ndarray:
    shape = (number, length, HEIGHT, WIDTH, CHANNELS)
    return np.random.default_rng(2).integers(256, size=shape).astype(np.uint8)


def moved(image: np.ndarray, down: int, right: int) -> np.ndarray:
    """By so many pixels, the edges repeated: the window of a padded image that DrQ cuts out."""
    margin = ((3, 3), (3, 3), (0, 0))
    padded = np.pad(image, margin, mode="edge")
    return padded[3 + down : 3 + down + HEIGHT, 3 + right : 3 + right + WIDTH]


def shift_of(found: np.ndarray, image: np.ndarray) -> tuple[int, int]:
    """Which shift it is; fails where it is none of up to two pixels."""
    each = [(i, j) for i in range(-2, 3) for j in range(-2, 3)]
    [same] = [by for by in each if np.array_equal(moved(image, *by), found)]
    return same


def test_each_image_is_shifted_by_its_own_evenly_drawn_number_of_pixels() -> None:
    given = images(600)
    found = shifts.shifted(tf.constant(given), 2, SEED)
    assert found.dtype == tf.uint8
    by = [shift_of(f[0], g[0]) for f, g in zip(found.numpy(), given, strict=True)]
    counts = np.array([by.count((i, j)) for i in range(-2, 3) for j in range(-2, 3)])
    assert counts.sum() == 600
    assert counts.min() > 6, "24 of each are expected"
    assert counts.max() < 48


@pytest.mark.parametrize("frames_have_channels", [False, True])
def test_frames_of_a_stack_are_shifted_alike(frames_have_channels: bool) -> None:
    """As Atari has them: the first axis is that of the frames."""
    given = np.moveaxis(images(8)[:, 0], -1, 1)  # [8, k, H, W]
    if frames_have_channels:
        given = given[..., np.newaxis]
    found = shifts.shifted(tf.constant(given[:, np.newaxis]), 2, SEED).numpy()[:, 0]
    shape = (8, CHANNELS, HEIGHT, WIDTH, 1)
    pairs = zip(found.reshape(shape), given.reshape(shape), strict=True)
    by = [{shift_of(*frame) for frame in zip(*pair, strict=True)} for pair in pairs]
    assert all(len(each) == 1 for each in by)
    assert len(set.union(*by)) > 1


def test_images_of_a_sequence_are_shifted_alike() -> None:
    given = images(8, length=3)
    found = shifts.shifted(tf.constant(given), 2, SEED).numpy()
    by = [
        {shift_of(*pair) for pair in zip(f, g, strict=True)}
        for f, g in zip(found, given, strict=True)
    ]
    assert all(len(each) == 1 for each in by)
    assert len(set.union(*by)) > 1


def batch_for(**values: Any) -> Any:
    config = Config.from_values(SMALL | values)
    zeros = zero_batch(config, IMAGE)
    rng = np.random.default_rng(5)
    filled = {
        name: rng.integers(256, size=getattr(zeros, name).shape).astype(np.uint8)
        for name in ("observations", "next_observations")
        if name in zeros._fields
    }
    if "returns" in zeros._fields:
        filled["returns"] = rng.normal(size=zeros.returns.shape).astype(np.float32)
        filled["weights"] = np.ones_like(zeros.weights)
    return config, zeros._replace(**filled)


@pytest.mark.parametrize(
    ("values", "kind"), [({}, Transitions), (SEQUENCES, Sequences), (PQN, Rollout)]
)
def test_all_observations_of_a_batch_are_shifted_and_nothing_else(
    values: dict[str, Any], kind: type
) -> None:
    _, batch = batch_for(**values)
    assert isinstance(batch, kind)
    found = shifts.shifted_batch(tf.nest.map_structure(tf.constant, batch), 2, SEED)
    kinds = {}
    for name, before, after in zip(batch._fields, batch, found, strict=True):
        if not name.endswith("observations"):
            np.testing.assert_array_equal(before, after, err_msg=name)
            continue
        pairs = zip(
            np.reshape(after, (-1, HEIGHT, WIDTH, CHANNELS)),
            np.reshape(before, (-1, HEIGHT, WIDTH, CHANNELS)),
            strict=True,
        )
        kinds[name] = [shift_of(*pair) for pair in pairs]
        assert len(set(kinds[name])) > 1
    assert len(set(map(tuple, kinds.values()))) == len(kinds), "each its own"


def test_images_of_a_recurrent_rollout_are_shifted_alike() -> None:
    options = {"recurrent_size": 2, "update_period": 6, "batch_size": 12}  # four steps of three
    _, batch = batch_for(**PQN | options)
    assert isinstance(batch, Rollout)
    found = shifts.shifted_batch(tf.nest.map_structure(tf.constant, batch), 2, SEED)
    by: list[set[tuple[int, int]]] = [set(), set(), set()]
    for name in ("observations", "next_observations"):
        before, after = getattr(batch, name), getattr(found, name).numpy()
        for t, env in np.ndindex(4, 3):
            by[env].add(shift_of(after[t, env], before[t, env]))
    assert [len(each) for each in by] == [1, 1, 1]
    assert len(set.union(*by)) > 1


@pytest.mark.parametrize("compiled", tiered(["none", "update"], quick=("none",), slow=("update",)))
def test_the_learner_learns_from_shifted_images(compiled: str) -> None:
    options = {"optimizer": "sgd", "jit_compile": compiled}
    config, batch = batch_for(random_shift=2, **options)
    plain, _ = batch_for(**options)
    network = networks.build(config.network, config.value, IMAGE, seed=0)
    slots = np.zeros((local_optimizer_slots(config), network.num_parameters), np.float32)

    def arguments(batch: Any) -> Any:
        numbers = (tf.constant(0.0), tf.constant(0.1), tf.constant(0.2))
        vector = tf.constant(network.initial)
        whole = batch, loss_scaling.NONE, masking.NONE
        given = (vector, vector, tf.constant(slots), *numbers, SEED, *whole)
        return tf.nest.map_structure(tf.constant, given)

    # As a closure has it: for arguments that it describes beforehand.
    specs = tf.nest.map_structure(tf.TensorSpec.from_tensor, arguments(batch))

    def learner_of(config: Config) -> Any:
        learner: Any = make_learner(config, network)
        traced = learner.get_concrete_function(*specs)
        return lambda batch: np.asarray(traced(*arguments(batch)).vector)

    by_hand = shifts.shifted_batch(tf.nest.map_structure(tf.constant, batch), 2, SEED)
    without = learner_of(plain)
    expected = without(by_hand)
    np.testing.assert_allclose(learner_of(config)(batch), expected, rtol=1e-5, atol=1e-8)
    assert np.abs(without(batch) - expected).max() > 1e-5
