"""Actors that a learner does without for long, as its reports tell: said, and again when they join.

Neither TensorFlow nor the watchdog knows of actors. What a learner reports is all that says whether
it reaches them, wherever they are.
"""

import time
from collections.abc import Callable, Sequence

# How long a learner may do with fewer before people hear of it (seconds).
PATIENCE = 30.0


class MissingActors:
    """Those of each learner."""

    def __init__(
        self,
        addresses: Sequence[str],
        num_learners: int,
        now: Callable[[], float] = time.monotonic,
    ):
        """Has heard of none.

        Args:
            addresses: of all actors, host:port; none where learners have no actors.
            num_learners: of the run; actor i is of learner i mod so many.
            now: a clock (seconds).
        """
        self._addresses, self._num_learners, self._now = addresses, num_learners, now
        # Of each learner, since when at least one actor, at least two, … have been missing.
        self._since: dict[int, list[float]] = {}
        self._said: dict[int, int] = {}  # how many are, as people know

    def hear(self, learner: int, there: int, absent: int) -> list[str]:
        """Takes what a learner reports; lines for people.

        Args:
            learner: its index.
            there: how many of its actors are there.
            absent: the first of its actors that is not, as it numbers them.
        """
        whose = range(learner, len(self._addresses), self._num_learners)
        now, missing = self._now(), len(whose) - there
        since = self._since.get(learner, [])[:missing]
        since += [now] * (missing - len(since))
        self._since[learner] = since
        known, long = self._said.get(learner, 0), sum(now - at >= PATIENCE for at in since)
        self._said[learner] = long
        if long < known and not missing:
            return [f"learner {learner} has {there} of {len(whose)} actors"]
        if long <= known:
            return []
        first = whose[absent]
        others = f" and {long - 1} more have" if long > 1 else " has"
        return [
            f"learner {learner} has {len(whose) - long} of {len(whose)} actors: actor {first} at "
            f"{self._addresses[first]}{others} not joined for {now - since[long - 1]:.0f} s; the "
            f"log of worker {learner} says more"
        ]

    def forget(self, learner: int) -> None:
        """A learner is gone, and reaches nobody; people hear of that."""
        self._since.pop(learner, None)
        self._said.pop(learner, None)
