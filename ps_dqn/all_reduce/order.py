"""Whose state the members of a group begin with, and who of them has to be given it.

`Standing` is what a worker says of itself: see `Exchange.standing`.
"""

from collections.abc import Collection, Mapping
from typing import Any

Standing = Mapping[str, Any]


def furthest(standings: Mapping[int, Standing], last: Collection[int] = ()) -> int:
    """The worker that is furthest along the log.

    The version does not say it: a round whose pushes are all withheld counts their steps and makes
    none.

    Args:
        standings: of those who hold something, one at least.
        last: members of the last group, who come first among equals.
    """
    return max(standings, key=lambda each: (standings[each]["reached"], each in last))


def behind(standings: Mapping[int, Standing], source: int, last: Collection[int]) -> list[int]:
    """Those who have to take over the state of another one.

    Who was not in the last group may have come as far by other rounds.

    Args:
        standings: of the members that are to be.
        source: the furthest of them.
        last: members of the last group.
    """
    whole = standings[source]["session"], standings[source]["reached"]
    return [
        worker
        for worker, each in standings.items()
        if worker != source
        and (worker not in last or (each["session"], each.get("reached")) != whole)
    ]
