"""What people hear of actors that a learner does without, by its reports."""

import pytest

from ps_dqn.coordinator.supervision import missing_actors
from ps_dqn.coordinator.supervision.missing_actors import MissingActors
from ps_dqn.coordinator.supervision.task_failures import TaskFailures
from ps_dqn.coordinator.supervision.tasks import Tasks

ADDRESSES = [f"actor-{i}:2222" for i in range(6)]


class Heard:
    """Five seconds pass before each report."""

    def __init__(self, num_learners: int = 2, addresses: list[str] = ADDRESSES):
        self.time = 0.0
        self.missing = MissingActors(addresses, num_learners, lambda: self.time)

    def reports(self, there: int, absent: int = -1, times: int = 1, learner: int = 1) -> list[str]:
        lines = []
        for _ in range(times):
            self.time += 5.0
            lines += self.missing.hear(learner, there, absent)
        return lines


def test_one_that_does_not_join_is_told_of_once_and_so_is_its_coming() -> None:
    heard = Heard()
    assert heard.reports(2, 1, times=6) == []
    assert heard.reports(2, 1, times=100) == [
        "learner 1 has 2 of 3 actors: actor 3 at actor-3:2222 has not joined for 30 s; the log of "
        "worker 1 says more"
    ]
    assert heard.reports(3, times=100) == ["learner 1 has 3 of 3 actors"]
    assert heard.reports(2, 0, times=7)[0].startswith("learner 1 has 2 of 3 actors: actor 1 at ")


def test_one_that_comes_back_soon_is_no_news() -> None:
    heard = Heard()
    for _ in range(20):
        assert heard.reports(3) + heard.reports(2, 0, times=6) == []


def test_one_of_whom_another_takes_turns_is_news() -> None:
    heard = Heard()
    [line] = [line for _ in range(10) for line in heard.reports(2, 0) + heard.reports(2, 2)]
    assert line.startswith("learner 1 has 2 of 3 actors: actor ")


def test_each_more_that_stays_away_is_told_of() -> None:
    heard = Heard()
    assert len(heard.reports(2, 0, times=10)) == 1
    assert heard.reports(0, 0, times=6) == []
    assert heard.reports(0, 0, times=100) == [
        "learner 1 has 0 of 3 actors: actor 1 at actor-1:2222 and 2 more have not joined for 30 s; "
        "the log of worker 1 says more"
    ]
    # Who has them all again is told of, and nothing before.
    assert heard.reports(1, 0, times=10) + heard.reports(2, 0, times=10) == []
    assert heard.reports(3) == ["learner 1 has 3 of 3 actors"]


def test_learners_have_actors_of_their_own() -> None:
    heard = Heard()
    lines = []
    for _ in range(20):
        lines += heard.reports(3, learner=0) + heard.reports(2, 2)
    [line] = lines
    assert line.startswith("learner 1 has 2 of 3 actors: actor 5 at actor-5:2222 has not joined ")


def test_what_a_learner_missed_that_is_gone_is_forgotten() -> None:
    heard = Heard()
    assert len(heard.reports(2, 0, times=10)) == 1
    heard.missing.forget(1)
    assert heard.reports(0, 0, times=6) == []
    assert heard.reports(3, times=10) == []


def test_without_actors_there_is_nothing_to_tell() -> None:
    heard = Heard(addresses=[])
    assert heard.reports(0, 0, times=100) == []


def test_tasks_of_others_are_looked_after_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_actors, "PATIENCE", 0.0)
    tasks = Tasks(1, None, TaskFailures(), actors=ADDRESSES[:2])
    tasks.reported(0, actors=1, absent_actor=1)
    [line] = tasks.check()
    assert line.startswith("learner 0 has 1 of 2 actors: actor 1 at actor-1:2222 has not joined ")
    assert tasks.check() == []
    tasks.lost(0)
    tasks.reported(0, actors=2)
    assert tasks.check() == []
