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
    epsilon_decay_steps: int | str = option(
        20_000,
        "Length of epsilon's decay (environment steps, all workers; or a share of the run, like "
        "10%).",
        low=1,
        needs={"epsilon_schedule": CHANGING},
    )
    epsilon_ladder: bool = option(
        False,
        "Environment i of a worker's E explores with epsilon^(1 + 7i/(E-1)), as Ape-X's actors do "
        "(Horgan et al. 2018).",
    )
