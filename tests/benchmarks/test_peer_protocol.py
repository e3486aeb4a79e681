"""How programs are judged: by evaluations, and by rates."""

import argparse
import json

import numpy as np
import protocol
import pytest
from protocol import Protocol, arguments
from rates import Rates, judge

WORDS = ["--env_id=CartPole-v1", "--seed=1", "--env_steps=1000", "--eval_period=100"]


def options(*words: str) -> argparse.Namespace:
    return arguments([*WORDS, "--started=0", *words])


def act(observations: np.ndarray) -> np.ndarray:
    return np.zeros(len(observations), np.int64)


def returning(monkeypatch: pytest.MonkeyPatch, returns: list[float]) -> None:
    """Evaluations find these."""
    left = iter(returns)
    monkeypatch.setattr(protocol, "episodes", lambda *_: next(left))


def said(capsys: pytest.CaptureFixture[str]) -> list[dict[str, float]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_solved_is_three_in_a_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    returning(monkeypatch, [500, 475, 474.9, 475, 480, 500])
    judged = Protocol(options("--until_solved"))
    ends = [judged.evaluate(i, i // 2, act, lambda: None) for i in range(6)]
    assert ends == [False] * 5 + [True]
    lines = said(capsys)
    assert [line["eval_return"] for line in lines] == [500, 475, 474.9, 475, 480, 500]
    assert [line["updates"] for line in lines] == [0, 0, 1, 1, 2, 2]


def test_a_run_without_end_is_not_ended_by_its_score(monkeypatch: pytest.MonkeyPatch) -> None:
    returning(monkeypatch, [500] * 5)
    judged = Protocol(options())
    assert not any(judged.evaluate(i, i, act, lambda: None) for i in range(5))


def test_a_run_ends_where_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    returning(monkeypatch, [10] * 2)
    assert not Protocol(options("--max_seconds=1000")).evaluate(1, 1, act, lambda: None)
    assert Protocol(options("--max_seconds=0")).evaluate(1, 1, act, lambda: None)


def test_evaluations_are_due_once_a_period() -> None:
    judged = Protocol(options())
    assert [judged.due(step) for step in (50, 99, 100, 101, 199, 250)] == [
        *(False, False, True, False, False, True)
    ]


def test_the_best_network_plays_other_episodes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def episodes(env_id: str, playing: object, count: int, seed: int) -> float:
        asked.append((playing, count, seed))
        return [5.0, 9.0, 7.0, 8.0][len(asked) - 1]

    monkeypatch.setattr(protocol, "episodes", episodes)
    judged = Protocol(options(), compile_seconds=1.5)
    for i in range(3):
        judged.evaluate(i, i, act, lambda i=i: i)
    judged.end(lambda kept: ("loaded", kept))
    assert asked[-1] == (("loaded", 1), 100, 20_000)
    assert said(capsys)[-1].items() >= {"best_of_100": 8.0, "compile_seconds": 1.5}.items()


def test_episodes_are_the_same_each_time() -> None:
    found = [protocol.episodes("CartPole-v1", act, 4, 7) for _ in range(2)]
    assert found[0] == found[1]
    assert 8 < found[0] < 11  # who always pushes to one side falls so soon


def test_rates_are_of_the_time_behind_the_warm_up(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    judged = Rates(options("--rate_seconds=10"), clock=lambda: now)
    ends = []
    for second in range(60):
        now, slow = float(second), second < 20
        # No updates for ten seconds, slow ones for ten, then 300 steps and 30 updates a second.
        steps = 10 * second if slow else 200 + 300 * (second - 20)
        updates = max(0, second - 10) if slow else 10 + 30 * (second - 20)
        ends.append(judged.evaluate(steps, updates, act, lambda: None))
        if ends[-1]:
            break
    # From second 11 there are updates, from 16 it counts, at 26 it is over.
    assert len(ends) == 27
    judged.end(lambda _: act, bytes_per_transition=12.0)
    (line,) = said(capsys)
    assert line == {
        "env_steps_per_second": pytest.approx((200 + 300 * 6 - 160) / 10),
        "updates_per_second": pytest.approx((10 + 30 * 6 - 6) / 10),
        "bytes_per_transition": 12.0,
        "measured_seconds": 10.0,
    }


def test_rates_that_were_not_measured_are_no_rates() -> None:
    with pytest.raises(SystemExit, match="before its rates"):
        Rates(options("--rate_seconds=10")).end(lambda _: act)


def test_a_program_is_judged_by_what_it_is_asked() -> None:
    assert isinstance(judge(options()), Protocol)
    assert isinstance(judge(options("--rate_seconds=3")), Rates)
