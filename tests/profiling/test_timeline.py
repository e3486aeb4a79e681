"""What a process puts on its timeline, and that it can be told not to."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from ps_dqn.cluster import pulse
from ps_dqn.profiling import timeline
from ps_dqn.profiling.timeline import BESIDE, MOST_NAMES, OTHERS, Record, Timeline


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Timeline:
    """This process's own, which is empty."""
    made = Timeline(time.perf_counter())
    monkeypatch.setattr(timeline, "_own", made)
    return made


def names() -> list[str]:
    return [each.name for each in timeline.record().spans]


def test_a_block_is_a_span() -> None:
    before, computed = time.perf_counter(), time.process_time()
    with timeline.span("building a thing"):
        deadline = time.process_time() + 0.02
        while time.process_time() < deadline:
            pass
    computed = time.process_time() - computed  # other threads' part is in it
    [found] = timeline.record().spans
    [stretch] = found.stretches
    assert (found.name, found.lane, found.times) == ("building a thing", "", 1)
    assert before <= stretch.began < stretch.ended <= time.perf_counter()
    assert 0.02 <= found.processor <= computed


def test_a_block_that_raises_is_a_span() -> None:
    with pytest.raises(KeyError), timeline.span("failing"):
        raise KeyError
    assert names() == ["failing"]


def test_what_is_no_block_can_be_a_span() -> None:
    done = timeline.until("opening")
    done()
    timeline.add("pushing", 1.0, 2.0, BESIDE)
    timeline.add("waiting", 1.0)
    found = {(each.name, each.lane): each.seconds for each in timeline.record().spans}
    assert found.keys() == {("opening", ""), ("pushing", BESIDE), ("waiting", "")}
    assert found["pushing", BESIDE] == 1.0


def test_the_first_of_an_instant_counts() -> None:
    timeline.instant("first update", 3.0)
    timeline.instant("first update", 4.0)
    timeline.instant("now")
    found = timeline.record().instants
    assert found["first update"] == 3.0
    assert found["now"] <= time.perf_counter()


def test_nothing_is_kept_where_it_is_not_wanted() -> None:
    with timeline.span("starting"):
        pass
    timeline.settle(False)
    done = timeline.until("one")
    with timeline.span("another"):
        pass
    done()
    timeline.add("a third", 1.0)
    timeline.instant("an instant")
    assert names() == ["starting"]
    assert timeline.record().instants == {}
    # Nothing is even made for it.
    assert timeline.span("one") is timeline.span("another")


def test_another_run_begins_with_what_was_before_any() -> None:
    timeline.add("starting", 1.0, 2.0)
    timeline.settle(True)
    timeline.add("training", 2.0, 3.0)
    timeline.instant("first update")
    timeline.settle(False)  # a run without
    timeline.add("training", 4.0, 5.0)
    timeline.settle(True)
    timeline.add("training", 6.0, 7.0)
    found = timeline.record()
    assert {each.name: each.times for each in found.spans} == {"starting": 1, "training": 1}
    assert found.instants == {}


def test_the_same_run_goes_on_with_what_it_has() -> None:
    timeline.settle(True, "a1b2")
    timeline.add("training", 2.0, 3.0)
    timeline.instant("first update", 2.5)
    timeline.settle(True, "a1b2")  # its coordinator has connected anew
    timeline.add("training", 4.0, 5.0)
    found = timeline.record()
    assert {each.name: each.times for each in found.spans} == {"training": 2}
    assert found.instants == timeline.instants() == {"first update": 2.5}
    timeline.settle(True, "c3d4")
    assert timeline.record().spans == []
    assert timeline.instants() == {}


def test_names_that_vary_fill_no_memory() -> None:
    for number in range(10 * MOST_NAMES):
        timeline.add(f"file {number}", number, number + 0.5)
    found = timeline.record().spans
    assert len(found) == MOST_NAMES + 1
    assert found[-1].name == OTHERS
    assert sum(each.times for each in found) == 10 * MOST_NAMES


def test_a_record_travels_as_text() -> None:
    timeline.add("pushing", 1.0, 2.0, BESIDE)
    timeline.instant("first update", 1.5)
    found = timeline.record()
    assert found.pid == os.getpid()
    assert Record.from_json(found.to_json()) == found


def test_several_tasks_of_a_process_have_one_each(
    monkeypatch: pytest.MonkeyPatch, own: Timeline
) -> None:
    monkeypatch.setattr(timeline, "_several", None)
    with timeline.hosted(3):
        timeline.add("alone", 1.0, 2.0)  # a process of one task has one
    timeline.share()
    with timeline.hosted(0), timeline.span("acting"):
        pass

    def other() -> None:
        with timeline.hosted(-1):
            timeline.add("serving", 1.0, 2.0)

    thread = threading.Thread(target=other)
    with timeline.hosted(0):
        thread.start()
        thread.join()
        assert names() == ["acting"]
    with timeline.hosted(-1):
        assert names() == ["serving"]
    assert [each.name for each in own.record().spans] == ["alone"]


def test_a_process_knows_when_it_began() -> None:
    # The interpreter's start is in it, and no more than what who started it has waited.
    program = (
        "import time; came = time.perf_counter()\n"
        "from ps_dqn.profiling import timeline\n"
        "print(timeline.process_began(), came)\n"
    )
    before = time.perf_counter()
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    began, came = map(float, ran.stdout.split())
    tick = 2 / os.sysconf("SC_CLK_TCK") if sys.platform == "linux" else 0.0
    assert before - tick <= began <= came + tick


def test_a_fork_has_a_timeline_of_its_own() -> None:
    # A fork has nothing of who made it but whether there is one.
    program = (
        "import os\n"
        "from ps_dqn.profiling import timeline\n"
        "timeline.add('of the parent', 1.0, 2.0)\n"
        "before = timeline.now()\n"
        "if os.fork() == 0:\n"
        "    timeline.begin('starting')\n"
        "    found = timeline.record()\n"
        "    tick = 2 / os.sysconf('SC_CLK_TCK')\n"
        "    assert [each.name for each in found.spans] == ['starting']\n"
        "    assert before - tick <= found.began <= timeline.now()\n"
        "    timeline.settle(False)\n"
        "    timeline.begin('starting again')\n"
        "    timeline.add('not wanted', 1.0)\n"
        "    assert [each.name for each in timeline.record().spans] == ['starting again']\n"
        "    print('well', flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("well\n", "")


def test_it_can_be_told_in_a_few_numbers() -> None:
    now = time.perf_counter()
    for number in range(100):
        timeline.add("stepping environments", now - 100 + number, now - 99.5 + number)
    [told] = timeline.briefly()
    assert told.began == pytest.approx(100, abs=10)
    assert told.began - told.ended == pytest.approx(99.5, abs=1e-3)
    assert (told.times, told.seconds) == (100, pytest.approx(50, abs=1e-3))
    for number in range(20):
        timeline.add(f"name {number}", now, now + 1)
    assert len(timeline.briefly()) == timeline.MOST_BRIEF
    timeline.settle(False)
    assert timeline.briefly() == []


def test_what_is_told_fits_a_datagram() -> None:
    for number in range(20):
        timeline.add(f"doing a thing called {number:10}", -1e6, time.perf_counter())
    told = json.dumps({"timeline": timeline.briefly()}).encode()
    assert len(told) < 3 * pulse.SIZE // 4  # what a pulse of an actor has beside it takes a quarter
