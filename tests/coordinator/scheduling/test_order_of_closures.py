"""What is scheduled after what does not depend on how soon the coordinator looks."""

import itertools
import math
import pathlib
from collections.abc import Sequence
from typing import Any

from support.scripted_run import LateRun, ScriptedRun, training

from ps_dqn.config import Config


def submitted(kind_of_run: type[ScriptedRun], folder: pathlib.Path) -> list[str]:
    """The kinds of all closures of a run, in their order."""
    kinds: list[str] = []

    class Noted(kind_of_run):  # type: ignore[misc, valid-type]
        def submit(
            self, kind: str, function: object, args: Sequence[Any] = (), **_: object
        ) -> None:
            kinds.append(kind)
            super().submit(kind, function, args)

    values = {"eval_period": 300, "total_env_steps": 3000, "eval_episodes": 2}
    config = Config.from_values(values | {"confirm_episodes": 0})
    training(config, math.inf, Noted(itertools.repeat([1.0, 1.0])), folder).run()
    return kinds


def test_a_late_coordinator_schedules_in_the_same_order(tmp_path: pathlib.Path) -> None:
    kinds = submitted(ScriptedRun, tmp_path)
    assert kinds.count("evaluation") >= 5
    assert submitted(LateRun, tmp_path) == kinds
