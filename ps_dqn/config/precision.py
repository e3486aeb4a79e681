"""In which numbers a network computes, and what keeps small ones from vanishing."""

import dataclasses

from ps_dqn.config.agent import Network
from ps_dqn.config.options import option
from ps_dqn.config.topology import Topology
from ps_dqn.errors import UsageError

# Floating-point types by `--precision`; parameters are float32 whatever it is.
PRECISIONS = ("float32", "bfloat16", "float16")
_SCALED = {"precision": ("float16",)}
LARGEST_SCALE = 2**24


@dataclasses.dataclass(frozen=True)
class Precision:
    """In which numbers workers compute; parameters, targets, losses and steps are float32."""

    precision: str = option(
        "float32",
        "Numbers of the network's products and activations on workers; parameters, gradients as "
        "pushed, targets, losses and optimizers stay float32 (Micikevicius et al. 2018).",
        choices=PRECISIONS,
    )
    initial_loss_scale: int = option(
        2**15,
        "What the loss is multiplied by at first, and its gradient divided by, so that small "
        "gradients are numbers in float16; a power of two. An overflow skips the update and "
        "halves it.",
        low=1,
        high=LARGEST_SCALE,
        needs=_SCALED,
    )
    loss_scale_growth_period: int = option(
        2000,
        "The loss scale doubles after so many updates in a row without an overflow (updates).",
        low=1,
        needs=_SCALED,
    )

    acting_precision: str = option(
        "same",
        "Numbers of the products with which workers act while they learn; int8: weights and what "
        "they are multiplied by are rounded to 8 bits (ActorQ, Krishnan et al. 2019). same: those "
        "of precision.",
        choices=("same", "int8"),
    )

    @property
    def is_full(self) -> bool:
        """Whether they are the numbers of what a run leaves."""
        return self.precision == "float32"

    @property
    def scales_loss(self) -> bool:
        """Whether gradients could vanish or overflow without a loss scale."""
        return self.precision == "float16"

    def check_beside(self, network: Network, topology: Topology) -> None:
        """Refuses a scale that would round what it scales, and what cannot act in 8 bits.

        Raises:
            UsageError: with the flag, its value and what to do.
        """
        scale = self.initial_loss_scale
        if scale & (scale - 1):
            near = 2 ** (scale.bit_length() - 1)
            raise UsageError(
                f"--initial_loss_scale={scale}: must be a power of two, which rounds nothing; say "
                f"{near} or {2 * near}"
            )
        if self.acting_precision == "int8":
            self._check_int8(network, topology)

    def _check_int8(self, network: Network, topology: Topology) -> None:
        reasons = {
            f"--precision={self.precision}": (
                not self.is_full,
                "who acts in 8 bits learns in float32",
            ),
            "--noisy=true": (
                network.noisy,
                "its weights are others at every step, and would be rounded at every step",
            ),
            "--spectral_norm=true": (
                network.spectral_norm,
                "its kernels are divided by their singular values before anything is rounded",
            ),
            f"--topology={topology.topology}": (
                topology.is_shared,
                "its actors give priorities by the values of all actions, in all their digits",
            ),
            f"--network={network.network}": (
                ":" in network.network,
                "nobody says which of its layers could be rounded",
            ),
        }
        for flag, (is_there, why) in reasons.items():
            if is_there:
                raise UsageError(
                    f"--acting_precision=int8: does not go with {flag}: {why}; leave one of them "
                    f"out"
                )
