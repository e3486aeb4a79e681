"""Each run of a sweep has the flags that it was checked with, whatever follows from what varies."""

import pathlib
from collections.abc import Callable

import pytest
from support.command_lines import parsed

from ps_dqn.flags import experiment
from ps_dqn.run import signals
from ps_dqn.sweep import __main__ as sweep
from ps_dqn.sweep.running import Sweep

PRESETS = pathlib.Path(sweep.__file__).parents[2] / "flags" / "presets"


@pytest.fixture
def told(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[str]]]:
    """The words of each setting's runs, without their seed and folder."""
    found: list[list[str]] = []

    def run(self: Sweep) -> None:
        while self._ask():
            pass
        for trial in self._waiting:
            trial.folder.parent.mkdir(parents=True)
            trial.flagfile.write_text(self._flagfiles[trial.point])
            found.append([word for word in trial.words() if not word.startswith("--run_dir")])

    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setattr(Sweep, "run", run)

    def words(*argv: str) -> list[list[str]]:
        found.clear()
        assert sweep.main(["sweep", f"--output={tmp_path}", "--seeds=1", *argv]) == 0
        return list(found)

    return words


@pytest.mark.parametrize(
    ("preset", "varied"),
    [
        ("lunarlander", ("value_distribution=none", "value_distribution=c51")),
        ("rainbow", ("env_id=CartPole-v1", "env_id=LunarLander-v3")),
        ("cartpole", ("learning_rate_schedule=linear", "learning_rate_schedule=constant")),
        ("rainbow,lunarlander", ("value_distribution=c51", "value_distribution=none")),
        ("", ("preset=dqn", "preset=rainbow")),
        ("", (f"flagfile={PRESETS / 'dqn.flags'}", f"flagfile={PRESETS / 'rainbow.flags'}")),
    ],
)
def test_what_runs_is_what_was_checked(
    told: Callable[..., list[list[str]]], preset: str, varied: tuple[str, ...]
) -> None:
    common = [f"--preset={preset}"] if preset else []
    name = varied[0].partition("=")[0]
    values = ",".join(each.partition("=")[2] for each in varied)
    all_words = told(*common, f"--vary={name}={values}")
    for words, point in zip(all_words, varied, strict=True):
        wanted = parsed(*common, f"--{point}")
        assert experiment.read(parsed(*words)) == experiment.read(wanted)


def test_what_was_interrupted_is_no_success(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has ended a run, and not the sweep: what follows a sweep is not to follow."""

    def run(self: Sweep) -> None:
        while self._ask():
            pass
        self.interrupted.extend(self._waiting)

    monkeypatch.setattr(Sweep, "run", run)
    words = [f"--output={tmp_path}", "--seeds=1", "--vary=gamma=0.9"]
    assert sweep.main(["sweep", *words]) == signals.START_AGAIN
