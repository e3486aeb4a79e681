"""Memory that was freed goes back."""

import pathlib
import platform

import numpy as np
import pytest
from support.programs import run_python

from ps_dqn.run import heap

_BLOCKS = """
import os, sys
import numpy as np
from ps_dqn.run import heap

def megabytes():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

sys.argv[1] == "kept" or heap.keep_nothing_large()
for size in (20, 8):  # megabytes: having freed the larger one, the allocator keeps the others
    blocks = [np.ones(size * 2**20, np.uint8) for _ in range(4)]
    full = megabytes()
    blocks.clear()
print(full - megabytes())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_large_blocks_go_back_at_once(tmp_path: pathlib.Path) -> None:
    kept = run_python(["-c", _BLOCKS, "kept"], tmp_path).stdout
    given = run_python(["-c", _BLOCKS, "given"], tmp_path).stdout
    assert float(kept) < 10
    assert float(given) > 25


def test_another_allocator_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    heap.keep_nothing_large()
    assert np.ones(10).sum() == 10
