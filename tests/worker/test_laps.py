"""What a worker's phases are on the timeline."""

import time

import pytest

from ps_dqn.profiling import timeline
from ps_dqn.profiling.timeline import BESIDE, Timeline
from ps_dqn.telemetry.metrics import PHASES
from ps_dqn.worker import laps
from ps_dqn.worker.tally import Tally


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Timeline:
    """This process's own, which is empty."""
    made = Timeline(time.perf_counter())
    monkeypatch.setattr(timeline, "_own", made)
    return made


def test_every_phase_has_a_name() -> None:
    assert laps.NAMES.keys() == set(PHASES)
    assert laps.FIRST.keys() | laps.INSTANTS.keys() <= set(PHASES)


def push(tally: Tally) -> None:
    """All phases of one."""
    for _ in range(3):
        tally.lap("acting", then="environment")
        tally.lap("environment", then="acting")
    tally.lap("sampling", then="gradient")
    tally.lap_beside("gradient", then="push")
    tally.exchanged("push", then="pull")
    tally.exchanged("pull", then="acting")
    tally.join()


def test_phases_of_a_push_are_spans(own: Timeline) -> None:
    tally = Tally()
    tally.start_clock(then="acting")
    push(tally)
    push(tally)
    found = {(each.name, each.lane): each for each in own.record().spans}
    first = laps.FIRST["gradient"]
    assert {key: each.times for key, each in found.items()} == {
        ("collecting", ""): 2,  # three steps each, and what is acted on them
        ("sampling", ""): 2,
        (first, BESIDE): 1,
        ("learning", BESIDE): 1,
        ("pushing", BESIDE): 2,
        ("pulling", BESIDE): 2,
    }
    [compiled] = found[first, BESIDE].stretches
    instants = own.record().instants
    assert instants["first update"] == compiled.ended
    collected = found["collecting", ""].stretches[0]
    assert collected.began < instants["first env step"] < collected.ended


def test_nothing_is_told_where_nobody_wants_it(own: Timeline) -> None:
    timeline.settle(False)
    push(Tally())
    assert own.record().spans == []
