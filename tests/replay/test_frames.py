"""Observations as a replay stores them, against observations that are simply kept."""

import pathlib
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from ps_dqn.errors import UsageError
from ps_dqn.replay.arrays import Arrays
from ps_dqn.replay.checksums import Checksums
from ps_dqn.replay.frames import CODECS, Compressed, Plain

SHAPE = (21, 20)
SIZE = 21 * 20


def frames(seed: int) -> Iterator[np.ndarray]:
    """Endless frames, from all alike to noise that cannot be compressed."""
    rng = np.random.default_rng(seed)
    while True:
        frame = np.full(SHAPE, rng.integers(256), np.uint8)
        noisy = int(rng.choice([0, 1, 5, 21]))
        frame[:noisy] = rng.integers(256, size=(noisy, SHAPE[1]))
        yield frame


class Stream:
    """Environments that write frames at their own pace, and every frame they ever wrote."""

    def __init__(
        self,
        store: Plain | Compressed,
        num_envs: int,
        rows: int,
        seed: int = 0,
        checksums: Checksums | None = None,
    ):
        self.store, self.rows, self.checksums = store, rows, checksums
        self.written: list[list[np.ndarray]] = [[] for _ in range(num_envs)]
        self._rng = np.random.default_rng(seed)
        self._frames = [frames(env) for env in range(num_envs)]

    def write(self, times: int) -> None:
        for _ in range(times):
            count = self._rng.integers(1, len(self.written) + 1)
            envs = self._rng.choice(len(self.written), count, replace=False)
            positions = np.array([len(self.written[env]) for env in envs])
            new = [next(self._frames[env]) for env in envs]
            for env, frame in zip(envs, new, strict=True):
                self.written[env].append(frame)
            rows = envs * self.rows + positions % self.rows
            self.store.write(rows, np.array(new), positions)
            if self.checksums is not None:
                self.checksums.update(rows, positions)

    def check(self) -> list[int]:
        """Everything that is still there is what was written; how many rows that are, [E]."""
        oldest = self.store.oldest(np.arange(len(self.written)))
        kept = []
        for env, written in enumerate(self.written):
            first = max(int(oldest[env]), len(written) - self.rows)
            positions = np.arange(first, len(written))
            read = self.store.read(env * self.rows + positions % self.rows)
            np.testing.assert_array_equal(read, written[first:])
            kept.append(len(positions))
        return kept


def compressed(
    num_envs: int = 1,
    rows: int = 40,
    ring: int = 4000,
    shape: tuple[int, ...] = SHAPE,
    folder: pathlib.Path | None = None,
) -> Compressed:
    arrays = Arrays(folder, {})
    return Compressed(arrays, num_envs, rows, shape, num_envs * ring, "lz4")


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((4,), np.float32), ((), np.int64), ((3, 5, 2), np.uint8), ((2, 2), np.bool_)],
)
def test_plain_rows_are_what_was_written(shape: tuple[int, ...], dtype: type) -> None:
    store = Plain(Arrays(None, {}), 30, shape, dtype)
    rng = np.random.default_rng(0)
    observations = rng.integers(2, size=(30, *shape)).astype(dtype)
    order = rng.permutation(30)
    for rows in np.split(order, [7, 19]):
        store.write(rows, observations[rows], rows)
    wanted = rng.integers(30, size=(4, 3, 2))
    read = store.read(wanted)
    assert read.dtype == dtype
    assert read.shape == (4, 3, 2, *shape)
    np.testing.assert_array_equal(read, observations[wanted])
    for row in (0, 13, 29):
        assert b"".join(store.checksum_parts(row)) == observations[row].tobytes()


def test_plain_rows_are_forgotten_only_with_their_ring() -> None:
    stream = Stream(Plain(Arrays(None, {}), 3 * 25, SHAPE, np.uint8), 3, 25)
    stream.write(400)
    assert stream.check() == [25, 25, 25]
    assert stream.store.oldest(np.array([2, 0])).tolist() == [0, 0]


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("ring", [980, 4000, 40_000])
@pytest.mark.parametrize("in_files", [False, True])
def test_compressed_rows_are_what_was_written(
    tmp_path: pathlib.Path, num_envs: int, ring: int, in_files: bool
) -> None:
    # Rings of one or two frames at worst, of fewer than the 40 rows, of more than all rows need.
    store = compressed(num_envs, ring=ring, folder=tmp_path if in_files else None)
    stream, fewest, most = Stream(store, num_envs, 40), 40, 0
    for _ in range(60):
        stream.write(15)
        kept = stream.check()
        fewest, most = min(fewest, *kept), max(most, *kept)
    assert min(map(len, stream.written)) > 400
    assert fewest >= 1
    assert {980: most < 40, 4000: fewest < 40, 40_000: most == 40}[ring]


