"""Networks most of whose weights are zero, and stay so: which of them, and when that changes."""

import dataclasses
import math

from ps_dqn.config.agent import Network
from ps_dqn.config.options import env_steps, option
from ps_dqn.config.resets import Resets
from ps_dqn.config.run import ParameterServer
from ps_dqn.errors import UsageError

_NEEDED = {"pruning": ()}


@dataclasses.dataclass(frozen=True)
class Pruning:
    """Networks most of whose weights are zero, and stay so."""

    pruning: str = option(
        "none",
        "Which weights of layers are zero: magnitude removes the smallest ones step by step (Zhu "
        "and Gupta 2017); rigl begins with few, and now and then lets the smallest ones go and "
        "others in whose gradients are largest (RigL, Evci et al. 2020).",
        choices=("none", "magnitude", "rigl"),
    )
    sparsity: float = option(
        0.9,
        "Share of all layers' weights that is zero, in the end or with rigl all the time; biases "
        "and normalisations are not among them.",
        low=0.01,
        high=0.999,
        needs=_NEEDED,
    )
    sparsity_distribution: str = option(
        "erk",
        "How layers share it: erk leaves more of narrow layers (Erdos-Renyi-Kernel, Evci et al. "
        "2020); uniform the same share of each.",
        choices=("erk", "uniform"),
        needs=_NEEDED,
    )
    pruning_start: int | str = option(  # `Steps`
        "10%",
        "From where on the mask changes (environment steps, or a share of the run).",
        low=0,
        needs=_NEEDED,
    )
    pruning_end: int | str = option(  # `Steps`
        "60%",
        "Where it changes for the last time; with magnitude, evaluations before it neither end the "
        "run nor are its best (environment steps, or a share of the run).",
        low=1,
        needs=_NEEDED,
    )
    pruning_changes: int = option(
        30, "How often it changes, at equal distances (changes).", low=1, needs=_NEEDED
    )
    rigl_fraction: float = option(
        0.3,
        "Share of a layer's weights that the first change exchanges; those after it less and less, "
        "along a cosine.",
        low=0.001,
        high=0.999,
        needs={"pruning": ("rigl",)},
    )

    @property
    def is_on(self) -> bool:
        """Whether there is a mask."""
        return self.pruning != "none"

    @property
    def grows(self) -> bool:
        """Whether weights come back, so that gradients of those that are not there are wanted."""
        return self.pruning == "rigl"

    def bounds(self, total: int) -> tuple[int, int]:
        """Where changes begin and where the last one is (environment steps).

        Args:
            total: environment steps of the run.
        """
        return env_steps(self.pruning_start, total), env_steps(self.pruning_end, total)

    def number(self, made: int, total: int) -> int:
        """How many changes are due when so many environment steps were made.

        Args:
            made: environment steps.
            total: of the run.
        """
        start, end = self.bounds(total)
        if not self.is_on or made <= start:
            return 0
        return min((made - start) * self.pruning_changes // (end - start), self.pruning_changes)

    def share(self, number: int) -> float:
        """Which share of its final sparsity a layer has after so many changes.

        Zhu and Gupta 2017, arXiv:1710.01878, equation 1, from no sparsity.
        """
        return 1.0 - (1.0 - number / self.pruning_changes) ** 3

    def fraction(self, number: int) -> float:
        """Which share of its weights a layer exchanges in this change, from 1.

        Evci et al. 2020, arXiv:1911.11134, section 3.
        """
        angle = math.pi * (number - 1) / self.pruning_changes
        return 0.5 * self.rigl_fraction * (1.0 + math.cos(angle))

    def judged_from(self, total: int) -> int:
        """From where on evaluations are of a network that is as sparse as it is to be.

        Args:
            total: environment steps of the run.
        """
        return self.bounds(total)[1] if self.pruning == "magnitude" else 0

    def check_beside(
        self, network: Network, options: ParameterServer, resets: Resets, total: int
    ) -> None:
        """Refuses what does not go with a mask, and schedules without room for their changes.

        Args:
            network: which has the weights.
            options: of pushes.
            resets: of the parameters.
            total: environment steps of the run.

        Raises:
            UsageError: with the flags, their values and what to do.
        """
        if not self.is_on:
            return
        start, end = self.bounds(total)
        if end - start < self.pruning_changes or end > total:
            raise UsageError(
                f"--pruning_end={self.pruning_end}: must leave room for "
                f"--pruning_changes={self.pruning_changes} after "
                f"--pruning_start={self.pruning_start}, and be in the run of "
                f"--total_env_steps={total}; change one of them"
            )
        refused = {
            f"--strategy={options.strategy}": (
                not options.has_servers,
                "the parameter servers keep the mask",
            ),
            f"--reset_period={resets.reset_period}": (
                resets.reset_period > 0,
                "a reset would draw weights that the mask has removed",
            ),
            "--noisy=true": (
                network.noisy,
                "the deviations of its noise would keep removed weights alive",
            ),
            f"--push_top_k={options.push_top_k:g}": (
                self.grows and options.push_top_k < 1,
                "where to grow is known by all gradients",
            ),
        }
        for flag, (is_there, why) in refused.items():
            if is_there:
                raise UsageError(
                    f"--pruning={self.pruning}: does not go with {flag}: {why}; leave one of them "
                    f"out"
                )
