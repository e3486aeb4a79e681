"""A sweep whose runs are scripted: their order, their ends and what the search hears."""

import io
import os
import pathlib
import signal
from collections.abc import Callable, Iterator

import pytest
from rich.console import Console
from support.made_runs import evaluations, make

from ps_dqn.cluster import ending
from ps_dqn.errors import UsageError
from ps_dqn.sweep import results, running, trial
from ps_dqn.sweep.board import Board
from ps_dqn.sweep.running import Plan, Sweep
from ps_dqn.sweep.search import Listed
from ps_dqn.sweep.space import Point
from ps_dqn.sweep.trial import Trial

BEST = {"--a=1": 10.0, "--a=2": 20.0, "--a=3": 30.0}


class Scripted:
    """In the place of `Running`: ends at the third look, unless it is told otherwise."""

    all: list["Scripted"]  # that were started
    script: Callable[["Scripted"], str]

    def __init__(self, of: Trial, flags: str):
        self.trial, self.flags, self.looks, self.asked, self.killed = of, flags, 0, 0, False
        Scripted.all.append(self)

    def outcome(self) -> str:
        self.looks += 1
        return Scripted.script(self)

    def ask_to_end(self) -> None:
        self.asked += 1

    def kill(self) -> None:
        self.killed = True


def _ends(run: Scripted) -> str:
    if run.looks < 3:
        return ""
    value = BEST[run.trial.point[0]] + run.trial.seed
    make(run.trial.folder, rows=evaluations(1.0, value))
    return trial.ENDED


class Heard(Listed):
    """A list that remembers what it was told."""

    def __init__(self, *points: Point):
        super().__init__(points)
        self.told: list[tuple[Point, float | None]] = []

    def tell(self, point: Point, score: float | None) -> None:
        self.told.append((point, score))


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    Scripted.all, Scripted.script = [], staticmethod(_ends)
    monkeypatch.setattr(running, "Running", Scripted)
    monkeypatch.setattr(running, "POLL_SECONDS", 0.0)
    before = {number: signal.getsignal(number) for number in running.ENDING}
    for number in before:
        signal.signal(number, signal.SIG_DFL)  # the background of a shell ignores some
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _sweep(
    folder: pathlib.Path, search: Listed, seeds: int = 2, jobs: int = 2
) -> tuple[Sweep, Callable[[], str]]:
    out = io.StringIO()
    plan = Plan(
        folder, range(seeds), 6, jobs, "eval/episode_return", lambda point: f"all of {point}"
    )
    board = Board(Console(file=out, width=200), interval=0.0)
    return Sweep(plan, search, board), out.getvalue


def test_all_points_are_run_with_all_seeds_so_many_at_a_time(tmp_path: pathlib.Path) -> None:
    most = []

    def ends(run: Scripted) -> str:
        most.append(sum(not each.trial.has_ended for each in Scripted.all))
        return _ends(run)

    Scripted.script = staticmethod(ends)
    search = Heard(("--a=1",), ("--a=2",))
    sweep, said = _sweep(tmp_path, search)

    sweep.run()

    assert [each.label for each in sweep.ended] == [
        "a=1, seed 0",
        "a=1, seed 1",
        "a=2, seed 0",
        "a=2, seed 1",
    ]
    assert max(most) == 2
    assert search.told == [(("--a=1",), 10.5), (("--a=2",), 20.5)]
    assert all(each.flags == f"all of {each.trial.point}" for each in Scripted.all)
    assert "[0/6] a=1, seed 0: starting" in said()
    assert "finished: a=2, seed 1: eval/episode_return 21 after 2,000 env steps, 2 s" in said()


def test_what_has_ended_before_is_not_run_again(tmp_path: pathlib.Path) -> None:
    done = trial.of(("--a=1",), 1, tmp_path)
    make(done.folder, rows=evaluations(50.0))
    search = Heard(("--a=1",))
    sweep, said = _sweep(tmp_path, search)

    sweep.run()

    assert [each.trial.seed for each in Scripted.all] == [0]
    assert search.told == [(("--a=1",), 30.0)]
    assert "has ended before: a=1, seed 1" in said()


