"""How workers choose actions while they collect."""

import dataclasses

from ps_dqn.config.options import CHANGING, SCHEDULES, env_steps, option

# Of epsilon's decay where nothing is said: half of the run, but no longer than this.
LONGEST_DECAY = 50_000


@dataclasses.dataclass(frozen=True)
class Exploration:
    """How workers choose actions while they collect."""

    epsilon_start: float = option(
        1.0, "Probability of a random action at the start.", low=0.0, high=1.0
    )
    epsilon_end: float = option(
        0.05,
        "Probability of a random action after epsilon_decay_steps.",
        low=0.0,
        high=1.0,
        needs={"epsilon_schedule": CHANGING},
    )
    epsilon_schedule: str = option(
        "linear", "How epsilon gets there; constant stays at the start.", choices=SCHEDULES
    )
    epsilon_decay_steps: int | str | None = option(
        None,
        "Length of epsilon's decay (environment steps, all workers; or a share of the run, like "
        f"10%). Default: half of the run, and at most {LONGEST_DECAY} environment steps.",
        low=1,
        needs={"epsilon_schedule": CHANGING},
    )
    epsilon_ladder: bool = option(
        False,
        "Environment i of a worker's E explores with epsilon^(1 + 7i/(E-1)), as Ape-X's actors do "
        "(Horgan et al. 2018); with topology=apex E are those of all actors.",
    )

    def decay(self, total: int) -> int:
        """Length of epsilon's decay (environment steps).

        Args:
            total: environment steps of the run.
        """
        if self.epsilon_decay_steps is None:
            return min(env_steps("50%", total), LONGEST_DECAY)
        return env_steps(self.epsilon_decay_steps, total)
