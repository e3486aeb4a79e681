"""What the loop leaves to whoever shows and saves it."""

import dataclasses
from typing import Any

from ps_dqn.coordinator.evaluating.greedy_play import Evaluation
from ps_dqn.state import Counters


@dataclasses.dataclass
class Result:
    """How a run ended."""

    reason: str  # "solved", "finished" or "stopped"
    errors: list[str]  # what went wrong, for people
    seconds: float  # of training, earlier sessions of a resumed run included
    counters: Counters
    evaluation: Evaluation | None  # the last one
    best_return: float
    workers: dict[int, dict[str, float]]  # `WorkerLedger.rows`, this session
    servers: list[dict[str, Any]]  # `ServerLedger.as_dict` of each, this session
    replay_servers: list[dict[str, Any]]  # `ReplayShard.ledger` of each
