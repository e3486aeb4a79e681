"""Vectors as bytes, with much precision or little: what travels between workers and servers.

Shapes: n numbers of a vector; an encoded vector is uint8 [size(n, dtype)].

float32 and bfloat16 are the plain numbers. float16 has one scale for the vector, so that small
changes do not fall below its smallest number. int8 has a scale for each block of 256 numbers, the
largest of which becomes 127 (as ActorQ does for whole tensors, Krishnan et al. 2019,
arXiv:1910.01055).
"""

import ml_dtypes
import numpy as np

# Numbers that share one scale in int8: 1.6 % more bytes.
BLOCK = 256
# Scales below it are none: they have too few digits to divide by.
SMALLEST = np.float32(1e-37)
# TensorFlow takes an array over without copying it where its address is a multiple of this.
ALIGNMENT = 64
_PLAIN = {"float32": np.dtype(np.float32), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def size(count: int, dtype: str) -> int:
    """Bytes of an encoded vector of `count` numbers."""
    if dtype in _PLAIN:
        return count * _PLAIN[dtype].itemsize
    if dtype == "float16":
        return 4 + 2 * count
    return 4 * _blocks(count) + count


def encode(vector: np.ndarray, dtype: str, out: np.ndarray) -> None:
    """Writes a vector, float32 [n] and finite, to `out`, uint8 [size(n, dtype)]."""
    if dtype in _PLAIN:
        out.view(_PLAIN[dtype])[:] = vector
    elif dtype == "float16":
        scale = np.abs(vector).max(initial=0.0) or np.float32(1.0)
        out[:4].view(np.float32)[0] = scale
        out[4:].view(np.float16)[:] = vector / scale
    else:
        blocks = _blocks(len(vector))
        padded = np.zeros((blocks, BLOCK), np.float32)
        padded.reshape(-1)[: len(vector)] = vector
        scales = np.abs(padded).max(axis=1) / np.float32(127)
        scales[scales < SMALLEST] = 0
        out[: 4 * blocks].view(np.float32)[:] = scales
        padded /= np.where(scales > 0, scales, np.float32(1))[:, np.newaxis]
        np.rint(padded, out=padded)
        out[4 * blocks :].view(np.int8)[:] = padded.reshape(-1)[: len(vector)]


def decode(data: np.ndarray, count: int, dtype: str) -> np.ndarray:
    """The vector, float32 [n], that `encode` wrote; for float32 a view of `data`."""
    if dtype in _PLAIN:
        return data.view(_PLAIN[dtype]).astype(np.float32, copy=False)
    if dtype == "float16":
        return data[4:].view(np.float16).astype(np.float32) * data[:4].view(np.float32)[0]
    blocks = _blocks(count)
    padded = np.zeros((blocks, BLOCK), np.float32)
    padded.reshape(-1)[:count] = data[4 * blocks :].view(np.int8)
    padded *= data[: 4 * blocks].view(np.float32)[:, np.newaxis]
    return padded.reshape(-1)[:count]


def padded(num_bytes: int) -> int:
    """The next multiple of the alignment."""
    return -(-num_bytes // ALIGNMENT) * ALIGNMENT


def aligned(num_bytes: int) -> np.ndarray:
    """Memory that TensorFlow takes over without copying, uint8 [num_bytes], not initialised."""
    return _from_aligned(np.empty(num_bytes + ALIGNMENT, np.uint8))


def zeros(count: int) -> np.ndarray:
    """The same with zeros, float32 [count]."""
    return _from_aligned(np.zeros(4 * count + ALIGNMENT, np.uint8)).view(np.float32)


def take(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Copies of rows [N, …], for TensorFlow to take over: rows of any shape [...] give [..., …].

    Args:
        values: [N, …].
        rows: indices, each from 0 to N - 1.
    """
    shape = (*rows.shape, *values.shape[1:])
    taken = aligned(rows.size * values[:1].nbytes).view(values.dtype).reshape(shape)
    # Any mode but the one that checks: that one makes everything twice.
    return values.take(rows, axis=0, out=taken, mode="clip")


def _from_aligned(memory: np.ndarray) -> np.ndarray:
    """All but `ALIGNMENT` bytes of memory, from where its address is aligned."""
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : len(memory) - ALIGNMENT + start]


def _blocks(count: int) -> int:
    return -(-count // BLOCK)
