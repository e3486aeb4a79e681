"""What a run was told, for whoever compares runs."""

import struct
import time
from collections.abc import Mapping
from typing import TypeAlias

from google.protobuf import struct_pb2

from ps_dqn.telemetry.measured import settings

Hyperparameters: TypeAlias = Mapping[str, bool | float | str]

# Of TensorBoard, and the tag that its table of runs looks for.
PLUGIN, TAG = "hparams", "_hparams_/session_start_info"
# Keys of fields in its messages: number and wire type. `HParamsPluginData.session_start_info` is a
# message, and so of a known length; `SessionStartInfo.start_time_secs` is a double.
_SESSION_START_INFO, _START_TIME = bytes([3 << 3 | 2]), bytes([5 << 3 | 1])


def of_flags(text: str) -> Hyperparameters:
    """The values in a run's flagfile, one --name=value a line."""
    return {name: _typed(value) for name, value in settings(text.splitlines()).items()}


def as_session(values: Hyperparameters) -> bytes:
    """A message of TensorBoard's plugin: a session with these has started.

    Its classes are in the package tensorboard, which a run does not need. A `Struct` is written as
    a `SessionStartInfo` that has hyperparameters only: both are a map to `Value`, in field 1.
    """
    fields = struct_pb2.Struct()
    fields.update(values)
    info = fields.SerializeToString() + _START_TIME + struct.pack("<d", time.time())
    return _SESSION_START_INFO + _varint(len(info)) + info


def _typed(text: str) -> bool | float | str:
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text


def _varint(number: int) -> bytes:
    """A number as protobuf writes it: seven bits a byte, the lowest first."""
    *more, last = [number >> shift & 127 for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(each | 128 for each in more), last])
