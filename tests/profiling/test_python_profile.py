"""What cProfile makes of calls on several threads, and the table of it."""

import marshal
import pathlib
import pstats
import random
import sys
import threading

import pytest

from ps_dqn.profiling import python
from ps_dqn.profiling.python import PythonProfile, table

# Processes have one cProfile, which hears all threads.
HAS_ONE_AT_A_TIME = sys.version_info >= (3, 12)


def twice(numbers: list[int]) -> list[int]:
    return sorted(numbers) + sorted(numbers)


def calls(content: bytes) -> dict[str, int]:
    """How often each function was called."""
    return {name: row[1] for (_, _, name), row in marshal.loads(content).items()}


def test_calls_of_several_threads_add_up() -> None:
    profile = PythonProfile()
    for _ in range(3):
        thread = threading.Thread(target=profile.call, args=[twice, [2, 1]])
        thread.start()
        thread.join()
    assert profile.call(twice, [2, 1]) == [1, 2, 1, 2]
    found = calls(profile.content())
    assert found["twice"] == 4
    assert found["<built-in method builtins.sorted>"] == 8


def test_calls_side_by_side_are_recorded_or_counted() -> None:
    profile = PythonProfile()
    both = threading.Barrier(2)
    thread = threading.Thread(target=profile.call, args=[both.wait, 60])
    thread.start()
    profile.call(both.wait, 60)
    thread.join()
    recorded = calls(profile.content())["wait"]
    assert recorded >= 1
    assert profile.missed == HAS_ONE_AT_A_TIME


def test_a_call_that_raises_is_recorded() -> None:
    profile = PythonProfile()
    with pytest.raises(TypeError):
        profile.call(twice, None)
    assert calls(profile.content())["twice"] == 1


def test_a_thread_is_recorded_from_here_to_there() -> None:
    profile = PythonProfile()
    twice([1])
    profile.enter()
    twice([1])
    profile.leave()
    twice([1])
    assert calls(profile.content())["twice"] == 1


def test_a_call_that_is_under_way_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, "PATIENCE", 60.0)
    profile = PythonProfile()
    began, goes = threading.Event(), threading.Event()

    def slow() -> None:
        began.set()
        goes.wait(60)

    caller = threading.Thread(target=profile.call, args=[slow])
    caller.start()
    assert began.wait(60)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(profile.content()))
    reader.start()
    goes.set()
    caller.join()
    reader.join()
    # A profile that hears all threads may lose what was under way while another one ran.
    assert HAS_ONE_AT_A_TIME or calls(found[0])["slow"] == 1
    assert found[0]


def test_nothing_is_no_file() -> None:
    assert PythonProfile().content() == b""


def test_a_table_names_the_functions_that_took_most(tmp_path: pathlib.Path) -> None:
    profile = PythonProfile()
    mixed = random.Random(0).sample(range(20_000), 20_000)  # to sort takes much longer than to join
    for _ in range(5):
        profile.call(twice, mixed)
    path = tmp_path / "worker-0.pstats"
    path.write_bytes(profile.content())
    total = pstats.Stats(str(path)).total_calls  # type: ignore[attr-defined]  # with what ends each record
    lines = table(path, missed=7).splitlines()
    assert lines[0].startswith(f"{total} calls of Python functions took ")
    assert lines[1].endswith("left out: 7")
    assert lines[3].split()[:2] == ["own", "(s)"]
    assert lines[4].endswith("built-in method builtins.sorted")
    assert any("profiling/test_python_profile.py:" in line and "twice" in line for line in lines)
