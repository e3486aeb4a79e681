"""What a sweep refuses before any of its runs begins."""

import json
import pathlib

import pytest
from support.command_lines import only_error, parsed

from ps_dqn.config import Config
from ps_dqn.coordinator.checks import first_look
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.flags import tasks
from ps_dqn.sweep import __main__ as sweep


@pytest.fixture(autouse=True)
def nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setattr("ps_dqn.sweep.running.Sweep.run", lambda _: pytest.fail("a run began"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--vary=gama=0.9,0.99"], "--vary=gama=…: gama is no flag of an experiment"),
        (["--vary=gamma=0.9,1.5"], "gamma=1.5: --gamma=1.5: must be 1.0 or less"),
        (["--vary=n_step=1,two"], "n_step=two: flag --n_step=two"),
        (["--vary=gamma=0.9..0.99"], "a grid needs values"),
        (
            ["--vary=optimizer=adam,sgd", "--momentum=0.5"],
            "optimizer=adam: --momentum=0.5: has no effect without --optimizer=sgd",
        ),
        (["--vary=backup_workers=0,2"], "backup_workers=2: --backup_workers=2: must be less than"),
        (["--vary=batch_size=32,64", "--batch_size=8"], "--batch_size=8: is varied by"),
        (["--vary=gamma=0.9,0.99", "--trials=3"], "--trials=3: has no effect with --search=grid"),
        (["--search=random", "--vary=gamma=0.5..2"], "--gamma="),
        (["--search=optuna", "--vary=gamma=0.5..2"], "gamma=2: --gamma=2.0: must be 1.0 or less"),
        (["--cluster=remote", "--chief_host=a:1", "--ps_hosts=a:2", "--worker_hosts=a:3"],
         "--cluster=remote: runs of a sweep are on this machine"),
        (
            ["--vary=env_id=CartPole-v1,NoSuch-v0"],
            "env_id=NoSuch-v0: --env_id=NoSuch-v0: cannot be made",
        ),
        (
            ['--vary=env_kwargs={"wings": 2}|{}'],
            'env_kwargs={"wings": 2}: --env_id=CartPole-v1: cannot be made',
        ),
        (
            ["--vary=network=mlp,nature"],
            "network=nature: --network=nature: is for images",
        ),
        (
            ["--search=optuna", "--vary=network=mlp,nature", "--vary=gamma=0.9..0.99"],
            "network=nature, gamma=0.9: --network=nature: is for images",
        ),
        (["--env_id=NoSuch-v0"], "--env_id=NoSuch-v0: cannot be made"),
        (
            ["--vary=network=mlp,no_such:build"],
            "network=no_such:build: --network=no_such:build: cannot",
        ),
        (["--demonstrations=no_such.npz"], "--demonstrations=no_such.npz: "),
        (["--metric=foo"], "--metric=foo: is no column of metrics.csv"),
        (["--metric=eval/epsode_return"], "did you mean eval/episode_return?"),
        (["--jobs=none"], "--jobs=none: must be auto, or 1 or more"),
        (["--jobs=0"], "--jobs=0: must be auto, or 1 or more"),
        (["--health_port=8080"], "--health_port=8080: runs at the same time"),
        (["--seeds=0"], "--seeds"),
        (["--resume"], "resume"),
        (["--output="], "say the folder of the sweep"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as left:
        sweep.main(["sweep", f"--output={tmp_path / 'out'}", *words])
    assert left.value.code == 2
    assert said in only_error(capsys.readouterr().err)


def test_each_environment_is_looked_at_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[str] = []
    look = first_look.at_environment

    def count(config: Config) -> tuple[Config, EnvironmentSpec]:
        looked_at.append(config.environment.env_id)
        return look(config)

    monkeypatch.setattr(first_look, "at_environment", count)
    monkeypatch.setattr("ps_dqn.sweep.running.Sweep.run", lambda _: None)
    varied = "--vary=env_id=CartPole-v1,Acrobot-v1", "--vary=gamma=0.9,0.99"
    assert sweep.main(["sweep", f"--output={tmp_path}", *varied]) == 0
    assert looked_at == ["CartPole-v1", "Acrobot-v1"]


def test_a_folder_has_one_sweep(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = {"search": "grid", "vary": ["gamma=0.9"], "metric": "eval/episode_return", "common": []}
    (tmp_path / "sweep.json").write_text(json.dumps(plan))
    for words, said in (
        (["--vary=gamma=0.8"], "has a sweep with other --vary"),
        (["--vary=gamma=0.9"], "has a sweep with other flags of the experiment"),
        (["--vary=gamma=0.9", "--search=random"], "has a sweep with other --search"),
    ):
        with pytest.raises(SystemExit):
            sweep.main(["sweep", f"--output={tmp_path}", *words])
        assert said in only_error(capsys.readouterr().err)


def test_a_file_is_no_folder(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit):
        sweep.main(["sweep", f"--output={tmp_path / 'file'}"])
    assert "cannot be written" in only_error(capsys.readouterr().err)


@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_a_plan_that_is_damaged_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (tmp_path / "sweep.json").write_text(content)
    with pytest.raises(SystemExit):
        sweep.main(["sweep", f"--output={tmp_path}", "--vary=gamma=0.9"])
    said = only_error(capsys.readouterr().err)
    assert f"{tmp_path / 'sweep.json'} cannot be read" in said
    assert (tmp_path / "sweep.json").read_text() == content


def common(folder: pathlib.Path) -> list[str]:
    """The flags that all runs of a sweep have."""
    flags: list[str] = json.loads((folder / "sweep.json").read_text())["common"]
    return [flag for flag in flags if not flag.startswith("#")]


def test_workers_that_the_topology_says_are_not_said_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ps_dqn.sweep.running.Sweep.run", lambda _: None)
    assert sweep.main(["sweep", f"--output={tmp_path}", "--preset=seed,cartpole"]) == 0
    values = parsed(*common(tmp_path))
    assert len(tasks.read_placement(values).spec.workers) == 1


@pytest.mark.parametrize(("words", "is_said"), [([], False), (["--v_max=20"], True)])
def test_ends_of_atoms_are_left_to_each_run_where_nobody_says_them(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, words: list[str], is_said: bool
) -> None:
    monkeypatch.setattr("ps_dqn.sweep.running.Sweep.run", lambda _: None)
    every = [f"--output={tmp_path}", "--value_distribution=c51", "--vary=gamma=0.9,0.99"]
    assert sweep.main(["sweep", *every, *words]) == 0
    assert [line for line in common(tmp_path) if line.startswith("--v_m")] == (
        ["--v_min=-10.0", "--v_max=20.0"] if is_said else []
    )
