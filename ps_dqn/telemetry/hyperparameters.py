"""What a run was told, for whoever compares runs."""

import dataclasses
import struct
import time
from collections.abc import Mapping
from typing import TypeAlias

from google.protobuf import struct_pb2

from ps_dqn import config as configuration

Hyperparameters: TypeAlias = Mapping[str, bool | float | str]

# Of TensorBoard, and the tag that its table of runs looks for.
PLUGIN, TAG = "hparams", "_hparams_/session_start_info"
# Keys of fields in its messages: number and wire type. `HParamsPluginData.session_start_info` is a
# message, and so of a known length; `SessionStartInfo.start_time_secs` is a double.
_SESSION_START_INFO, _START_TIME = bytes([3 << 3 | 2]), bytes([5 << 3 | 1])


def of_flags(text: str) -> Hyperparameters:
    """The values in a run's flagfile, one --name=value a line."""
    options = {each.name for group in configuration.groups() for each in _fields(group)}
    found: dict[str, bool | float | str] = {}
    for line in text.splitlines():
        name, equals, value = line.removeprefix("--").partition("=")
        if equals:
            found[name] = _number(value)
        elif name in options or not name.startswith("no"):
            found[name] = True
        else:
            found[name.removeprefix("no")] = False
    return found


def as_session(values: Hyperparameters) -> bytes:
    """A message of TensorBoard's plugin: a session with these has started.

    Its classes are in the package tensorboard, which a run does not need. A `Struct` is written as
    a `SessionStartInfo` that has hyperparameters only: both are a map to `Value`, in field 1.
    """
    fields = struct_pb2.Struct()
    fields.update(values)
    info = fields.SerializeToString() + _START_TIME + struct.pack("<d", time.time())
    return _SESSION_START_INFO + _varint(len(info)) + info


def _fields(group: configuration.Group) -> tuple[dataclasses.Field, ...]:
    return dataclasses.fields(group.type)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _varint(number: int) -> bytes:
    """A number as protobuf writes it: seven bits a byte, the lowest first."""
    *more, last = [number >> shift & 127 for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(each | 128 for each in more), last])
