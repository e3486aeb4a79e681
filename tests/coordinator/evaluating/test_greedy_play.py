"""Greedy evaluations: in one part or several, of other episodes each time."""

from collections.abc import Sequence

import numpy as np
import pytest
from support.small import SMALL, make_closures

from ps_dqn.config import Config
from ps_dqn.coordinator.evaluating.greedy_play import Evaluation, Evaluations
from ps_dqn.coordinator.scheduling.dispatch import Schedule
from ps_dqn.store import Frozen


def frozen_at(*counters: int, average: Sequence[float] = ()) -> Frozen:
    """What a freeze returns; no average where the store keeps it."""
    return Frozen(np.int32(0), np.int64(0), np.array(counters), np.float32(average))


class Recorder:
    """A schedule and closures in one, which record what is to be played."""

    def __init__(self, keeps_frozen: bool = True):
        self.played: list[tuple[int, bool, int]] = []
        self.kinds: list[str] = []
        self.brought: list[list[float]] = []  # the network of each part; none where it is kept
        self.freeze, self.keeps_frozen = None, keeps_frozen

    def evaluate(self, episodes: int, freeze: bool) -> tuple[int, bool]:
        return episodes, freeze

    def submit(self, kind: str, closure, args=(), repeatable: bool = False) -> None:
        self.kinds.append(kind)
        assert repeatable
        if kind == "evaluation":
            self.played.append((*closure, int(args[0])))
            self.brought.append(args[1].tolist())


def seeds_of(env_steps: int, seed: int = 5, episodes: int = 50) -> list[int]:
    """The seeds of the parts of an evaluation, 20 episodes each at most."""
    config = Config.from_values(
        {"seed": seed, "eval_episodes": episodes, "eval_episodes_per_closure": 20}
    )
    schedule = Recorder()
    evaluations = Evaluations(config.run, schedule, schedule)
    evaluations.start(env_steps)
    if "freeze" in schedule.kinds:
        evaluations.on_frozen(frozen_at(1, 2, 3, 4, 5))
    return [seed for _, _, seed in schedule.played]


def test_parts_evaluations_and_runs_have_seeds_of_their_own() -> None:
    seeds = [seeds_of(1000), seeds_of(2000), seeds_of(1000, seed=6), seeds_of(1000, episodes=7)]
    assert [len(each) for each in seeds] == [3, 3, 3, 1]
    # The first part is the same, however many follow it.
    assert len({seed for each in seeds[:3] for seed in each}) == 9
    assert seeds[3] == seeds[0][:1]
    assert seeds_of(1000) == seeds[0]


def test_parts_are_alike_and_make_the_whole() -> None:
    config = Config.from_values({"eval_episodes": 50, "eval_episodes_per_closure": 20})
    schedule = Recorder()
    evaluations = Evaluations(config.run, schedule, schedule)
    evaluations.start(1000)
    assert schedule.kinds == ["freeze"]
    evaluations.on_frozen(frozen_at(7, 70, 700, 3, 35))
    assert [(episodes, freeze) for episodes, freeze, _ in schedule.played] == [
        (17, False), (17, False), (16, False),
    ]  # fmt: skip
    nothing = np.zeros(0, np.int64)
    assert evaluations.on_part(nothing, np.full(17, 1.0)) is None
    assert evaluations.on_part(nothing, np.full(16, 2.0)) is None
    assert evaluations.is_running
    whole = evaluations.on_part(nothing, np.full(17, 3.0))
    assert isinstance(whole, Evaluation)
    assert not evaluations.is_running
    assert tuple(whole.counters) == (7, 70, 700, 3, 35)
    assert whole.returns.sum() == 17 * 1 + 16 * 2 + 17 * 3


