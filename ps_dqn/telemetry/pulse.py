"""What a task is at, between its reports too; see `cluster.pulse` for how it travels.

It is for people to see, and says whether a closure goes on. What counts, in metrics.csv and in the
summary, are reports alone: each of them is counted once, whatever becomes of its worker.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ps_dqn.telemetry import memory


class Pulse(NamedTuple):
    """What a task is at; NaN is not known. A worker's numbers are since it joined the run."""

    session: int = 0  # of the run
    phase: str = ""  # one of `metrics.PHASES`
    phase_seconds: float = 0.0  # in it by now
    env_steps: float = math.nan  # environment steps made
    pending: float = 0.0  # of these, what the parameter servers have not heard of
    updates: float = math.nan  # made, applied or not
    evaluation_steps: float = math.nan  # made in the evaluation that it plays, or played last
    staleness: float = math.nan  # versions, of the last push
    replay_rows: float = math.nan
    replay_goal: float = math.nan  # rows without which nothing is learned
    run_env_steps: float = 0.0  # of the run, after the task's last push
    run_updates: float = 0.0
    version: float = math.nan  # of a parameter server
    pushes: float = math.nan  # that came to it
    adds: float = math.nan  # transitions that came to a replay server
    samples: float = math.nan  # that were drawn from it
    memory: float = math.nan  # bytes; see `memory.used`


# What a worker makes more of while its closure goes on.
_WORK = ("env_steps", "updates", "evaluation_steps")


def encode(pulse: Pulse | None) -> dict[str, Any]:
    """What is known, and the memory of this process."""
    known = (pulse or Pulse())._replace(memory=memory.used())._asdict()
    return {name: value for name, value in known.items() if value == value}


def decode(content: Mapping[str, Any] | None) -> Pulse:
    """The pulse in an answer; a task of another version may say more."""
    known = {name: value for name, value in (content or {}).items() if name in Pulse._fields}
    return Pulse(**known)


def work(content: Mapping[str, Any] | None) -> tuple[Any, ...]:
    """How much a worker has made; whatever differs, it has made something meanwhile."""
    return tuple(map((content or {}).get, _WORK))
