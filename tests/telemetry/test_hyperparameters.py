"""What a run was told, as TensorBoard's table of runs reads it."""

import pathlib

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.plugins.hparams import metadata, plugin_data_pb2

from ps_dqn.run import directory
from ps_dqn.state import Counters
from ps_dqn.telemetry import hyperparameters
from ps_dqn.telemetry.writers import Writers

FLAGS = """# --preset=cartpole

--env_id=CartPole-v1
--gamma=0.98
--seed=3
--noisy
--nodueling
--env_wrappers=
--hidden_sizes=16,16
--norestart
"""
VALUES = {
    "env_id": "CartPole-v1",
    "gamma": 0.98,
    "seed": 3.0,
    "noisy": True,
    "dueling": False,
    "env_wrappers": "",
    "hidden_sizes": "16,16",
    "restart": False,
}


def test_a_flagfile_says_what_a_run_was_told() -> None:
    assert hyperparameters.of_flags(FLAGS) == VALUES


@pytest.mark.parametrize("length", [1, 127, 128, 40_000])
def test_a_session_is_read_by_tensorboards_own_classes(length: int) -> None:
    values = {**VALUES, "long": "x" * length}
    read = plugin_data_pb2.HParamsPluginData.FromString(hyperparameters.as_session(values))
    assert read.version == metadata.PLUGIN_DATA_VERSION
    assert read.WhichOneof("data") == "session_start_info"
    shown = read.session_start_info.hparams
    kinds = {bool: "bool_value", float: "number_value", str: "string_value"}
    assert {name: getattr(each, each.WhichOneof("kind")) for name, each in shown.items()} == values
    assert all(shown[name].WhichOneof("kind") == kinds[type(each)] for name, each in values.items())
    assert read.session_start_info.start_time_secs > 1e9


def test_tensorboard_finds_it_beside_the_scalars(tmp_path: pathlib.Path) -> None:
    directory.create(tmp_path)
    writers = Writers(tmp_path)
    writers.add_hyperparameters(VALUES)
    writers.add(Counters(1, 64, 512, 3, 32), {"seconds": 1.5})
    writers.flush()
    writers.close()
    found = EventMultiplexer().AddRunsFromDirectory(str(tmp_path / directory.TENSORBOARD))
    found.Reload()
    [run] = found.Runs()
    content = found.PluginRunToTagToContent(metadata.PLUGIN_NAME)[run]
    assert set(content) == {metadata.SESSION_START_INFO_TAG}
    read = metadata.parse_session_start_info_plugin_data(content[metadata.SESSION_START_INFO_TAG])
    assert read.hparams["gamma"].number_value == 0.98
    [point] = found.Tensors(run, "seconds")
    assert (point.step, tf.make_ndarray(point.tensor_proto)) == (512, 1.5)
