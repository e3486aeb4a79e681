"""A run that goes on with other flags is followed with those."""

import pathlib
from collections.abc import Callable

import pytest
from support import kinds_of_runs
from support.command_lines import only_error
from support.programs import run_python

from ps_dqn import watch
from ps_dqn.evaluator import __main__ as evaluator
from ps_dqn.run import directory


@pytest.mark.slow
def test_a_run_that_goes_on_with_other_flags_is_played_with_them(tmp_path: pathlib.Path) -> None:
    config = kinds_of_runs.config("plain")
    folder = kinds_of_runs.folder(config, tmp_path / "run")
    env_id, sizes = config.environment.env_id, ",".join(map(str, config.network.hidden_sizes))
    flags = f"--env_id={env_id}\n--hidden_sizes={sizes}\n--layer_norm\n--value_distribution=none\n"
    (folder / directory.FLAGFILE).write_text(flags)
    program = f"""
import pathlib, sys
from ps_dqn.evaluator import __main__ as evaluator, checkpoint_player, following
made = []
player = checkpoint_player.CheckpointPlayer.__init__
def make(self, config, *more):
    made.append((config.run.max_eval_steps, config.run.eval_episodes))
    player(self, config, *more)
checkpoint_player.CheckpointPlayer.__init__ = make
def both(folder, checkpoints, *_):
    yield checkpoints.find("newest")
    yield checkpoints.find("newest")
    pathlib.Path({str(folder / directory.FLAGFILE)!r}).write_text({flags!r} + "--max_eval_steps=3")
    yield checkpoints.find("newest")
following.new_checkpoints = both
code = evaluator.main(["evaluate", {str(folder)!r}, "--follow", "--episodes=2"])
print(code, made, file=sys.__stderr__)
pathlib.Path("made").write_text(repr((code, made)))
"""
    ended = run_python(["-c", program], tmp_path)
    assert (tmp_path / "made").exists(), ended.stdout + ended.stderr
    assert (tmp_path / "made").read_text() == "(0, [(27000, 2), (3, 2)])"


@pytest.mark.parametrize(
    ("main", "words", "said"),
    [
        (evaluator.main, ["--eval_episodes=5"], "--eval_episodes=5: has no effect here; say --ep"),
        (evaluator.main, ["--seed=7"], "--seed=7: has no effect here; say --evaluation_seed"),
        (evaluator.main, ["--follow", "--seed=7"], "--seed=7: has no effect here"),
        (
            evaluator.main,
            ["--preset=rainbow,lunarlander"],
            "--preset=rainbow,lunarlander: has no effect here; the run's own flags hold: leave it",
        ),
        (watch.main, ["--seed=7"], "--seed=7: has no effect here; say --episode_seed"),
    ],
)
def test_what_has_no_effect_is_refused(
    main: Callable[[list[str]], int],
    words: list[str],
    said: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / directory.FLAGFILE).write_text("--seed=3\n--eval_episodes=4\n")
    with pytest.raises(SystemExit) as left:
        main(["program", str(tmp_path), *words])
    assert left.value.code == 2
    assert said in only_error(capsys.readouterr().err)
