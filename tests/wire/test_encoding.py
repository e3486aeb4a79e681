"""Every wire dtype: how many bytes it takes, and how far from the truth it may come back."""

import numpy as np
import pytest
from support.wire_bounds import SIZES, bounds

from ps_dqn.config.run import WIRE_DTYPES
from ps_dqn.wire import encoding

LENGTHS = [0, 1, 5, 255, 256, 257, 511, 512, 1000]


every_dtype = pytest.mark.parametrize("dtype", WIRE_DTYPES)


def numbers(count: int, scale: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(5)
    return (scale * rng.normal(size=count)).astype(np.float32)


def encoded(vector: np.ndarray, dtype: str, fill: int = 0) -> np.ndarray:
    data = np.full(encoding.size(len(vector), dtype), fill, np.uint8)
    encoding.encode(vector, dtype, data)
    return data


def there_and_back(vector: np.ndarray, dtype: str) -> np.ndarray:
    return encoding.decode(encoded(vector, dtype), len(vector), dtype)


def test_the_options_are_the_encodings_there_are() -> None:
    assert set(WIRE_DTYPES) == set(SIZES) == set(bounds(numbers(3)))
    # A name that is not known would be taken for another one, and have its bytes.
    found = {encoded(numbers(1000), dtype).tobytes() for dtype in WIRE_DTYPES}
    assert len(found) == len(WIRE_DTYPES)


@every_dtype
@pytest.mark.parametrize("count", LENGTHS)
def test_size_is_as_documented(dtype: str, count: int) -> None:
    assert encoding.size(count, dtype) == SIZES[dtype](count)


@every_dtype
@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e-30, 1e9, 5e37])
def test_error_is_at_most_half_a_step(dtype: str, count: int, scale: float) -> None:
    vector = numbers(count, scale)
    before = vector.copy()
    decoded = there_and_back(vector, dtype)
    assert decoded.dtype == np.float32
    assert decoded.shape == (count,)
    error = np.abs(decoded.astype(np.float64) - vector)
    assert (error <= bounds(vector)[dtype]).all()
    assert vector.tolist() == before.tolist(), "the vector itself is left alone"


@pytest.mark.parametrize(
    ("dtype", "least"), [("bfloat16", 1e-3), ("float16", 1e-4), ("int8", 1e-3)]
)
def test_fewer_bytes_do_say_less(dtype: str, least: float) -> None:
    # Else the bounds above would hold for a dtype that is ignored.
    assert np.abs(there_and_back(numbers(1000), dtype) - numbers(1000)).max() > least


@every_dtype
@pytest.mark.parametrize("count", LENGTHS)
def test_zeros_stay_zeros(dtype: str, count: int) -> None:
    assert there_and_back(np.zeros(count, np.float32), dtype).tolist() == [0.0] * count


@every_dtype
def test_sign_and_largest_number_survive(dtype: str) -> None:
    vector = numbers(700)
    largest = np.abs(vector).argmax()
    decoded = there_and_back(vector, dtype)
    assert (np.sign(decoded) * np.sign(vector) >= 0).all()
    tolerance = 2.0**-8 if dtype == "bfloat16" else 1e-6
    assert decoded[largest] == pytest.approx(vector[largest], rel=tolerance)


def test_float16_reaches_below_and_above_the_numbers_of_the_format() -> None:
    # Plain halves end at 6e-8 and 65504.
    for scale in (1e-12, 1e12):
        vector = numbers(300, scale)
        error = np.abs(there_and_back(vector, "float16") - vector)
        assert error.max() <= 1.001 * 2.0**-11 * np.abs(vector).max()


def test_int8_scales_each_block_by_its_own_largest_number() -> None:
    vector = np.ones(3 * 256 + 10, np.float32)
    vector[300] = 1e6
    vector[-10:] = np.linspace(-1e-3, 1e-3, 10)
    decoded = there_and_back(vector, "int8")
    assert decoded[:256].tolist() == pytest.approx([1.0] * 256, rel=1e-6)
    assert decoded[300] == pytest.approx(1e6, rel=1e-6)
    assert not decoded[256:300].any(), "lost beside a number a million times as large"
    np.testing.assert_allclose(decoded[-10:], vector[-10:], rtol=0, atol=1.001e-3 / 254)


def test_int8_rounds_to_the_nearest_of_127_steps() -> None:
    vector = np.array([127, -127, 0.49, 0.51, -0.51, 63.4, 63.6, 1.5, 2.5], np.float32)
    assert there_and_back(vector, "int8").tolist() == [127, -127, 0, 1, -1, 63, 64, 2, 2]


@every_dtype
@pytest.mark.parametrize("steps", [1, 60, 71, 126, 190, 250, 1000])
def test_numbers_smaller_than_a_scale_can_be_never_grow_or_turn(dtype: str, steps: int) -> None:
    # The smallest float32 there is, a few times: their scales are rounded by as much as a half.
    vector = np.float32(1e-45) * np.array([steps, -steps, 1, 0], np.float32)
    decoded = there_and_back(vector, dtype).astype(np.float64)
    assert (np.abs(decoded - vector) <= np.abs(vector).max()).all()
    assert (decoded * vector >= 0).all()


@every_dtype
@pytest.mark.parametrize("count", LENGTHS)
def test_every_byte_is_written(dtype: str, count: int) -> None:
    # Messages are made from memory that holds anything.
    vector = numbers(count)
    assert encoded(vector, dtype, 0x55).tobytes() == encoded(vector, dtype, 0xAA).tobytes()


@every_dtype
def test_a_vector_may_begin_anywhere_in_a_message(dtype: str) -> None:
    vector = numbers(300)
    size = encoding.size(300, dtype)
    message = np.full(size + 20, 7, np.uint8)
    part = message[12 : 12 + size]
    encoding.encode(vector, dtype, part)
    assert encoding.decode(part, 300, dtype).tolist() == there_and_back(vector, dtype).tolist()
    assert message[:12].tolist() == [7] * 12
    assert message[12 + size :].tolist() == [7] * 8


def test_float32_is_decoded_without_a_copy() -> None:
    data = encoded(numbers(10), "float32")
    assert np.shares_memory(encoding.decode(data, 10, "float32"), data)


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 1000])
def test_memory_begins_and_ends_where_it_should(count: int) -> None:
    for _ in range(20):
        memory = encoding.aligned(count)
        assert memory.shape == (count,)
        assert memory.dtype == np.uint8
        zeros = encoding.zeros(count)
        assert zeros.dtype == np.float32
        assert zeros.tolist() == [0] * count
        if count:
            assert memory.ctypes.data % 64 == zeros.ctypes.data % 64 == 0
    assert encoding.padded(count) % 64 == 0
    assert 0 <= encoding.padded(count) - count < 64


@pytest.mark.parametrize("shape", [(3,), (2, 5), (2, 3, 4)])
@pytest.mark.parametrize("values", [np.uint8, np.float32, np.float64])
def test_rows_are_taken_to_where_tensorflow_leaves_them(
    shape: tuple[int, ...], values: type
) -> None:
    rng = np.random.default_rng(0)
    rows, source = rng.integers(0, 9, shape), rng.integers(0, 200, (9, 7, 3)).astype(values)
    taken = encoding.take(source, rows)
    assert taken.dtype == source.dtype
    np.testing.assert_array_equal(taken, source[rows])
    assert taken.ctypes.data % 64 == 0
