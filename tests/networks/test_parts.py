"""Observations of several parts: each is taken out of its row of bytes, and has an encoder."""

from typing import Any

import gymnasium
import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from ps_dqn import networks
from ps_dqn.config import Network, Value
from ps_dqn.environments import EnvironmentSpec, parts
from ps_dqn.errors import UsageError
from ps_dqn.networks import inputs
from ps_dqn.networks.network import QNetwork

SPACE = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (6, 5, 3), np.uint8),
        "arm": spaces.Dict({"speed": spaces.Box(-9, 9, (2,), np.float32)}),
        "cell": spaces.Discrete(4, start=1),
        "door": spaces.MultiBinary(2),
        "tools": spaces.MultiDiscrete([2, 3]),
    }
)
NUMBERS = spaces.Tuple([spaces.Box(-1, 1, (), np.float64), spaces.Discrete(3)])
NONE = Value(value_distribution="none")


class Shown(gymnasium.Env):
    """Shows observations that it is told."""

    action_space = spaces.Discrete(3)

    def __init__(self, space: spaces.Space):
        self.observation_space = space


def spec_of(space: spaces.Space, frames: tuple[int, ...] = ()) -> EnvironmentSpec:
    made = parts.parts_of(space)
    shape = (*frames, sum(part.nbytes for part in made))
    return EnvironmentSpec(shape, np.dtype(np.uint8), 3, None, parts=made)


def packed(space: spaces.Space, observations: list[Any]) -> np.ndarray:
    env = parts.PackedObservation(Shown(space))
    return np.stack([env.observation(each) for each in observations])


def samples(space: spaces.Space, count: int) -> list[Any]:
    space.seed(3)
    return [space.sample() for _ in range(count)]


def config(name: str = "mlp", **values: Any) -> Network:
    return Network(**{"network": name, "hidden_sizes": (8,), "layer_norm": False} | values)


def values_of(network: QNetwork, vector: np.ndarray, rows: np.ndarray) -> np.ndarray:
    parameters = tf.constant(vector)
    return network.outputs(parameters, network.features(parameters, tf.constant(rows))).numpy()


def random_vector(network: QNetwork) -> np.ndarray:
    return np.random.default_rng(2).normal(size=network.num_parameters).astype(np.float32)


@pytest.mark.parametrize("jit", [False, True], ids=["plain", "compiled"])
def test_each_part_is_taken_out_as_it_was_put_in(jit: bool) -> None:
    seen = samples(SPACE, 5)
    spec = spec_of(SPACE)
    given = tf.function(lambda rows: inputs.given(rows, spec), jit_compile=jit)
    found = {name: each.numpy() for name, each in given(packed(SPACE, seen)).items()}
    assert set(found) == {"camera", "arm.speed", "cell", "door", "tools"}
    for i, observation in enumerate(seen):
        assert (found["camera"][i] == observation["camera"]).all()
        assert (found["arm.speed"][i] == observation["arm"]["speed"]).all()
        assert found["cell"][i] == observation["cell"] - 1
        assert (found["door"][i] == observation["door"].astype(bool)).all()
        assert (found["tools"][i] == observation["tools"]).all()
    assert found["camera"].dtype == np.uint8
    assert found["door"].dtype == np.bool_


def test_a_pixel_takes_a_byte_and_one_of_many_things_four() -> None:
    assert [part.nbytes for part in parts.parts_of(SPACE)] == [8, 90, 4, 2, 8]
    assert spec_of(spaces.Discrete(500)).observation_shape == (4,)


