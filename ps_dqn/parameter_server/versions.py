"""Versions of the parameters: what one does beside the step of its pushes."""

from typing import TYPE_CHECKING

from ps_dqn.config import Config
from ps_dqn.parameter_server.aggregation import Combined
from ps_dqn.parameter_server.clock import Clock
from ps_dqn.parameter_server.pruning import Pruning
from ps_dqn.parameter_server.resets import Resets
from ps_dqn.parameter_server.target import TargetRule
from ps_dqn.wire.messages import PushHeader

if TYPE_CHECKING:
    from ps_dqn.parameter_server.vectors import Vectors


class Versions:
    """Makes the versions of a shard's parameters, and of the target after them.

    Attributes:
        target_version: another number for each target.
    """

    def __init__(
        self, config: Config, parameters: "Vectors", resets: Resets | None, pruning: Pruning
    ):
        """Makes none yet.

        Args:
            config: the experiment.
            parameters: that have versions.
            resets: what is begun anew; None: nothing.
            pruning: what is zero for good.
        """
        self._parameters, self._target_rule = parameters, TargetRule(config)
        self._resets, self._pruning = resets or Resets(config), pruning
        self.target_version = 0

    def are_past(self, header: PushHeader, clock: Clock) -> bool:
        """Whether a push is about parameters that are not there any more."""
        is_pruned = header.mask != self._pruning.mask.number
        return is_pruned or header.base_version < clock.begun_at

    def make(self, combined: Combined, clock: Clock) -> None:
        """Changes parameters and target; counters move for all pushes of the version at once."""
        before = clock.counters.sequential_updates
        clock.count(combined.entries, combined.sequential_updates)
        after = clock.counters.sequential_updates
        copies = self._target_rule.is_due(before, after)
        resets = self._resets.are_due(before, after)
        vector, growth = self._pruning.divided(combined.vector)
        self._parameters.step(combined._replace(vector=vector), clock.steps, copies)
        if resets:
            self._parameters.begin_anew(self._resets.renewing(after))
            clock.begin_anew()
        prunes = self._pruning.changes_with(combined.entries, clock.counters)
        if prunes:
            self._pruning.change(self._parameters.online(), growth, clock.counters)
            self._parameters.keep(self._pruning.mask.kept)
        self.target_version += copies or resets or prunes or self._target_rule.is_soft
