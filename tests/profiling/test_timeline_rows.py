"""Timelines of several tasks on one clock: what was done when, and in which phase of the run."""

import json
import pathlib

import pytest
from matplotlib import image

from ps_dqn.profiling import chrome, phases, picture, rows
from ps_dqn.profiling.clocks import Offset
from ps_dqn.profiling.rows import Row, Segment
from ps_dqn.profiling.series import Stretch
from ps_dqn.profiling.timeline import BESIDE, MAIN, Brief, Named, Record


def named(name: str, *times: tuple[float, float], lane: str = MAIN) -> Named:
    """Spans from here to there."""
    stretches = [Stretch(began, ended, 1, ended - began) for began, ended in times]
    seconds = [each.seconds for each in stretches]
    return Named(name, lane, len(times), sum(seconds), max(seconds), 0.0, stretches)


COORDINATOR = Row(
    "coordinator",
    0.0,
    [
        named("starting Python", (0.0, 0.5)),
        named("importing TensorFlow", (0.5, 3.0)),
        named("tracing what workers will run", (3.0, 4.0)),
        named("registering a function with tasks", (3.2, 3.4), (3.6, 3.7)),
        named("evaluating", (6.0, 7.0), (9.0, 10.0), lane=BESIDE),
        named("drawing the learning curve", (10.5, 11.0)),
    ],
    {"first closure scheduled": 4.0, "first report of an update": 5.5, "end of training": 9.5},
)
WORKER = Row(
    "worker-0",
    2.9,
    [
        named("building environments", (4.25, 4.5)),
        named("collecting", (4.5, 4.75), (5.5, 6.0)),
        named("compiling and making the first updates", (4.75, 5.25), lane=BESIDE),
        Named("learning", BESIDE, 40, 2.0, 0.1, 0.0, [Stretch(5.5, 9.5, 40, 2.0)]),
    ],
    {"first env step": 4.6, "first update": 5.25},
)
SILENT = Row("ps-0", 0.0, [], {}, note="it does not answer")
ALL = [COORDINATOR, SILENT, WORKER]
TOTAL = 11.25


def test_times_are_on_the_coordinators_clock_from_the_command_on() -> None:
    record = Record(
        1_000.0,
        "far",
        7,
        [
            named("importing", (1_000.0, 1_004.0), (1_005.0, 1_009.0)),
            named("old", (999.0, 1_001.0)),
        ],
        {"first update": 1_008.0, "of another run": 1_001.0},
    )
    # Its clock is 900 s ahead; the command came at 106 of the coordinator's.
    found = rows.row("worker-0", record, 106.0, Offset(-900.0, 0.001))
    assert found.began == -6.0
    [span] = found.spans  # what was over before the command is not of this run
    assert span.stretches == [Stretch(0.0, 3.0, 1, 3.0)]  # and what went on is cut
    assert found.instants == {"first update": 2.0}


def test_what_was_told_in_a_few_numbers_is_a_row() -> None:
    told = [Brief("building", 12.0, 11.0, 1, 1.0), Brief("stepping", 5.0, 1.0, 80, 2.0)]
    found = rows.briefly("actor-0", told, 11.5)
    assert found.began == 0.0
    assert [(each.name, each.times, each.stretches) for each in found.spans] == [
        ("building", 1, [Stretch(0.0, 0.5, 1, 0.5)]),  # the command came meanwhile
        ("stepping", 80, [Stretch(6.5, 10.5, 80, 2.0)]),
    ]


def test_of_blocks_in_each_other_the_innermost_counts() -> None:
    found = rows.segments(COORDINATOR.spans, [MAIN])
    shown = [(each.name.split()[0], each.began, each.ended) for each in found]
    assert shown == [
        ("starting", 0.0, 0.5),
        ("importing", 0.5, 3.0),
        ("tracing", 3.0, 3.2),
        ("registering", 3.2, 3.4),
        ("tracing", 3.4, 3.6),
        ("registering", 3.6, 3.7),
        ("tracing", 3.7, 4.0),
        ("drawing", 10.5, 11.0),
    ]


def test_what_was_put_together_has_its_share() -> None:
    found = rows.segments(WORKER.spans, [BESIDE])
    assert found[-1] == Segment("learning", 5.5, 9.5, 0.5)
    assert found[-1].seconds == 2.0


def test_blocks_that_overlap_are_counted_once() -> None:
    spans = [named("a", (0.0, 2.0)), named("b", (1.0, 3.0)), named("c", (2.5, 2.75))]
    found = rows.segments(spans, [MAIN])
    assert sum(each.seconds for each in found) == 3.0


def test_phases_add_up() -> None:
    found = phases.phases(ALL, TOTAL)
    assert [(each.name, each.seconds, each.task) for each in found] == [
        ("start", 4.0, "coordinator"),
        ("until the first update", 1.25, "worker-0"),
        ("training", 4.25, "worker-0"),
        ("until the last evaluation ended", 0.5, "coordinator"),
        ("after the last evaluation", 1.25, "coordinator"),
    ]
    assert sum(each.seconds for each in found) == TOTAL
    assert found[0].spans == [
        ("importing TensorFlow", 2.5),
        ("tracing what workers will run", pytest.approx(0.7)),
        ("starting Python", 0.5),
        ("registering a function with tasks", pytest.approx(0.3)),
    ]
    assert found[1].spans == [
        ("compiling and making the first updates", 0.5),
        ("building environments", 0.25),
        ("collecting", 0.25),
        ("in no span", 0.25),
    ]
    # Half of it, of what was put together.
    assert found[2].spans[:2] == [("learning", 2.0), ("in no span", pytest.approx(1.75))]