def test_a_full_ring_of_bytes_keeps_as_many_rows_as_fit() -> None:
    # Noise takes a little more than its size; seven such frames and no more fit.
    rng = np.random.default_rng(1)
    store = compressed(ring=7 * (SIZE + 10))
    for position in range(100):
        noise = rng.integers(256, size=(1, *SHAPE), dtype=np.uint8)
        store.write(np.array([position % 40]), noise, np.array([position]))
        [oldest] = store.oldest(np.array([0]))
        # Where a frame does not fit at the ring's end, what was left there goes unused.
        assert 6 <= position + 1 - oldest <= 7 or position < 7


def test_the_ring_of_rows_forgets_where_bytes_would_be_left() -> None:
    store = compressed(ring=40_000)
    for position in range(100):
        store.write(
            np.array([position % 40]), np.zeros((1, *SHAPE), np.uint8), np.array([position])
        )
        assert store.oldest(np.array([0])).tolist() == [max(position - 39, 0)]


def test_rows_of_one_environment_can_be_written_together() -> None:
    store = compressed()
    kept = np.arange(6, dtype=np.uint8)[:, None, None] + np.zeros((6, *SHAPE), np.uint8)
    store.write(np.array([38, 39, 0]), kept[:3], np.array([38, 39, 40]))
    store.write(np.array([1, 2, 3]), kept[3:], np.array([41, 42, 43]))
    np.testing.assert_array_equal(store.read(np.array([38, 39, 0, 1, 2, 3])), kept)


def test_frames_cut_out_of_stacks_can_be_written() -> None:
    rng = np.random.default_rng(2)
    stacks = rng.integers(256, size=(5, *SHAPE, 4), dtype=np.uint8)
    store = compressed()
    store.write(np.arange(5), stacks[..., 3], np.arange(5))
    np.testing.assert_array_equal(store.read(np.arange(5)), stacks[..., 3])


def test_rows_are_read_in_any_shape() -> None:
    store = compressed(2, ring=20_000)
    stream = Stream(store, 2, 40)
    stream.write(70)
    rows = np.random.default_rng(3).integers(30, size=(3, 5, 2)) + np.array([0, 40])
    read = store.read(rows)
    assert read.shape == (3, 5, 2, *SHAPE)
    for index in np.ndindex(rows.shape):
        np.testing.assert_array_equal(read[index], store.read(rows[index].reshape(1))[0])


def test_each_distinct_row_is_decompressed_once() -> None:
    store = compressed()
    Stream(store, 1, 40).write(30)
    real, calls = store._codec, []

    class Counting:
        @staticmethod
        def decompress(data: memoryview, uncompressed_size: int) -> bytes:
            calls.append(len(data))
            return real.decompress(data, uncompressed_size=uncompressed_size)

    store._codec = Counting
    rows = np.array([[20, 21, 22, 23], [21, 22, 23, 24], [20, 21, 22, 23]])
    assert store.read(rows).shape == (3, 4, *SHAPE)
    assert len(calls) == 5


@pytest.mark.parametrize("until", [25, 333])
def test_writing_goes_on_after_a_restart(tmp_path: pathlib.Path, until: int) -> None:
    stream = Stream(compressed(2, folder=tmp_path), 2, 40)
    stream.write(until)
    first = stream.store.oldest(np.arange(2))
    # What replaces the store is asked to keep some rows in the middle only.
    end = np.array([len(written) - 2 for written in stream.written])
    first = np.array([max(first[env], end[env] - 11, end[env] + 2 - 40) for env in range(2)])
    del stream.store
    store = compressed(2, folder=tmp_path)
    store.restore(first, end)
    assert store.oldest(np.arange(2)).tolist() == first.tolist()
    stream.store = store
    stream.written = [written[: end[env]] for env, written in enumerate(stream.written)]
    stream.check()
    for _ in range(30):
        stream.write(10)
        stream.check()


