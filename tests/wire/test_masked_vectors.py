"""Vectors without what a mask leaves out, as bytes and back."""

import numpy as np
import pytest

from ps_dqn.wire import encoding, messages
from ps_dqn.wire.masks import Mask

SIZE = 1003  # not a multiple of eight
DTYPES = ("float32", "bfloat16", "float16", "int8")


def made(share: float = 0.1, seed: int = 1, number: int = 3) -> Mask:
    return Mask(SIZE, number, np.random.default_rng(seed).random(SIZE) < share)


def vector(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=SIZE).astype(np.float32)


def test_bits_say_which_are_kept() -> None:
    mask = made()
    again = Mask.of_bits(mask.bits, SIZE, 3)
    assert (again.size, again.number, again.count) == (SIZE, 3, int(mask.kept.sum()))
    np.testing.assert_array_equal(again.kept, mask.kept)
    assert mask.bits.nbytes == 126


def test_what_is_kept_and_spread_again_has_zeros_elsewhere() -> None:
    mask, given = made(), vector(2)
    values = mask.of(given)
    np.testing.assert_array_equal(values, given[mask.kept])
    np.testing.assert_array_equal(mask.spread(values), np.where(mask.kept, given, 0))
    np.testing.assert_array_equal(mask.only(given), np.where(mask.kept, given, 0))


def test_a_mask_that_keeps_all_copies_nothing() -> None:
    mask, given = Mask(SIZE), vector(2)
    assert mask.of(given) is mask.spread(given) is given
    assert mask.kept.all()
    assert len(mask.pack(given, "float32")) == 4 * SIZE
    np.testing.assert_array_equal(mask.unpack(mask.pack(given, "float32"), "float32"), given)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
def test_a_push_has_what_is_kept(dtype: str, share: float) -> None:
    mask, given = made(share), vector(2)
    message = mask.pack(given, dtype)
    assert len(message) == encoding.size(mask.count, dtype) + 4
    room = np.zeros(encoding.size(mask.count, dtype), np.uint8)
    encoding.encode(given[mask.kept], dtype, room)
    wanted = np.zeros(SIZE, np.float32)
    wanted[mask.kept] = encoding.decode(room, mask.count, dtype)
    np.testing.assert_array_equal(mask.unpack(message, dtype), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_growth_is_said_of_the_others(dtype: str) -> None:
    mask, given, growth = made(0.3), vector(2), vector(5)
    message = mask.pack(given, dtype, growth)
    found = mask.unpack(message, dtype)
    np.testing.assert_array_equal(
        found[mask.kept], mask.unpack(mask.pack(given, dtype), dtype)[mask.kept]
    )
    tolerance = {"float32": 0, "bfloat16": 0.01, "float16": 0.003, "int8": 0.02}[dtype]
    np.testing.assert_allclose(found[~mask.kept], growth[~mask.kept], rtol=0.01, atol=tolerance)


def test_what_another_mask_of_that_number_packed_says_nothing() -> None:
    one, kept = made(), made().kept.copy()
    first, last = np.flatnonzero(kept)[0], np.flatnonzero(~kept)[-1]
    kept[first], kept[last] = False, True
    other = Mask(SIZE, one.number, kept)
    message = one.pack(vector(2), "float32")
    assert not other.unpack(message, "float32").any()
    assert one.unpack(message, "float32").any()


def test_the_numbers_before_a_pull_have_room() -> None:
    assert 8 * len(messages.PullHeader._fields) <= messages.HEADER
