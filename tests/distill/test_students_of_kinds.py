"""Students of all kinds of teachers: they learn to agree, and what they leave is a run."""

import io
import json
import pathlib
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from support import kinds_of_runs
from support.tiers import tiered

from ps_dqn import environments, networks
from ps_dqn.api.run import Run
from ps_dqn.config.distillation import Distillation
from ps_dqn.distill import distilling, learning, playing, student
from ps_dqn.distill.learning import Seen
from ps_dqn.distill.plan import Plan
from ps_dqn.distill.playing import Kept
from ps_dqn.errors import UsageError
from ps_dqn.evaluator.checkpoint_player import CheckpointPlayer
from ps_dqn.flags import command_line, experiment, run_folder
from ps_dqn.policy import loading
from ps_dqn.replay.budget import Limit
from ps_dqn.run.checkpoints import Checkpoints

SHORT = {"env_steps": 300, "num_envs": 4, "batch_size": 16}


class Made:
    """A teacher whose weights are random numbers, its student, and what was said."""

    def __init__(self, kind: str, path: pathlib.Path, said: dict[str, Any], **options: Any):
        self.teacher = kinds_of_runs.config(kind)
        run = kinds_of_runs.folder(self.teacher, path / "run")
        self.config = student.of(self.teacher, said, seed=3)
        values = run_folder.new_flags("learn from")
        command_line.parse(values, ["distill"])
        experiment.assign(values, self.config)
        self.checkpoint = Checkpoints(run / "checkpoints", keep=1).find("best")
        text = io.StringIO()
        self.output = path / "student"
        self.plan = Plan(
            *(run, self.teacher, self.checkpoint, self.config),
            *(Distillation(**{**SHORT, "seed": 3, **options}), 4, 11, self.output),
            *(run_folder.as_flagfile(values), Console(file=text, width=100)),
        )
        self.checks = 0
        distilling.distill(self.plan, self._check)
        self.lines = text.getvalue().splitlines()
        self.summary = json.loads((self.output / "summary.json").read_text())

    def _check(self) -> None:
        self.checks += 1


@pytest.fixture(autouse=True)
def few_observations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distilling, "HELD_OUT", 200)


@pytest.mark.parametrize(
    "kind",
    tiered(
        (kind for kind in kinds_of_runs.KINDS if kind not in ("recurrent", "plain")),
        quick=("masks",),
        slow=("branching_grid", "iqn", "of_a_user"),
    ),
)
def test_what_it_leaves_is_a_run_like_any(kind: str, tmp_path: pathlib.Path) -> None:
    said = {"network": "mlp"} if kind == "of_a_user" else {}
    made = Made(kind, tmp_path, {"hidden_sizes": (5,), **said})
    # As those who know nothing of distillation read it.
    config, checkpoint = run_folder.read(made.output)
    assert config == made.config
    policy = loading.of_checkpoint(config, made.output, checkpoint)
    space = policy.interface.own
    space.observation.seed(1)
    player = policy.player()
    assert space.action.contains(player.act(space.observation.sample()))
    played = CheckpointPlayer(config, 4, 11, None).play(checkpoint).returns
    assert played.mean() == pytest.approx(made.summary["eval_return"])
    assert checkpoint.eval_return == pytest.approx(played.mean())
    assert (made.output / "best.keras").exists()
    run = Run(made.output)
    assert run.outcome == "finished"
    assert run.metrics[-1].eval_return == pytest.approx(played.mean(), rel=1e-4)


def test_it_learns_to_act_as_its_teacher_does(tmp_path: pathlib.Path) -> None:
    options = {"env_steps": 4000, "num_envs": 16, "learning_rate": 5e-3}
    made = Made("plain", tmp_path, {"hidden_sizes": (48,)}, **options)
    found = made.summary["distilled"]
    assert found["student"]["same_actions"] > 0.9
    assert found["teacher"]["same_actions"] == 1.0
    assert found["student"]["parameters"] == 4 * 48 + 3 * 48 + 48 * 3 + 3
    assert made.summary["env_steps"] >= 4000
    assert made.summary["updates"] >= 4000 // 2  # and while environments are being reset
    assert made.checks >= 4000 // 16
    assert made.lines[0].startswith("support.kinds_of_runs:Shown: best.npz of 4,321 env steps")
    agreed = f"{found['student']['same_actions']:.1%}"
    [row] = [line.split() for line in made.lines if line.startswith("student ")]
    assert row[:5] == ["student", "mlp", "48", "483", "1,932"]
    assert agreed in row
    assert made.lines[-1] == f"the student is a run of its own, {made.output}"
    said = (made.output / "environment.txt").read_text()
    assert "command: " in said


def test_it_sees_what_its_teacher_sees() -> None:
    made = []
    config = kinds_of_runs.config("normalized")
    spec = environments.describe(config.environment)
    for each in (config, student.of(config, {"hidden_sizes": (5,)}, seed=3)):
        made.append(networks.build(each.network, each.value, spec, each.run.seed))
    teacher, own = made
    parameters = np.arange(teacher.num_parameters, dtype=np.float32) + 1
    learned = learning.begin(own, teacher, parameters)
    # The mean and the scale of two quantities, which no gradient changes.
    assert learned.parameters.numpy()[:4].tolist() == [1, 2, 3, 4]
    assert (learned.parameters.numpy()[4:] == own.initial[4:]).all()


def test_the_newest_observations_are_kept() -> None:
    kept = Kept(capacity=5, seed=1)
    for first in range(0, 9, 3):
        rows = np.arange(first, first + 3, dtype=np.float32)
        kept.add(Seen(rows[:, None], rows[:, None] * 2, np.ones((3, 0), np.bool_)))
    assert len(kept) == 5
    drawn = kept.draw((40, 2))
    assert drawn.rows.shape == (40, 2, 1)
    assert set(drawn.rows.numpy().flat) == {4, 5, 6, 7, 8}
    assert (drawn.q_values.numpy() == 2 * drawn.rows.numpy()).all()


def test_more_than_there_is_memory_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playing.budget, "available", lambda: Limit(1000, "of the machine"))
    seen = Seen(np.zeros((2, 9), np.float32), np.zeros((2, 3), np.float32), np.ones((2, 0), bool))
    Kept(capacity=20, seed=0).add(seen)
    with pytest.raises(UsageError, match=r"--capacity=21: .* take 1008 bytes, .* 1000 bytes"):
        Kept(capacity=21, seed=0).add(seen)