@pytest.mark.parametrize("seed", range(8))
def test_after_damage_what_checksums_find_whole_is_right(tmp_path: pathlib.Path, seed: int) -> None:
    def opened() -> tuple[Arrays, Compressed, Checksums]:
        arrays = Arrays(tmp_path, {})
        store = Compressed(arrays, 2, 40, SHAPE, 2 * 4000, "lz4")
        return arrays, store, Checksums(arrays, 80, store.checksum_parts)

    rng = np.random.default_rng(seed)
    arrays, store, checksums = opened()
    stream = Stream(store, 2, 40, seed, checksums)
    stream.write(200)
    # Pages that came to nothing, or to anything.
    for name in rng.choice(["arena", "starts", "lengths", "seal_sums", "seal_numbers"], 2):
        data = np.memmap(tmp_path / f"{name}.bin", np.uint8, mode="r+")
        begin = rng.integers(len(data))
        data[begin : begin + rng.integers(1, 60)] = rng.choice([0, rng.integers(256)])
    arrays.close()
    _, stream.store, stream.checksums = opened()
    first, end = stream.checksums.recover(2, 40)
    assert (end > first).all()
    stream.store.restore(first, end)
    stream.written = [written[: end[env]] for env, written in enumerate(stream.written)]
    kept = stream.check()
    assert kept == (end - first).tolist()
    for _ in range(20):
        stream.write(10)
        stream.check()


def test_an_environment_without_rows_begins_anew_after_a_restart(tmp_path: pathlib.Path) -> None:
    Stream(compressed(2, folder=tmp_path), 2, 40).write(100)
    store = compressed(2, folder=tmp_path)
    store.restore(np.array([0, 0]), np.array([0, 0]))
    stream = Stream(store, 2, 40)
    stream.write(200)
    assert min(stream.check()) > 2


def test_checksum_parts_hold_the_compressed_bytes_and_where_they_are() -> None:
    store = compressed()
    Stream(store, 1, 40).write(10)
    before = [b"".join(store.checksum_parts(row)) for row in range(10)]
    assert len(set(before)) == 10
    for table in (store._starts, store._lengths):
        table[4] += 1
        assert b"".join(store.checksum_parts(4)) != before[4]
        table[4] -= 1
    store._arena[store._starts[4] + store._lengths[4] - 1] ^= 1
    after = [b"".join(store.checksum_parts(row)) for row in range(10)]
    assert [row for row in range(10) if after[row] != before[row]] == [4]


def test_checksum_parts_of_a_damaged_row_are_only_wrong() -> None:
    store = compressed(2)
    Stream(store, 2, 40).write(60)
    rng = np.random.default_rng(5)
    good = [b"".join(store.checksum_parts(row)) for row in range(80)]
    for _ in range(20):
        store._starts[:] = rng.integers(-(2**63), 2**63 - 1, size=80, endpoint=True)
        store._lengths[:] = rng.integers(-(2**31), 2**31 - 1, size=80, endpoint=True)
        for row in range(80):
            parts = b"".join(store.checksum_parts(row))
            assert parts != good[row]
            assert len(parts) <= 12 + 4000


def test_a_compressed_store_takes_an_arena_and_its_tables() -> None:
    arrays = Arrays(None, {})
    Compressed(arrays, 3, 40, SHAPE, 10_000, "lz4")
    # An equal ring of bytes for each environment; 8 and 4 bytes for each row.
    assert arrays.nbytes == 3 * 3333 + 3 * 40 * 12


def test_an_arena_of_less_than_two_frames_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"5,000 bytes.*10 environments need [\d,]+ at least"):
        compressed(10, ring=500)


def test_a_missing_package_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lz4", None)
    monkeypatch.setitem(sys.modules, "lz4.block", None)
    with pytest.raises(UsageError, match=r'needs lz4, .* pip install "ps-dqn\[compression\]"'):
        compressed()


def test_an_unknown_codec_is_a_usage_error() -> None:
    assert CODECS == ("lz4",)
    with pytest.raises(UsageError, match=r"'zip'.*lz4"):
        Compressed(Arrays(None, {}), 1, 40, SHAPE, 4000, "zip")
