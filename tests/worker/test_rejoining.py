"""A worker whose coordinator connects anew: what it has stays, and it says what it has pushed."""

import numpy as np
import pytest
from support.worker_calls import RUN, Open, Worker

from ps_dqn.wire import messages
from ps_dqn.wire.bridge import Superseded
from ps_dqn.wire.messages import NO_NUMBER, UNDECIDED, Kind, PushHeader, Verdict
from ps_dqn.worker.calls import Sizes
from ps_dqn.worker.pushes.kept_pushes import COLUMNS

OTHER = RUN + 1


def rejoin(worker: Worker, log_id: int = RUN, run_id: bytes = b"run_77") -> np.ndarray:
    sizes = np.array(worker.host._whose[2] if worker.host._whose else Sizes(1, 1, 1, 1, 0))
    config, scale = worker.config.to_json().encode(), np.int64(1)
    return worker.call("rejoin", np.int64(OTHER), np.int64(log_id), run_id, config, sizes, scale)


def numbers(table: np.ndarray) -> list[int]:
    return table[:, 0].tolist()


def kept(opened: Open) -> tuple[Worker, int]:
    """A worker that has pushed twice and was cut off in its third push; how much replay it has."""
    worker = opened()
    for _ in range(2):
        worker.exchange()
    worker.pull()
    worker.collect()
    worker.sample()
    worker.pack(0.25)
    return worker, worker.host._learning.actor.memory.size


def test_it_keeps_replay_and_environments_and_says_what_it_has_pushed(opened: Open) -> None:
    worker, rows = kept(opened)
    learning = worker.host._learning
    table = rejoin(worker)
    assert numbers(table) == [0, 1, UNDECIDED]
    tickets = [messages.unpack(PushHeader, line[3:]).ticket for line in table]
    assert tickets == sorted(tickets)
    assert worker.host._learning is learning
    assert learning.actor.memory.size == rows > 0
    # What it packed goes to the new servers as it was.
    sizes, *last = worker.call("kept", np.int64(2), np.int64(1))
    assert sizes.tolist() == [[len(part) for part in last]]
    for part, message in zip(last, worker.packed.messages, strict=True):
        np.testing.assert_array_equal(part, message)
    worker.begin(session=OTHER)
    assert worker.host._learning is learning


def test_the_verdict_of_a_push_that_was_cut_off_is_taken(opened: Open) -> None:
    worker, _ = kept(opened)
    rejoin(worker)
    verdict = Verdict(Kind.APPLIED, 0, 0, 2, 3, 6, 30, 2, 1)
    worker.call("pushed_again", np.int64(2), messages.pack(verdict))
    assert numbers(rejoin(worker)) == [0, 1, 2]
    repeated = verdict._replace(duplicate=1, number=NO_NUMBER)
    worker.call("pushed_again", np.int64(1), messages.pack(repeated))
    assert numbers(rejoin(worker)) == [0, NO_NUMBER, 2]
    worker.begin(session=OTHER)
    assert worker.report().pushes == 3


def test_what_it_has_pushed_means_nothing_to_another_log(opened: Open) -> None:
    worker, rows = kept(opened)
    assert numbers(rejoin(worker, log_id=OTHER)) == []
    assert worker.host._learning.actor.memory.size == rows


@pytest.mark.parametrize("run_id", [b"another"])
def test_one_that_is_in_another_run_or_in_none_has_nothing(opened: Open, run_id: bytes) -> None:
    worker, _ = kept(opened)
    assert rejoin(worker, run_id=run_id).shape == (0, COLUMNS)
    worker.host.close()
    assert len(rejoin(worker)) == 0


def test_what_a_closure_that_was_cut_off_still_learns_is_no_push(opened: Open) -> None:
    worker, _ = kept(opened)
    rejoin(worker)
    with pytest.raises(Superseded):
        worker.pack(0.75)
    assert numbers(rejoin(worker)) == [0, 1, UNDECIDED]


def test_one_that_was_not_asked_to_rejoin_keeps_what_it_has_though_it_evaluates_first(
    opened: Open,
) -> None:
    worker, rows = kept(opened)
    learning = worker.host._learning
    worker.begin_evaluation(2, session=OTHER)  # it was away while the coordinator connected anew
    assert worker.host._learning is learning
    worker.begin(session=OTHER)
    assert worker.host._learning is learning
    assert learning.actor.memory.size == rows
