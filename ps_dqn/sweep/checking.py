"""Whether a run of a sweep can begin, and by which flags it does."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

from ps_dqn import config as configuration
from ps_dqn.cluster.spec import ClusterSpecError, Placement
from ps_dqn.config import Config, checks
from ps_dqn.config.options import Steps
from ps_dqn.errors import UsageError
from ps_dqn.sweep import space as spaces
from ps_dqn.sweep.looks import Looks
from ps_dqn.sweep.space import Point


class Settings(NamedTuple):
    """What a point's runs are, whatever their seed."""

    config: Config
    placement: Placement
    flagfile: str  # all of their flags: some follow from others, as from what presets say of these

    @property
    def workers(self) -> int:
        """How many each has."""
        return len(self.placement.spec.workers)


class Checking:
    """Looks at each point as the command line would if its words were said there."""

    def __init__(self, read: Callable[[Point], Settings]):
        """Has looked at none yet.

        Args:
            read: a command line that has a point's words, too; raises UsageError or
                ClusterSpecError where it cannot be read.
        """
        self._read, self._looks = read, Looks()

    def settings(self, point: Point) -> Settings:
        """Of a run that can begin.

        Raises:
            UsageError: it cannot; with the point and what is wrong.
        """
        try:
            found = self._read(point)
            if found.placement.kind == "remote":
                raise UsageError("--cluster=remote: runs of a sweep are on this machine")
            checks.check_workers(found.config, found.workers, is_remote=False)
            self._looks.check(found.config.shared_by(found.workers), found.workers)
        except (ClusterSpecError, UsageError) as error:
            where = f"{spaces.label(point)}: " if point else ""
            raise UsageError(f"{where}{error}") from None
        return found

    def flagfile(self, point: Point) -> str:
        """The flags of a run that can begin; raises what `settings` does."""
        return self.settings(point).flagfile


def whole() -> frozenset[str]:
    """Flags whose values are whole numbers."""
    found = {
        field.name
        for group in configuration.groups()
        for field in dataclasses.fields(group.type)
        if configuration.option_type(group, field) in (int, Steps)
    }
    return frozenset(found | {"num_workers", "num_ps", "intra_op_threads", "inter_op_threads"})
