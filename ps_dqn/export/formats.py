"""The greedy network as a file of each format, and how such a file is read again.

All are made of what Keras itself writes: a Keras file, or a SavedModel that others convert. Each
reader is the one that the format's users have, and none knows this project.
"""

import contextlib
import dataclasses
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ps_dqn.environments import raw
from ps_dqn.environments.interface import Interface
from ps_dqn.export import numpy_file
from ps_dqn.networks.network import QNetwork
from ps_dqn.policy import greedy, numpy_network

Arrays = dict[str, np.ndarray]
Answer = Callable[[Arrays], Arrays]
SIGNATURE = "serving_default"
# Names of formats for NumPy alone.
OF_NUMPY = ("npz", "sparse")
# Operations of ONNX as this version has them; runtimes know all before theirs.
OPSET = 17
# Observations by which ranges of numbers are found for whole numbers of 8 bits.
CALIBRATION = 200


@dataclasses.dataclass(frozen=True)
class Made:
    """What is written.

    Attributes:
        network: of the run.
        interface: of the run.
        model: the same network from raw observations to actions.
        examples: inputs of it.
        int8: how much is written in 8 bits: "none", "dynamic" or "full".
    """

    network: QNetwork
    interface: Interface
    model: keras.Model
    examples: Arrays
    int8: str


@dataclasses.dataclass(frozen=True)
class Format:
    """One way to write a network.

    Attributes:
        file: name of the file or folder.
        write: the file.
        read: from the file to a function of inputs.
    """

    file: str
    write: Callable[[Made, pathlib.Path], None]
    read: Callable[[pathlib.Path], Answer]


def _write_keras(made: Made, path: pathlib.Path) -> None:
    made.model.save(path)


def _read_keras(path: pathlib.Path) -> Answer:
    model = keras.models.load_model(path)
    return lambda inputs: _numpy(model({name: tf.constant(x) for name, x in inputs.items()}))


def _write_savedmodel(made: Made, path: pathlib.Path) -> None:
    _save(made.model, path)


def _save(model: keras.Model, path: pathlib.Path) -> None:
    model.export(path, format="tf_saved_model", verbose=False)


def _read_savedmodel(path: pathlib.Path) -> Answer:
    signature = tf.saved_model.load(str(path)).signatures[SIGNATURE]
    return lambda inputs: _numpy(signature(**{name: tf.constant(x) for name, x in inputs.items()}))


def _write_litert(made: Made, path: pathlib.Path) -> None:
    with _saved(made.model) as saved_model:
        converter = tf.lite.TFLiteConverter.from_saved_model(str(saved_model))
        if made.int8 != "none":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if made.int8 == "full":
            # What has no form in whole numbers stays as it is.
            converter.representative_dataset = lambda: _one_by_one(made.examples)
        path.write_bytes(converter.convert())


def _one_by_one(examples: Arrays) -> Iterator[Arrays]:
    for i in range(min(CALIBRATION, len(next(iter(examples.values()))))):
        yield {name: each[i : i + 1] for name, each in examples.items()}


def _read_litert(path: pathlib.Path) -> Answer:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path))
    runner = interpreter.get_signature_runner(SIGNATURE)

    def answer(inputs: Arrays) -> Arrays:
        assert interpreter  # the runner does not keep it
        return {name: np.array(each) for name, each in runner(**inputs).items()}

    return answer


def _write_onnx(made: Made, path: pathlib.Path) -> None:
    import tf2onnx
    from tf2onnx import tf_loader

    with _saved(made.model) as saved_model:
        graph_def, inputs, outputs, tables, names = tf_loader.from_saved_model(
            str(saved_model),
            None,
            None,
            tag="serve",
            signatures=[SIGNATURE],
            return_initialized_tables=True,
            return_tensors_to_rename=True,
        )
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(graph_def, name="")
        with tf_loader.tf_session(graph=graph):
            found = tf2onnx.tfonnx.process_tf_graph(
                graph,
                opset=OPSET,
                input_names=inputs,
                output_names=outputs,
                tensors_to_rename=names,
                initialized_tables=tables,
            )
        proto = tf2onnx.optimizer.optimize_graph(found).make_model(made.model.name)
        path.write_bytes(proto.SerializeToString())


def _read_onnx(path: pathlib.Path) -> Answer:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, inputs), strict=True))


def _write_npz(made: Made, path: pathlib.Path) -> None:
    numpy_file.write(made.network, made.interface, path)


def _write_sparse(made: Made, path: pathlib.Path) -> None:
    numpy_file.write(made.network, made.interface, path, is_sparse=True)


def _read_npz(path: pathlib.Path) -> Answer:
    network = numpy_network.Network(str(path))
    return lambda inputs: network(inputs[raw.NAME], inputs.get(greedy.MASK))


@contextlib.contextmanager
def _saved(model: keras.Model) -> Iterator[pathlib.Path]:
    """A SavedModel that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ps_dqn-export-") as folder:
        path = pathlib.Path(folder, "saved_model")
        _save(model, path)
        yield path


def _numpy(outputs: dict[str, Any]) -> Arrays:
    return {name: np.asarray(each) for name, each in outputs.items()}


FORMATS = {
    "keras": Format("model.keras", _write_keras, _read_keras),
    "savedmodel": Format("saved_model", _write_savedmodel, _read_savedmodel),
    "litert": Format("model.tflite", _write_litert, _read_litert),
    "npz": Format("model.npz", _write_npz, _read_npz),
    "sparse": Format("model.npz", _write_sparse, _read_npz),
    "onnx": Format("model.onnx", _write_onnx, _read_onnx),
}
