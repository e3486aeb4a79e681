"""Where a run is between its reports, and what each of its tasks is at."""

import math
from typing import Any

import pytest
from support import seen_by

from ps_dqn.cluster.pulse import Heard
from ps_dqn.cluster.spec import Task
from ps_dqn.coordinator.supervision import pulses
from ps_dqn.coordinator.supervision.pulses import FRESH_SECONDS, Pulses
from ps_dqn.state import Counters
from ps_dqn.telemetry import pulse
from ps_dqn.telemetry.pulse import Pulse

SERVER, FIRST, SECOND = Task("ps", 0), Task("worker", 0), Task("worker", 1)
KNOWN = Counters(version=2, updates=128, env_steps=1000, episodes=5, sequential_updates=64)


class Case:
    """Pulses of three tasks, at times of a test's choice."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now = 100.0
        seen_by.clock(monkeypatch, pulses, monotonic=lambda: self.now)
        self._heard: dict[Task, Heard] = {}
        self.roles = ["", ""]
        self.pulses = Pulses(self, [SERVER, FIRST, SECOND], self.roles.__getitem__)  # type: ignore[arg-type]

    def newest(self) -> dict[Task, Heard]:
        return dict(self._heard)

    def says(self, task: Task, **numbers: Any) -> bool:
        """A task of session 7 says so now; whether a worker is heard."""
        content = pulse.encode(Pulse(**({"session": 7} | numbers)))
        self._heard[task] = Heard(self.now, content)
        return self.pulses.look(session=7)


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    return Case(monkeypatch)


def test_steps_that_were_not_pushed_are_shown_until_a_report_comes(case: Case) -> None:
    assert case.pulses.counters(7, KNOWN, since=90.0) == (1000, 128)
    assert case.says(FIRST, run_env_steps=1200, run_updates=192, pending=30)
    case.says(SECOND, run_env_steps=1100, run_updates=160, pending=4)
    assert case.pulses.counters(7, KNOWN, since=90.0) == (1234, 192)
    assert case.pulses.counters(7, KNOWN, since=100.0) == (1000, 128), "reports are newer"


def test_what_is_of_another_run_counts_for_nothing(case: Case) -> None:
    assert not case.says(FIRST, session=6, run_env_steps=10**6, pending=30)
    assert case.pulses.counters(7, KNOWN, since=90.0) == (1000, 128)


def test_rows_say_what_each_is_at_and_how_quickly_it_works(case: Case) -> None:
    case.says(FIRST, phase="environment", env_steps=500, updates=10, replay_rows=8, replay_goal=9)
    case.says(SERVER, version=3, pushes=10)
    case.now += 2.0
    case.says(SERVER, version=4, pushes=13)
    case.says(
        FIRST,
        phase="gradient",
        phase_seconds=1.5,
        env_steps=600,
        updates=10,
        staleness=1.0,
        replay_rows=108,
        replay_goal=9,
    )
    server, first, second = case.pulses.rows(lost=[])
    assert (server.name, server.doing, server.version) == ("parameter server 0", "serving", 4)
    assert server.pushes_per_second == 1.5
    assert (first.doing, first.seconds, first.staleness) == ("gradient", 1.5, 1.0)
    assert (first.env_steps_per_second, first.updates_per_second) == (50.0, 0.0)
    assert not first.is_filling
    assert first.memory > 1e6
    assert (second.doing, second.is_heard) == ("not heard of", False)
    assert case.pulses.rows(lost=[0])[1].doing == "lost"


def test_workers_that_are_not_alike_are_told_apart(case: Case) -> None:
    case.roles[:] = "learner", "actor"
    case.says(FIRST)
    names = [[each.name for each in case.pulses.rows(lost)] for lost in ([], [0])]
    assert names == [["parameter server 0", "worker 0 (learner)", "worker 1 (actor)"]] * 2


def test_who_was_heard_and_is_not_any_more_is_silent(case: Case) -> None:
    case.says(FIRST, env_steps=1)
    case.now += FRESH_SECONDS + 2
    assert not case.pulses.look(session=7)
    row = case.pulses.rows(lost=[])[1]
    assert (row.doing, row.seconds) == ("silent", FRESH_SECONDS + 2)


def test_what_a_task_took_is_known_after_it_is_silent(case: Case) -> None:
    case.says(FIRST, memory=5e6)
    case.now += FRESH_SECONDS + 2
    case.pulses.look(session=7)
    first, second = case.pulses.memory("worker")
    assert first > 1e6
    assert math.isnan(second)
    assert case.pulses.memory("actor") == []


def test_a_worker_that_begins_anew_has_no_rate_of_before(case: Case) -> None:
    case.says(FIRST, env_steps=500)
    case.now += 1.0
    case.says(FIRST, env_steps=3)
    assert math.isnan(case.pulses.rows(lost=[])[1].env_steps_per_second)
