"""What is scheduled after what does not depend on how soon the coordinator looks."""

import itertools
import math
import pathlib
from collections.abc import Sequence
from typing import Any

from support.scripted_run import ScriptedRun, training

from ps_dqn.config import Config
from ps_dqn.coordinator.scheduling.dispatch import Outcome


class Noted(ScriptedRun):
    """Notes what is submitted; closures end one by one."""

    def __init__(self) -> None:
        super().__init__(itertools.repeat([1.0, 1.0]))
        self.submitted: list[str] = []

    def submit(self, kind: str, function: object, args: Sequence[Any] = (), **_: object) -> None:
        self.submitted.append(kind)
        super().submit(kind, function, args)


class Busy(Noted):
    """All that are on their way have ended when a busy coordinator looks."""

    _ended = 0

    def next(self, timeout: float) -> Outcome | None:
        if timeout:
            self._ended = len(self._waiting)
        self._ended -= 1
        return self._waiting.popleft() if self._ended >= 0 else None


def test_a_busy_coordinator_schedules_in_the_same_order(tmp_path: pathlib.Path) -> None:
    found = []
    for scripted in (Noted(), Busy()):
        values = {"eval_period": 300, "total_env_steps": 3000, "eval_episodes": 2}
        config = Config.from_values(values | {"confirm_episodes": 0})
        training(config, math.inf, scripted, tmp_path).run()
        found.append(scripted.submitted)
    assert found[0].count("evaluation") >= 5
    assert found[0] == found[1]
