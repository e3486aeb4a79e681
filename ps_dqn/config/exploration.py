"""How workers choose actions while they collect."""

import dataclasses

from ps_dqn.config.options import CHANGING, SCHEDULES, option


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
    epsilon_decay_steps: int = option(
        20_000,
        "Length of epsilon's decay (environment steps, all workers).",
        low=1,
        needs={"epsilon_schedule": CHANGING},
    )
    epsilon_ladder: bool = option(
        False,
        "Worker i of N explores with epsilon^(1 + 7i/(N-1)), as in Ape-X (Horgan et al. 2018).",
    )
