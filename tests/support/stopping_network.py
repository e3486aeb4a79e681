"""A network whose coordinator stops one of its tasks, once, after it has connected to all."""

import os
import pathlib

import keras
from tensorflow.python.eager import context

from support import processes as real


def dense(observation_shape: tuple[int, ...], num_outputs: int) -> keras.Model:
    """A hidden layer; the file that `STOPS` names has the process to stop, and is used up."""
    mark = pathlib.Path(os.environ["STOPS"])
    definition = context.get_server_def()
    if definition is not None and definition.job_name == "chief" and mark.exists():
        log = mark.read_text()
        mark.unlink()
        found = (int(each.name) for each in pathlib.Path("/proc").iterdir() if each.name.isdigit())
        real.stop(next(pid for pid in found if real.output_of(pid) == log))
    inputs = keras.Input(observation_shape)
    x = keras.layers.Dense(16, "relu")(inputs)
    return keras.Model(inputs, keras.layers.Dense(num_outputs)(x))
