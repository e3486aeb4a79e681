"""How fast programs learn with the same network, minibatch and ratio of steps to updates.

No score counts here: rates are those of a fixed time, which begins some seconds after the first
update, when all is compiled.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from protocol import PONG, Act, Protocol

WARM_UP = 5.0  # seconds from the first update
_PERIOD = 64  # environment steps from one look at the clock to the next


class Same(NamedTuple):
    """What is the same for all."""

    hidden: tuple[int, ...]  # after DQN's convolutions where observations are frames
    batch_size: int
    update_period: int  # environment steps for each update
    capacity: int  # transitions
    learning_starts: int = 1000  # transitions
    learning_rate: float = 2.5e-4


SAME = {
    "CartPole-v1": Same((256, 256), 64, 4, 50_000),
    PONG: Same((512,), 32, 4, 20_000),
}


class Rates:
    """Looks at the clock; a program asks it as it asks `Protocol`.

    Args:
        options: of `arguments`.
        clock: seconds.
    """

    def __init__(
        self, options: argparse.Namespace, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._options, self._clock = options, clock
        self._next = 0
        self._first: float | None = None  # when there were updates first
        self._begun: tuple[float, int, int] | None = None
        self._ended: tuple[float, int, int] | None = None

    def due(self, env_steps: int) -> bool:
        """Whether it is time to look at the clock."""
        if env_steps < self._next:
            return False
        self._next = env_steps + _PERIOD
        return True

    def evaluate(self, env_steps: int, updates: int, act: Act, keep: Callable[[], Any]) -> bool:
        """Looks at the clock; true where the run is to end."""
        now = self._clock()
        if updates and self._first is None:
            self._first = now
        if self._first is None or now - self._first < WARM_UP:
            return False
        here = (now, env_steps, updates)
        if self._begun is None:
            self._begun = here
        self._ended = here
        return now - self._begun[0] >= self._options.rate_seconds

    def end(self, load: Callable[[Any], Act], bytes_per_transition: float | None = None) -> None:
        """Says the rates, and what replay takes for a transition."""
        if self._begun is None or self._ended is None or self._ended[0] <= self._begun[0]:
            raise SystemExit("the run ended before its rates were measured")
        seconds, env_steps, updates = (
            end - begun for begun, end in zip(self._begun, self._ended, strict=True)
        )
        said = {
            "env_steps_per_second": env_steps / seconds,
            "updates_per_second": updates / seconds,
            "bytes_per_transition": bytes_per_transition,
            "measured_seconds": seconds,
        }
        print(json.dumps(said), flush=True)


def judge(options: argparse.Namespace, compile_seconds: float = 0.0) -> Protocol | Rates:
    """What a run is asked for: scores, or rates."""
    return Rates(options) if options.rate_seconds else Protocol(options, compile_seconds)