def test_the_layers_read_numbers_of_things_one_hot_and_bytes_from_0_to_1() -> None:
    seen = samples(SPACE, 5)
    network = networks.build(config(hidden_sizes=()), NONE, spec_of(SPACE), 0)
    assert network.num_parameters == (2 + 90 + 4 + 2 + 5 + 1) * 3
    assert spec_of(SPACE).num_inputs == 2 + 90 + 4 + 2 + 5
    vector = random_vector(network)
    kernel = vector[:-3].reshape(-1, 3)
    for observation, found in zip(
        seen, values_of(network, vector, packed(SPACE, seen)), strict=True
    ):
        read = np.concatenate(
            [
                observation["arm"]["speed"],
                observation["camera"].ravel() / 255,
                np.eye(4)[observation["cell"] - 1],
                observation["door"],
                np.eye(2)[observation["tools"][0]],
                np.eye(3)[observation["tools"][1]],
            ]
        )
        np.testing.assert_allclose(found, read @ kernel + vector[-3:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["minatar", "impala"])
def test_images_are_convolved_and_the_rest_has_a_layer_of_its_own(name: str) -> None:
    seen = samples(SPACE, 4)
    rows = packed(SPACE, seen)
    network = networks.build(config(name), NONE, spec_of(SPACE), 0)
    vector = network.initial
    torso = network.as_keras().get_layer("torso")
    sizes = {layer.name: layer.count_params() for layer in torso.layers}
    assert sum(size for each, size in sizes.items() if "conv" in each) > 0
    assert [size for each, size in sizes.items() if each.startswith("dense")] == [14 * 64]
    # Every part changes the values.
    at_first = values_of(network, vector, rows[:1])
    sizes_of_parts = [part.nbytes for part in parts.parts_of(SPACE)]
    for begin, size in zip(np.cumsum([0, *sizes_of_parts]), sizes_of_parts, strict=False):
        changed = rows[:1].copy()
        other = next(row for row in rows if (row[begin:][:size] != rows[0][begin:][:size]).any())
        changed[0, begin : begin + size] = other[begin : begin + size]
        assert not np.allclose(values_of(network, vector, changed), at_first)


def test_stacked_frames_are_read_one_after_the_other() -> None:
    seen = samples(SPACE, 4)
    rows = packed(SPACE, seen).reshape(2, 2, -1)
    spec = spec_of(SPACE, (2,))
    given = inputs.given(tf.constant(rows), spec)
    assert given["camera"].shape == (2, 2, 6, 5, 3)
    assert given["cell"].numpy().tolist() == [
        [seen[0]["cell"] - 1, seen[1]["cell"] - 1],
        [seen[2]["cell"] - 1, seen[3]["cell"] - 1],
    ]
    network = networks.build(config("minatar"), NONE, spec, 0)
    assert values_of(network, network.initial, rows).shape == (2, 3)
    assert spec.num_inputs == 2 * (2 + 90 + 4 + 2 + 5)


def test_the_exported_model_takes_the_parts_by_name(tmp_path: Any) -> None:
    seen = samples(SPACE, 4)
    network = networks.build(config("minatar"), NONE, spec_of(SPACE), 0)
    vector = random_vector(network)
    network.assign(vector)
    network.as_keras().save(tmp_path / "model.keras")
    model = keras.models.load_model(tmp_path / "model.keras")
    found = model(
        {
            "camera": np.stack([each["camera"] for each in seen]),
            "arm.speed": np.stack([each["arm"]["speed"] for each in seen]),
            "cell": np.array([each["cell"] - 1 for each in seen]),
            "door": np.stack([each["door"] for each in seen]).astype(bool),
            "tools": np.stack([each["tools"] for each in seen]),
        }
    )
    expected = values_of(network, vector, packed(SPACE, seen))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_recurrent_network_reads_them_along_sequences() -> None:
    seen = samples(SPACE, 6)
    rows = tf.constant(packed(SPACE, seen).reshape(2, 3, -1))
    network = networks.build(config(recurrent_size=4), NONE, spec_of(SPACE), 0)
    parameters = tf.constant(network.initial)
    state = tf.zeros([2, network.state_size])
    zeros = tf.zeros([2, 3], tf.int32)
    features, _ = network.unroll(
        parameters, rows, tf.zeros([2, 3], tf.bool), zeros, tf.zeros([2, 3]), state
    )
    one = networks.build(config(recurrent_size=4), NONE, spec_of(SPACE), 0)
    assert features.shape == (2, 3, 4)
    actions, _, _ = one.act(parameters, rows[:, 0], state)
    expected = one.outputs(parameters, features[:, 0]).numpy().argmax(axis=1)
    assert actions.numpy().tolist() == expected.tolist()


def test_an_only_part_has_no_name() -> None:
    spec = spec_of(spaces.Discrete(5))
    assert spec.describe_observation() == "one of 5"
    rows = packed(spaces.Discrete(5), [3, 0])
    assert inputs.given(tf.constant(rows), spec).numpy().tolist() == [3, 0]
    network = networks.build(config(hidden_sizes=()), NONE, spec, 0)
    found = network.as_keras()(np.array([3, 0])).numpy()
    np.testing.assert_allclose(found, values_of(network, network.initial, rows), atol=1e-6)


def test_parts_are_described_for_people() -> None:
    assert spec_of(SPACE, (4,)).describe_observation() == (
        "arm.speed 2, camera 6×5×3, cell one of 4, door 2, tools one of 2, of 3, × 4"
    )
    assert spec_of(NUMBERS).describe_observation() == "0 1 (float64, kept as float32), 1 one of 3"


def test_convolutions_need_a_part_that_is_an_image() -> None:
    with pytest.raises(UsageError, match="--network=minatar: is for images, and no part of"):
        networks.build(config("minatar"), NONE, spec_of(NUMBERS), 0)
    with pytest.raises(UsageError, match=r"large enough .*camera 6×5×3"):
        networks.build(config("nature"), NONE, spec_of(SPACE), 0)


@pytest.mark.parametrize(
    "space", [SPACE, NUMBERS, spaces.Discrete(5)], ids=["dict", "tuple", "one"]
)
def test_a_network_of_ones_own_takes_them(space: spaces.Space) -> None:
    seen = samples(space, 4)
    spec = spec_of(space)
    network = networks.build(Network(network="support.user_networks:of_parts"), NONE, spec, 0)
    rows, vector = packed(space, seen), random_vector(network)
    network.assign(vector)
    found = values_of(network, vector, rows)
    given = inputs.given(tf.constant(rows), spec)
    np.testing.assert_allclose(network.as_keras()(given), found, rtol=1e-4, atol=1e-4)
    assert found.shape == (4, 3)
    # The user's model has one layer for all that is read.
    assert network.num_parameters == (spec.num_inputs + 1) * 3


def test_a_network_of_ones_own_that_takes_other_parts_is_refused() -> None:
    name = "support.user_networks:of_other_parts"
    with pytest.raises(UsageError, match=name):
        networks.build(Network(network=name), NONE, spec_of(SPACE), 0)
