"""Parameters that are begun anew now and then, and returns that change their length after that."""

import dataclasses
import math

from ps_dqn.config.agent import Network
from ps_dqn.config.learning import Learning
from ps_dqn.config.options import option
from ps_dqn.config.replay import KEPT, Replay
from ps_dqn.errors import UsageError

ANNEAL_UPDATES = 10_000  # BBF's


@dataclasses.dataclass(frozen=True)
class Resets:
    """Parameters that are begun anew now and then, and how far returns reach after that."""

    reset_period: int = option(
        0,
        "From one reset to the next: the head's layers begin anew, those before it are shrunk "
        "towards fresh ones, and all optimizers begin anew (SR-SPR, D'Oro et al. 2023; BBF, "
        "Schwarzer et al. 2023); 0: never (sequential updates).",
        low=0,
    )
    reset_shrink: float = option(
        0.5,
        "Share of themselves that the layers before the head keep in a reset; the rest is fresh.",
        low=0.0,
        high=1.0,
        needs={"reset_period": ()},
    )
    n_step_start: int = option(
        0,
        "Length of the bootstrapped return at the start of the run and after each reset, from "
        "where it goes to n_step exponentially (BBF: 10 to 3); 0: it is always n_step "
        "(environment steps).",
        low=0,
        needs={"replay": KEPT},
    )
    gamma_start: float = option(
        0.0,
        "Discount at the start of the run and after each reset, from where it goes to gamma, its "
        "distance to 1 exponentially (BBF: 0.97 to 0.997); 0: it is always gamma.",
        low=0.0,
        high=1.0,
        needs={"replay": KEPT},
    )
    anneal_updates: int = option(
        ANNEAL_UPDATES,
        "Length of the ways from n_step_start and gamma_start (sequential updates).",
        low=1,
    )

    @property
    def anneal(self) -> bool:
        """Whether returns change while the run goes on."""
        return self.n_step_start > 0 or self.gamma_start > 0

    def number(self, sequential_updates: int) -> int:
        """How many resets there were when so many updates were made."""
        return sequential_updates // self.reset_period if self.reset_period else 0

    def since(self, sequential_updates: int) -> int:
        """Sequential updates since the last reset, or since the start."""
        return sequential_updates - self.number(sequential_updates) * self.reset_period

    def check_beside(self, network: Network, learning: Learning, replay: Replay) -> None:
        """Refuses networks that cannot be begun anew, and ways that lead nowhere.

        Raises:
            UsageError: with the flags, their values and what to do.
        """
        if self.reset_period:
            self._check_network(network)
        if self.n_step_start and self.n_step_start == learning.n_step:
            raise UsageError(
                f"--n_step_start={self.n_step_start}: is --n_step, so nothing would change; leave "
                f"it out"
            )
        if self.n_step_start and replay.traces != "none":
            raise UsageError(
                f"--n_step_start={self.n_step_start}: --traces={replay.traces} is for one-step "
                f"returns; leave one of them out"
            )
        if self.gamma_start and self.gamma_start >= learning.gamma:
            raise UsageError(
                f"--gamma_start={self.gamma_start:g}: must be less than --gamma={learning.gamma:g}"
            )
        if self.gamma_start and learning.gamma == 1:
            raise UsageError(
                "--gamma=1: with --gamma_start, less than 1: its distance to 1 shrinks by the same "
                "factor at every update, and never is 0"
            )
        if self.anneal_updates != ANNEAL_UPDATES and not self.anneal:
            raise UsageError(
                f"--anneal_updates={self.anneal_updates}: has no effect without --n_step_start or "
                f"--gamma_start; leave it out (its default is {ANNEAL_UPDATES})"
            )

    def check_pace(self, at_once: float, local_updates: int) -> None:
        """Refuses resets that come more often than updates.

        Args:
            at_once: sequential updates that the parameters make at once.
            local_updates: of a push.

        Raises:
            UsageError: with the flags, their values and what to do.
        """
        if 0 < self.reset_period < at_once:
            raise UsageError(
                f"--reset_period={self.reset_period}: {at_once:g} sequential updates arrive at "
                f"once (--local_updates={local_updates}), and nothing would be learned between "
                f"two resets; say many times {math.ceil(at_once)}"
            )

    def _check_network(self, network: Network) -> None:
        if ":" in network.network:
            raise UsageError(
                f"--reset_period={self.reset_period}: nobody says which layers of "
                f"--network={network.network} are its head, and how they begin; leave it out"
            )
        if network.recurrent_size:
            raise UsageError(
                f"--reset_period={self.reset_period}: an LSTM's weights do not begin independent "
                f"of each other, and so cannot be drawn anew by the parameter servers; leave it "
                f"out, or --recurrent_size={network.recurrent_size}"
            )
