"""Where a sweep looks next: at what was listed, or where Optuna expects the most."""

import collections
import pathlib
from collections.abc import Sequence
from typing import Any, Protocol

from ps_dqn.errors import UsageError
from ps_dqn.sweep.space import Dimension, Point, Range, point

JOURNAL = "optuna.journal"


class Search(Protocol):
    """Says what to try, and hears what came of it."""

    def ask(self) -> Point | None:
        """Another point; None where there is none any more."""

    def tell(self, point: Point, score: float | None) -> None:
        """A point's score, the higher the better; None: it has failed."""


class Listed:
    """All points are known from the start."""

    def __init__(self, points: Sequence[Point]):
        self._left = list(points)

    def ask(self) -> Point | None:
        """The next one."""
        return self._left.pop(0) if self._left else None

    def tell(self, point: Point, score: float | None) -> None:
        """Nothing follows from it."""


class Optuna:
    """Points follow from the scores of those before, by a tree-structured Parzen estimator.

    What was asked and told is kept in the folder. All of those points are asked again first: some
    have got no answer, as the sweep was interrupted, and the others belong to the sweep, too.
    """

    def __init__(self, space: Sequence[Dimension], trials: int, seed: int, folder: pathlib.Path):
        """Begins a study, or goes on with that in the folder.

        Raises:
            UsageError: Optuna is not installed.
        """
        try:
            import optuna
        except ImportError:
            raise UsageError(
                '--search=optuna: needs the extra: pip install "ps-dqn[optuna]"'
            ) from None
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._states = optuna.trial.TrialState
        self._space = {each.name: each for each in space}
        self._distributions = {each.name: _distribution(optuna, each) for each in space}
        self._study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(folder / JOURNAL))),
            study_name="sweep",
            direction="maximize",
            load_if_exists=True,
        )
        known = self._study.trials
        # Not what an earlier sampler has drawn. A constant liar keeps what runs at the same time
        # apart.
        self._study.sampler = optuna.samplers.TPESampler(seed=seed + len(known), constant_liar=True)
        self._known = collections.deque(known)
        self._left = max(trials - len(known), 0)
        self.num_settings = len(known) + self._left
        self._numbers: dict[Point, list[int]] = {}

    def ask(self) -> Point | None:
        """Where the most is to be expected."""
        if self._known:
            trial: Any = self._known.popleft()
            has_answer = trial.state != self._states.RUNNING
        elif self._left > 0:
            self._left -= 1
            trial, has_answer = self._study.ask(self._distributions), False
        else:
            return None
        asked = self._point(trial.params)
        if not has_answer:
            self._numbers.setdefault(asked, []).append(trial.number)
        return asked

    def tell(self, point: Point, score: float | None) -> None:
        """The estimator learns of it, if it has not yet."""
        if not self._numbers.get(point):
            return
        state = self._states.FAIL if score is None else self._states.COMPLETE
        self._study.tell(self._numbers[point].pop(0), score, state=state)

    def _point(self, params: dict[str, Any]) -> Point:
        values = []
        for name, each in self._space.items():
            value = params[name]
            values.append(each.shown(value) if isinstance(each, Range) else value)
        return point(list(self._space.values()), values)


def _distribution(optuna: Any, dimension: Dimension) -> Any:
    distributions = optuna.distributions
    if not isinstance(dimension, Range):
        return distributions.CategoricalDistribution(dimension.values)
    low, high, is_log = dimension.low, dimension.high, dimension.is_log
    if dimension.is_whole:
        return distributions.IntDistribution(int(low), int(high), log=is_log)
    return distributions.FloatDistribution(low, high, log=is_log)