def test_what_was_frozen_is_confirmed_by_other_episodes() -> None:
    config = Config.from_values({"eval_episodes": 10, "confirm_episodes": 50})
    schedule = Recorder()
    evaluations = Evaluations(config.run, schedule, schedule)
    evaluations.start(1000)
    evaluated = evaluations.on_part(np.array([7, 70, 700, 3, 35]), np.full(10, 1.0))
    assert evaluated is not None
    assert not evaluated.confirms
    evaluations.confirm()
    assert [(episodes, freeze) for episodes, freeze, _ in schedule.played] == [
        (10, True), (17, False), (17, False), (16, False),
    ]  # fmt: skip
    assert len({seed for *_, seed in schedule.played}) == 4
    nothing = np.zeros(5, np.int64)  # what a closure says that freezes nothing
    assert evaluations.on_part(nothing, np.full(17, 2.0)) is None
    assert evaluations.on_part(nothing, np.full(17, 2.0)) is None
    assert evaluations.is_running
    confirmed = evaluations.on_part(nothing, np.full(16, 2.0))
    assert confirmed is not None
    assert confirmed.confirms
    assert confirmed.counters == evaluated.counters
    assert len(confirmed.returns) == 50
    assert not evaluations.is_running


def test_one_part_that_confirms_is_of_what_was_evaluated() -> None:
    schedule = Recorder()
    config = Config.from_values({"eval_episodes": 2})
    evaluations = Evaluations(config.run, schedule, schedule)
    evaluations.start(1000)
    evaluated = evaluations.on_part(np.array([7, 70, 700, 3, 35]), np.ones(2))
    evaluations.confirm()
    assert schedule.played[1][:2] == (4, False)  # twice as many, where nothing is said
    confirmed = evaluations.on_part(np.zeros(5, np.int64), np.ones(4))
    assert evaluated is not None
    assert confirmed is not None
    assert confirmed.counters == evaluated.counters


@pytest.mark.parametrize("episodes", [10, 50])
def test_where_nobody_keeps_what_was_frozen_every_part_brings_it(episodes: int) -> None:
    """The worker that plays a part may hold another version, or nothing."""
    schedule = Recorder(keeps_frozen=False)
    config = Config.from_values({"eval_episodes": episodes, "eval_episodes_per_closure": 20})
    evaluations = Evaluations(config.run, schedule, schedule)
    evaluations.start(1000)
    evaluations.freeze()  # the worker had nothing
    assert schedule.kinds == ["freeze", "freeze"]
    evaluations.on_frozen(frozen_at(7, 70, 700, 3, 35, average=[0.5, -1]))
    evaluated = None
    for part, freeze, _ in schedule.played:
        assert not freeze
        evaluated = evaluations.on_part(np.zeros(5, np.int64), np.ones(part))
    assert evaluated is not None
    assert tuple(evaluated.counters) == (7, 70, 700, 3, 35)
    assert evaluated.network is not None
    assert evaluated.network.tolist() == [0.5, -1]
    evaluations.confirm()
    assert len(schedule.brought) > len(schedule.played) / 2
    assert schedule.brought == [[0.5, -1]] * len(schedule.played)


@pytest.fixture
def play(coordinator):
    """Plays evaluations with a new network, half of the actions at random."""
    values = SMALL | {"eval_episodes": 8, "eval_episodes_per_closure": 4, "eval_epsilon": 0.5}
    config = Config.from_values(values)
    _, closures = make_closures(config, num_ps=3, num_workers=2)
    schedule = Schedule(coordinator, most=3, in_order=False)
    evaluations = Evaluations(config.run, closures, schedule)

    def run(env_steps: int) -> list[np.ndarray]:
        """The returns of the parts."""
        evaluations.start(env_steps)
        parts = []
        while evaluations.is_running:
            outcome = schedule.next(60.0)
            assert outcome is not None
            if outcome.kind == "freeze":
                evaluations.on_frozen(Frozen(*outcome.value))
            else:
                parts.append(outcome.value[1])
                evaluations.on_part(*outcome.value[:2])
        return parts

    yield run
    schedule.close()


def test_parts_and_evaluations_play_other_episodes(play) -> None:
    first, second = play(1000), play(2000)
    assert [len(part) for part in first + second] == [4, 4, 4, 4]
    assert len({tuple(part) for part in first + second}) == 4
    # The same evaluation again is the same, whichever part ends first.
    assert {tuple(part) for part in play(1000)} == {tuple(part) for part in first}
