"""Who acts with nobody to count failures is told where nothing can come of it."""

import contextlib
import json
import pathlib
from typing import Any

import numpy as np
import pytest

from ps_dqn.config import Config, Environment
from ps_dqn.environments import Environments
from ps_dqn.errors import UsageError
from ps_dqn.evaluator.checkpoint_player import Score
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Evaluation


def environments(most: int, vectorization: str = "auto", **kwargs: Any) -> Environments:
    config = Environment(
        env_id="Misbehaving-v0",
        env_module="support.misbehaving_env",
        env_kwargs=json.dumps({"how": "raises", **kwargs}),
        vectorization=vectorization,
        env_timeout=3.0,
    )
    envs = Environments(config, 3, most_failures=most)
    envs.reset(0)
    return envs


def step(envs: Environments, times: int) -> None:
    for _ in range(times):
        envs.step(np.zeros(3, np.int64))


def play(evaluation: Evaluation) -> None:
    acted = Acted(np.zeros(4, np.int32), np.zeros((4, 0), np.float32))
    while evaluation.step(acted).episodes:
        pass


def test_too_many_failures_end_it() -> None:
    envs = environments(5, at=7)
    with pytest.raises(
        UsageError,
        match=r"--env_id=Misbehaving-v0: its environments failed 6 times \(raised 6\) in 45 steps, "
        "more often than --max_env_failures=5 in 1,000 allows; the log has the first errors",
    ):
        step(envs, 100)
    envs.close()


@pytest.mark.parametrize(("how", "kind"), [("hangs", "hung"), ("exits", "vanished")])
def test_processes_that_are_lost_are_not_waited_for(how: str, kind: str) -> None:
    with contextlib.closing(environments(0, "async", how=how, at=1)) as envs:
        with pytest.raises(UsageError, match=rf"failed 1 times \({kind} 1\)"):
            step(envs, 1)
        processes = envs._env.processes
    assert not any(process.is_alive() for process in processes)


def test_more_steps_may_have_more() -> None:
    envs = environments(400, at=7)
    step(envs, 2000)  # 3 of 24 fail
    assert envs.failures["raised"] == 3 * 250
    envs.close()


def test_evaluations_by_hand_end() -> None:
    values = {"env_id": "Misbehaving-v0", "env_module": "support.misbehaving_env"}
    values |= {"env_kwargs": '{"how": "raises", "at": 1, "goes_on": true}', "max_env_failures": 30}
    evaluation = Evaluation(Config.from_values(values), 4, is_alone=True)
    evaluation.begin(0)
    with pytest.raises(UsageError, match="its environments failed 31 times"):
        play(evaluation)
    evaluation.environments.close()


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        (0, "from 0.0 to 100.0"),
        (1, "from 0.0 to 100.0; the environment failed once, and those episodes were played again"),
        (2000, "the environment failed 2,000 times, and those episodes were played again"),
    ],
)
def test_a_score_says_its_median_and_what_failed(failures: int, said: str) -> None:
    class Found:
        path = pathlib.Path("best.npz")

        class state:  # noqa: N801
            class counters:  # noqa: N801
                env_steps = 7

    score = Score(Found(), np.repeat([0.0, 100.0], 50), failures)  # type: ignore[arg-type]
    assert "mean return 50.0, median 50.0, from" in score.describe()
    assert score.describe().endswith(said)