def test_a_run_that_was_interrupted_is_no_result_and_goes_on(tmp_path: pathlib.Path) -> None:
    stopped = trial.of(("--a=1",), 0, tmp_path)
    make(stopped.folder, rows=evaluations(50.0), reason="stopped")
    Scripted.script = staticmethod(lambda run: trial.INTERRUPTED)
    search = Heard(("--a=1",))
    sweep, said = _sweep(tmp_path, search, seeds=1)

    sweep.run()

    assert (sweep.ended, len(sweep.interrupted), search.told) == ([], 1, [])
    assert "goes on: a=1, seed 0" in said()


def test_a_run_that_failed_is_no_score_and_the_others_go_on(tmp_path: pathlib.Path) -> None:
    def fails(run: Scripted) -> str:
        if run.trial.point == ("--a=1",) and run.trial.seed == 0:
            run.trial.output.parent.mkdir(parents=True, exist_ok=True)
            run.trial.output.write_text("begun\nerror: no room\n")
            return trial.FAILED
        return _ends(run)

    Scripted.script = staticmethod(fails)
    search = Heard(("--a=1",), ("--a=2",))
    sweep, said = _sweep(tmp_path, search)

    sweep.run()

    assert (len(sweep.failed), len(sweep.ended)) == (1, 3)
    assert search.told == [(("--a=1",), None), (("--a=2",), 20.5)]
    assert "failed: a=1, seed 0: error: no room; see " in said()


def test_a_search_may_come_back_to_a_point(tmp_path: pathlib.Path) -> None:
    search = Heard(("--a=1",), ("--a=1",), ("--a=2",), ("--a=1",))
    sweep, _ = _sweep(tmp_path, search, seeds=1)

    sweep.run()

    assert len(Scripted.all) == 2
    assert sorted(search.told) == [(("--a=1",), 10.0)] * 3 + [(("--a=2",), 20.0)]


def test_a_signal_ends_all_runs_in_good_order(tmp_path: pathlib.Path) -> None:
    def saves_itself(run: Scripted) -> str:
        if run.looks == 2 and not run.trial.seed:
            for _ in range(2):  # as `timeout` does, to a process and to its group
                os.kill(os.getpid(), signal.SIGTERM)
                signal.pthread_sigmask(signal.SIG_BLOCK, [])  # Python looks for signals
        return trial.INTERRUPTED if run.asked and run.looks > 4 else ""

    Scripted.script = staticmethod(saves_itself)
    sweep, said = _sweep(tmp_path, Heard(("--a=1",), ("--a=2",)))

    sweep.run()

    assert sweep.received == signal.SIGTERM
    assert [each.asked for each in Scripted.all] == [1, 1]  # and no other one was started
    assert not any(each.killed for each in Scripted.all)
    assert len(sweep.interrupted) == 2
    assert "stopping: 2 runs save themselves" in said()


def test_a_second_signal_ends_them_at_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "LAST_SECONDS", 0.0)
    monkeypatch.setattr(ending, "TOGETHER_SECONDS", 0.0)  # each signal is a request

    def hangs(run: Scripted) -> str:
        if run.looks in (2, 4):
            os.kill(os.getpid(), signal.SIGINT)
        return trial.INTERRUPTED if run.killed else ""

    Scripted.script = staticmethod(hangs)
    sweep, _ = _sweep(tmp_path, Heard(("--a=1",)), seeds=1)

    sweep.run()

    assert (Scripted.all[0].asked, Scripted.all[0].killed) == (2, True)


def test_a_table_that_cannot_be_written_is_one_line(tmp_path: pathlib.Path) -> None:
    sweep, _ = _sweep(tmp_path, Heard(("--a=1",)), seeds=1)
    sweep.run()
    (tmp_path / results.TABLE).mkdir()
    with pytest.raises(UsageError, match=r"scores\.csv cannot be written \(Is a directory\)"):
        results.show(Console(file=io.StringIO()), sweep, tmp_path, "eval/episode_return")
