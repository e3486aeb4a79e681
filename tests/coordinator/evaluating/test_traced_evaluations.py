"""When evaluations are traced: nobody waits for that, least of all the first closure."""

import pathlib
from typing import Any

from support.scripted_run import ScriptedRun, training

from ps_dqn.config import Config
from ps_dqn.coordinator.scheduling.dispatch import Outcome

CONFIG = {"eval_period": 300, "total_env_steps": 600, "eval_episodes": 2, "confirm_episodes": 4}


class Told(ScriptedRun):
    """A run that tells in which order closures are traced, scheduled and heard of."""

    def __init__(self, evaluations: list[list[float]]):
        super().__init__(evaluations)
        self.told: list[str] = []

    def evaluate(self, episodes: int, freeze: bool) -> bool:
        self.told.append(f"evaluate {episodes}")
        return super().evaluate(episodes, freeze)

    def submit(self, kind: str, *others: Any, **more: Any) -> None:
        self.told.append(f"submit {kind}")
        super().submit(kind, *others, **more)

    def next(self, timeout: float) -> Outcome | None:
        outcome = super().next(timeout)
        if outcome is not None:
            self.told.append(f"hear {outcome.kind}")
        return outcome


def test_they_are_traced_while_workers_learn(tmp_path: pathlib.Path) -> None:
    run = Told([[1.0, 1.0], [2.0, 2.0, 2.0, 2.0]] * 3)
    training(Config.from_values(CONFIG), 10.0, run, tmp_path).run()
    first = run.told.index("evaluate 2")
    before = run.told[:first]
    # The first closure has ended, and another one is on its way.
    assert before.count("hear train") == 1
    assert before.count("submit train") > 1
    # Both kinds, long before either is played.
    assert run.told[first : first + 2] == ["evaluate 2", "evaluate 4"]
    assert "hear train" in run.told[first : run.told.index("submit evaluation")]


def test_each_is_traced_ahead_once(tmp_path: pathlib.Path) -> None:
    config = CONFIG | {"eval_period": 10**6, "total_env_steps": 2_000}
    run = Told([[1.0, 1.0], [1.0] * 4])
    training(Config.from_values(config), 10.0, run, tmp_path).run()
    # And once more each as they are played, of what is traced by then.
    played = run.told[run.told.index("submit evaluation") - 1 :]
    ahead = run.told[: -len(played)]
    assert ahead.count("evaluate 2") == ahead.count("evaluate 4") == 1
