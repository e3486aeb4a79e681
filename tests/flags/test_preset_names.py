"""Presets by name: what they are laid under, what is said of others, and what a run keeps."""

import pathlib
import re

import pytest
from absl import flags as absl_flags
from support.command_lines import only_error, parsed

from ps_dqn import presets as command
from ps_dqn.config import Config
from ps_dqn.coordinator import __main__ as coordinator
from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, experiment, preset
from ps_dqn.run import directory


def config(*words: str) -> Config:
    return experiment.read(parsed(*words))


def test_a_preset_is_its_file() -> None:
    assert config("--preset=lunarlander") == config(
        f"--flagfile={preset.PRESETS / 'lunarlander.flags'}"
    )
    assert config("--preset", "lunarlander") == config("--preset=lunarlander")
    assert config("--flagfile", str(preset.PRESETS / "lunarlander.flags"), "--seed=1") == config(
        "--preset=lunarlander", "--seed=1"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("--preset=lunarlander", "--gamma=0.5"),
        ("--gamma=0.5", "--preset=lunarlander"),
        ("--flagfile=mine.flags", "--preset=lunarlander"),
        ("--flagfile=both.flags",),
    ],
)
def test_what_a_person_says_goes_before_it(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("mine.flags").write_text("--gamma=0.5\n")
    pathlib.Path("both.flags").write_text("--gamma=0.5\n--preset=lunarlander\n")
    found = config(*words)
    assert found.learning.gamma == 0.5
    assert found.environment.env_id == "LunarLander-v3"


def test_of_one_kind_the_later_goes_before_the_earlier() -> None:
    words = ["--preset=cartpole,acrobot", "--preset=mountaincar"]
    assert config(*words).environment.env_id == "MountainCar-v0"
    assert config(*words).environment.num_envs == 8  # acrobot's
    assert config(*reversed(words)).environment.env_id == "Acrobot-v1"
    assert config("--preset=dqn,rainbow,lunarlander").learning.n_step == 3
    assert config("--preset=rainbow,dqn,lunarlander").learning.n_step == 1


def test_an_algorithm_alone_is_for_the_default_problem() -> None:
    assert config("--preset=pqn") == config("--preset=pqn,cartpole")
    assert config("--preset=pqn", "--env_id=CartPole-v1") == config("--preset=pqn")
    other = config("--preset=pqn", "--env_id=Acrobot-v1")
    assert other.run.target_return is None
    assert other.learning.gamma == Config().learning.gamma


def test_what_has_no_effect_is_left_out_unless_a_person_says_it() -> None:
    assert config("--preset=lunarlander").value.v_min == Config().value.v_min
    assert config("--preset=lunarlander", "--value_distribution=c51").value.v_min == -400
    with pytest.raises(UsageError, match=r"--v_min=-400.0: has no effect without"):
        config("--preset=lunarlander", "--v_min=-400")


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (
            "rainbo",
            "--preset=rainbo: there is no preset rainbo; did you mean rainbow? ps-dqn presets "
            "lists them",
        ),
        (
            "dqn, xyz",
            "--preset=dqn,xyz: there is no preset xyz; ps-dqn presets lists them",
        ),
        (
            "../presets/dqn",
            "--preset=../presets/dqn: there is no preset ../presets/dqn; ps-dqn presets lists them",
        ),
        (
            "atari_fast,dqn",
            "--preset=atari_fast,dqn: atari_fast is an algorithm and a problem, and has no room "
            "for dqn; --preset=dqn,atari is the problem with it",
        ),
        (
            "pqn,btr",
            "--preset=pqn,btr: btr is an algorithm and a problem, and has no room for pqn; "
            "--preset=pqn,atari is the problem with it",
        ),
    ],
)
def test_presets_that_are_none_or_do_not_go_together(names: str, says: str) -> None:
    with pytest.raises(absl_flags.Error) as caught:
        parsed(f"--preset={names}")
    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("--learning-rate=1", "; did you mean --learning_rate?"),
        ("--learning_rat=1", "; did you mean --learning_rate?"),
        ("--xyz", ";"),
    ],
)
def test_a_flag_that_is_none(word: str, says: str) -> None:
    with pytest.raises(command_line.UnknownFlagError) as caught:
        parsed("--gamma=0.9", word)
    assert str(caught.value) == f"{word}: there is no such flag{says} --help=all lists them"


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert command.main(["presets", *words]) == 0
    return capsys.readouterr().out


def test_the_list_has_each_preset_with_its_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    shown = re.findall(r"^  (\w+) +(\S.*)$", listed(capsys), re.MULTILINE)
    assert sorted(name for name, _ in shown) == preset.all_names()
    for name, line in shown:
        text = (preset.PRESETS / f"{name}.flags").read_text()
        assert text.startswith(f"# {line}\n")
        assert len(line) <= 98
        assert line.endswith((".", '"')) or line.endswith("v0.")


def test_what_presets_say_together_can_be_kept_as_a_flagfile(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "mine.flags"
    path.write_text(listed(capsys, "rainbow,lunarlander"))
    assert config(f"--flagfile={path}") == config("--preset=rainbow,lunarlander")
    with pytest.raises(SystemExit):
        command.main(["presets", "rainbo"])
    assert "did you mean rainbow?" in only_error(capsys.readouterr().err)


def begun(folder: pathlib.Path, names: str) -> pathlib.Path:
    """The folder of a run with a checkpoint."""
    (folder / directory.CHECKPOINTS).mkdir(parents=True)
    (folder / directory.CHECKPOINTS / "updates-000000000001.npz").write_bytes(b"")
    line = f"{directory.BEGAN_WITH}{names}\n" if names else ""
    (folder / directory.FLAGFILE).write_text(f"{line}--env_id=CartPole-v1\n--gamma=0.25\n")
    return folder


def of_run(folder: pathlib.Path, *words: str) -> tuple[str, Config]:
    """The presets and the experiment of a run that is resumed."""
    values = coordinator._define()
    found = coordinator._parse(values, ["program", f"--run_dir={folder}", *words])
    return coordinator._presets(values, found), experiment.read(values)


def test_a_run_keeps_its_flags_and_the_names_of_its_presets(tmp_path: pathlib.Path) -> None:
    folder = begun(tmp_path / "run", "dqn,cartpole")
    for words in ([], ["--preset=dqn"], ["--preset=dqn,cartpole"], ["--resume"]):
        names, found = of_run(folder, *words)
        assert names == "dqn,cartpole"
        assert found.learning.gamma == 0.25  # the run's own goes before the preset's
    assert of_run(folder, "--gamma=0.75")[1].learning.gamma == 0.75


@pytest.mark.parametrize(("before", "shown"), [("dqn,cartpole", "dqn,cartpole"), ("", "none")])
def test_a_run_does_not_go_on_with_other_presets(
    tmp_path: pathlib.Path, before: str, shown: str
) -> None:
    folder = begun(tmp_path / "run", before)
    with pytest.raises(UsageError) as caught:
        of_run(folder, "--preset=pqn")
    assert str(caught.value) == (
        f"--preset=pqn,cartpole: the run in {folder} was begun with {shown}, and goes on with the "
        f"flags it has: leave it out, or say another --run_dir"
    )
