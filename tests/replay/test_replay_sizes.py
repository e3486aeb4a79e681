"""What a replay is expected to take, what it allocates, and what a process really grows by."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

from ps_dqn.config.capacity import Item
from ps_dqn.replay.budget import Contents
from ps_dqn.replay.prioritized import Announced, Prioritized
from ps_dqn.replay.replay import Replay
from ps_dqn.replay.rows import Layout
from ps_dqn.replay.samplers import Uniform

ROOT = pathlib.Path(__file__).parents[2]
MIB = 2**20

CASES = {
    "vectors": (Contents(3, 16), {"observation_shape": (4,), "observation_dtype": np.float32}),
    "prioritized": (
        Contents(5, 16, prioritized=True),
        {"observation_shape": (4,), "observation_dtype": np.float32},
    ),
    "announced": (
        Contents(5, 16, prioritized=True, announced=True),
        {"observation_shape": (4,), "observation_dtype": np.float32},
    ),
    "masks": (  # nine truth values are two bytes
        Contents(3, 16, mask_bytes=2),
        {"observation_shape": (4,), "observation_dtype": np.float32, "mask_size": 9},
    ),
    "frames": (Contents(3, 30, 4), {"observation_shape": (4, 5, 6), "frame_stack": 4}),
    "in files": (Contents(3, 120, persistent=True), {"observation_shape": (4, 5, 6)}),
    "sequences": (
        Contents(3, 120, prioritized=True, state_bytes=28, period=4),
        {
            "observation_shape": (4, 5, 6),
            "state_size": 7,
            "item": Item(1, sequence_length=8, period=4),
        },
    ),
    "everything": (
        Contents(3, 30, 4, 20, prioritized=True, persistent=True),
        {"observation_shape": (4, 5, 6), "frame_stack": 4, "compression": "lz4"},
    ),
}


@pytest.mark.parametrize("rows", [64, 100])
@pytest.mark.parametrize("case", CASES)
def test_the_estimate_is_what_a_replay_allocates(
    tmp_path: pathlib.Path, case: str, rows: int
) -> None:
    contents, arguments = CASES[case]
    layout = Layout(
        contents.num_envs,
        rows,
        gamma=0.9,
        folder=tmp_path if contents.persistent else None,
        arena_bytes=contents.num_envs * rows * contents.compressed_bytes,
        **({"observation_dtype": np.uint8, "item": Item(1)} | arguments),
    )
    by_priority = Announced if contents.announced else Prioritized
    sampler = by_priority(0.5, 0.4, 1e-3) if contents.prioritized else Uniform()
    replay = Replay(layout, sampler, np.random.default_rng(0))
    assert contents.nbytes(rows) == replay.nbytes


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("budget", [30_000, 1_000_000, 123_456_789])
def test_as_many_rows_as_fit_and_no_more(case: str, budget: int) -> None:
    contents, period = CASES[case][0], CASES[case][0].period
    rows = contents.rows_that_fit(budget)
    assert rows > 0
    assert rows % period == 0
    assert contents.nbytes(rows) <= budget < contents.nbytes(rows + period)


def test_a_budget_may_hold_nothing() -> None:
    assert Contents(100, 7056).rows_that_fit(500_000) == 0
    assert Contents(100, 7056).rows_that_fit(1) == 0


def test_the_arena_is_what_the_tables_leave() -> None:
    contents = Contents(3, 7056, compressed_bytes=300)
    # A row's start and length, action, reward, end and flags: 12 + 10 bytes.
    assert contents.arena_bytes(1_000_000, 1000) == 1_000_000 - 3 * 1000 * 22 - 1
    assert contents.arena_bytes(1_000_000, 1000) % 3 == 0
    assert contents.arena_bytes(66_000, 1000) == 0


FILL = """
import sys
import numpy as np
from ps_dqn.config.capacity import Item
from ps_dqn.replay.replay import Replay
from ps_dqn.replay.rows import Layout, Rows
from ps_dqn.replay.prioritized import Prioritized
from ps_dqn.replay.samplers import Uniform

def resident():
    # Without pages of files, as those of libraries, which the kernel takes back and reads again.
    with open("/proc/self/statm") as file:
        _, pages, of_files, *_ = map(int, file.read().split())
    return 4096 * (pages - of_files)

def fill(envs, rows, steps, arena_bytes=0):
    everyone, ones = np.arange(envs), np.ones(envs)
    replay = Replay({layout}, {sampler}, np.random.default_rng(0))
    for step in range(steps):
        replay.write(Rows(everyone, observe(envs, step), ones, ones, 0 * ones, ones > 0))
        if step > 10:
            replay.sample(1, 8)
    return replay

{observe}
# Once with little, so that what is loaded and allocated at first use does not count.
fill(*{small})
before = resident()
replay = fill(*{large})
print(resident() - before, replay.nbytes)
"""
VECTORS = """
def observe(envs, step):
    return np.full((envs, 24), step, np.float32)
"""
FRAMES = """
# Half of each frame is noise, which cannot be compressed. Stacks are cut out of a long film.
film = np.zeros((64 + 4, 84, 84), np.uint8)
film[:64, :42] = np.random.default_rng(0).integers(256, size=(64, 42, 84))
film[64:] = film[:4]
def observe(envs, step):
    return np.broadcast_to(film[step % 64 : step % 64 + 4], (envs, 4, 84, 84))
"""
FILLED = {
    "vectors": {
        "layout": "Layout(envs, rows, (24,), np.float32, Item(1), 0.9)",
        "sampler": "Prioritized(0.5, 0.4, 1e-3)",
        "observe": VECTORS,
        "small": (64, 64, 80),
        "large": (1024, 1024, 1030),
    },
    "frames": {
        "layout": "Layout(envs, rows, (4, 84, 84), np.uint8, Item(1), 0.9, 4)",
        "sampler": "Uniform()",
        "observe": FRAMES,
        "small": (8, 20, 40),
        "large": (64, 256, 260),
    },
    "compressed frames": {
        "layout": "Layout(envs, rows, (4, 84, 84), np.uint8, Item(1), 0.9, 4, 'lz4', arena_bytes)",
        "sampler": "Uniform()",
        "observe": FRAMES,
        "small": (8, 20, 40, 1_000_000),
        "large": (64, 512, 560, 120_000_000),
    },
}


@pytest.mark.parametrize("kind", FILLED)
def test_a_full_replay_takes_the_memory_it_says(kind: str) -> None:
    program = FILL.format(**FILLED[kind])
    command = [sys.executable, "-c", program]
    environment = {"OPENBLAS_NUM_THREADS": "1"}
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment
    )
    assert ran.returncode == 0, ran.stderr
    grown, nbytes = map(int, ran.stdout.split())
    assert nbytes > 100 * MIB
    assert grown == pytest.approx(nbytes, rel=0.05)