@pytest.mark.parametrize(
    ("instants", "seconds"),
    [
        ({}, [6.0, 0.0, 0.0, 0.0, 0.0]),  # it never began to train
        ({"first closure scheduled": 2.0}, [2.0, 4.0, 0.0, 0.0, 0.0]),  # no update was made
        (
            {"first closure scheduled": 2.0, "first report of an update": 3.0},
            [2.0, 1.0, 3.0, 0.0, 0.0],
        ),
        ({"first closure scheduled": 2.0, "end of training": 4.0}, [2.0, 2.0, 0.0, 0.0, 2.0]),
    ],
)
def test_a_run_that_was_cut_short_adds_up_too(
    instants: dict[str, float], seconds: list[float]
) -> None:
    found = phases.phases([Row("coordinator", 0.0, [], instants), SILENT], 6.0)
    assert [each.seconds for each in found] == seconds


def test_a_worker_that_was_started_again_does_not_put_off_the_first_update() -> None:
    instants = {"first env step": 8.0, "first update": 8.5}
    again = Row("worker-0", 7.5, [named("collecting", (8.0, 8.25))], instants)
    found = phases.phases([COORDINATOR, SILENT, again], TOTAL)
    assert [(each.seconds, each.task) for each in found[:3]] == [
        (4.0, "coordinator"),
        (1.5, "worker-0"),  # of which its report tells; what it did then is not known
        (4.0, "worker-0"),
    ]
    assert found[1].spans == [("in no span", 1.5)]
    assert phases.first_update([COORDINATOR, SILENT, again]) == 5.5


def test_the_file_is_what_viewers_of_traces_take() -> None:
    content = json.loads(chrome.encode(ALL, phases.phases(ALL, TOTAL), TOTAL))
    events = content["traceEvents"]
    names = {each["pid"]: each["args"]["name"] for each in events if each["name"] == "process_name"}
    assert names == {1: "coordinator", 2: "ps-0", 3: "worker-0"}
    [importing] = [each for each in events if each["name"] == "importing TensorFlow"]
    assert importing == {
        "ph": "X",
        "name": "importing TensorFlow",
        "cat": "importing",
        "pid": 1,
        "tid": 4,
        "ts": 0.5e6,
        "dur": 2.5e6,
    }
    [learning] = [each for each in events if each["name"] == "learning"]
    assert learning["args"] == {"times": 40, "seconds": 2.0}
    [update] = [each for each in events if each["name"] == "first update"]
    assert (update["ph"], update["ts"], update["pid"]) == ("i", 5.25e6, 3)
    whose = {(each["tid"], each["pid"]) for each in events}
    assert len({tid for tid, _ in whose}) == len(whose)
    # One that lasts has a line of its own in a viewer, unless it is in another.
    for pid in names:
        for tid in {each["tid"] for each in events}:
            lane = sorted(
                (each["ts"], -each["dur"])
                for each in events
                if each["ph"] == "X" and (each["pid"], each["tid"]) == (pid, tid)
            )
            ends: list[float] = []
            for began, length in lane:
                while ends and ends[-1] <= began:
                    ends.pop()
                assert not ends or began - length <= ends[-1]
                ends.append(began - length)
    ours = content["ps_dqn"]
    assert ours["version"] == chrome.VERSION
    assert sum(each["seconds"] for each in ours["phases"]) == ours["total_seconds"] == TOTAL
    assert ours["tasks"]["ps-0"]["note"] == "it does not answer"
    assert ours["tasks"]["worker-0"]["totals"]["learning (beside)"]["times"] == 40


@pytest.mark.slow
def test_the_picture_has_a_row_for_each_task(tmp_path: pathlib.Path) -> None:
    picture.draw(tmp_path / "few.png", ALL, TOTAL, "a run")
    many = [COORDINATOR, *(WORKER._replace(task=f"worker-{i}") for i in range(40))]
    picture.draw(tmp_path / "many.png", many, TOTAL, "a run")
    few, more = (image.imread(tmp_path / f"{name}.png") for name in ("few", "many"))
    assert few.shape[1] == more.shape[1]
    assert more.shape[0] > 2 * few.shape[0]

    # TensorFlow's import is a fifth of the whole run's width, in the colour of imports.
    def width_of(found, red: float, green: float, blue: float) -> int:
        is_color = (abs(found[:, :, :3] - [red, green, blue]) < 0.02).all(axis=2)
        return int(is_color.sum(axis=1).max())

    blue = 0x1F / 255, 0x77 / 255, 0xB4 / 255
    assert width_of(few, *blue) / width_of(few, 0.0, 0.0, 0.0) > 0.2


def test_every_word_has_one_colour() -> None:
    words = [word for _, words in picture.KINDS.values() for word in words.split()]
    assert len(words) == len(set(words))
    assert picture.kind_of("importing TensorFlow") == "importing"
    assert picture.kind_of("juggling") == picture.OTHER[0]
