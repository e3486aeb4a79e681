"""Mistakes in the coordinator's flags: exit code 2 and one line, before anything is begun."""

import pathlib
from collections.abc import Callable

import pytest
from support.command_lines import only_error

from ps_dqn.coordinator import __main__ as coordinator
from ps_dqn.run import directory


@pytest.fixture
def refusal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Calls the coordinator with flags that it must refuse; returns the line that it says."""

    def started(*_: object) -> None:
        raise AssertionError("the flags were not refused: the run was about to start")

    def call(*words: str) -> str:
        with pytest.raises(SystemExit) as caught:
            coordinator.main(["program", *words])
        assert caught.value.code == 2
        out, err = capsys.readouterr()
        assert out == ""
        return only_error(err)

    # The first thing a run does once its flags are found good; what would follow would fork.
    monkeypatch.setattr("ps_dqn.run.terminal.redirect_to", started)
    monkeypatch.setattr("ps_dqn.run.libraries.SETTINGS", {})  # not for the tests that follow
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return call


def test_good_flags_would_start(refusal: Callable[..., str]) -> None:
    """So a refusal below is not for want of something that every run needs."""
    with pytest.raises(AssertionError, match="about to start"):
        refusal("--gamma=0.5")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--learning_rat=1"],
            "--learning_rat=1: there is no such flag; did you mean --learning_rate?",
        ),
        (["-x"], "-x: there is no such flag;"),
        (["--gamma=abc"], "flag --gamma=abc: could not convert"),
        (["--gamma="], "flag --gamma=: could not convert"),
        (["--nolayer_norm=1"], "--nolayer_norm=1 does not take an argument"),
        (["--num_workers=100000"], "--num_workers=100000: at most 256 of a kind"),
        (["--gamma"], "gamma"),
        (["--batch_size=1.5"], "flag --batch_size=1.5"),
        (["--batch_size=many"], "flag --batch_size=many"),
        (["--double_dqn=perhaps"], "flag --double_dqn=perhaps"),
        (["--hidden_sizes=64,wide"], "must be whole numbers, comma separated"),
        (["--hidden_sizes=64,0"], "--hidden_sizes=0: must be 1 or more"),
        (["--gamma=-0.1"], "--gamma=-0.1: must be 0.0 or more"),
        (["--gamma=1.5"], "--gamma=1.5: must be 1.0 or less"),
        (["--batch_size=0"], "--batch_size=0: must be 1 or more"),
        (["--seed=2147483648"], "--seed=2147483648: must be 2147483647 or less"),
        (["--num_workers=0"], "num_workers"),
        (["--num_ps=0"], "num_ps"),
        (["--inter_op_threads=0"], "inter_op_threads"),
        (["--gamma=nan"], "--gamma=nan: must be"),
        (["--learning_rate=nan"], "--learning_rate=nan: must be"),
        (["--log_interval=nan"], "--log_interval=nan: must be"),
        (["--target_return=nan"], "--target_return=nan"),
        (["--learning_rate=inf"], "--learning_rate=inf"),
        (["--loss=l1"], "flag --loss=l1: value should be one of <huber|squared|log_cosh>"),
        (["--cluster=moon"], "flag --cluster=moon: value should be one of"),
        (["train"], "'train' is not a flag"),
        (["--gamma=0.9", "0.5"], "'0.5' is not a flag"),
        (
            [
                "--replay=rollout",
                "--target_update_period=0",
                "--nodouble_dqn",
                "--n_step=1",
                "--local_updates=3",
                "--num_envs=5",
            ],
            "--local_updates=3 times --update_period=8 is 24 environment steps a rollout, which 5 "
            "environments do not divide",
        ),
        (["--update_period=0"], "--update_period=0.0: must be 0.001 or more"),
        (["--num_envs=0"], "--num_envs=0: must be 1 or more"),
        (["--num_envs=8", "--num_envs_per_worker=8"], "--num_envs=8: has no effect beside "),
        (
            # 8 environments offer 10 of 15 rows each, 3 offer 8 of 13.
            ["--num_envs=8", "--replay_capacity=115", "--min_replay_size=79", "--num_workers=3"],
            "each of 3 workers has its share: --min_replay_size=27: 3 environments with "
            "--replay_capacity=39 and --n_step=5 offer 24 at most",
        ),
        (
            ["--replay_capacity=5000", "--min_replay_size=5001"],
            "--min_replay_size=5001: must not exceed --replay_capacity=5000",
        ),
        (
            # 32 environments of 3 + 2 rows each.
            [
                "--replay_capacity=159",
                "--min_replay_size=1",
                "--num_envs_per_worker=32",
                "--local_updates=32",
                "--n_step=3",
            ],
            "--replay_capacity=159: 32 environments with --n_step=3 need 160 or more",
        ),
        (
            ["--network=resnet"],
            "--network=resnet: unknown: use mlp, nature, minatar, impala, or your own as "
            "package.module:function",
        ),
        (
            ["--network=my_net:build", "--dueling"],
            "--network=my_net:build: cannot be combined with --dueling, which is built into the "
            "other networks: leave it out, or build it yourself",
        ),
        (
            ["--backup_workers=1", "--aggregation=async"],
            "--backup_workers=1: has no effect without --aggregation=auto or sync or trimmed_mean "
            "or median; leave it out (its default is 0)",
        ),
        *(
            (
                ["--aggregation=sync", f"--{word}"],
                f"--{word}: has no effect without --aggregation=auto or async; leave it "
                f"out{default}",
            )
            # Even 0 versions is a bound.
            for word, default in (
                ("max_staleness=0", ""),
                ("staleness_decay=0.1", " (its default is 0.0)"),
                ("staleness_cutoff=8", " (its default is 0)"),
            )
        ),
        *(
            (
                ["--local_updates=1", "--update_period=64", f"--{word}"],
                f"--{word}: has no effect without --local_updates above 1; leave it out",
            )
            for word in ("outer_learning_rate=0.0", "outer_momentum=0.5")
        ),
        (
            ["--aggregation=sync", "--backup_workers=2", "--num_workers=2"],
            "--backup_workers=2: must be less than --num_workers=2, a round waits for the others",
        ),
        (
            [
                "--aggregation=sync",
                "--backup_workers=1",
                "--chief_host=c:1",
                "--ps_hosts=p:1",
                "--worker_hosts=w:1",
            ],
            "--backup_workers=1: must be less than --num_workers=1",
        ),
        (["--aggregation=gossip"], "flag --aggregation=gossip: value should be one of"),
        (["--backup_workers=-1"], "--backup_workers=-1: must be 0 or more"),
        (["--max_staleness=-1"], "--max_staleness=-1: must be 0 or more"),
        (["--max_staleness=none"], "flag --max_staleness=none"),
        (["--outer_learning_rate=-0.5"], "--outer_learning_rate=-0.5: must be 0.0 or more"),
        (["--outer_learning_rate=inf"], "--outer_learning_rate=inf"),
        (["--outer_momentum=1"], "--outer_momentum=1.0: must be 0.9999 or less"),
        (["--staleness_decay=-1"], "--staleness_decay=-1.0: must be 0.0 or more"),
        (["--staleness_cutoff=-1"], "--staleness_cutoff=-1: must be 0 or more"),
        (["--outlier_gate=-2"], "--outlier_gate=-2.0: must be 0.0 or more"),
        (["--pull_wire_dtype=int4"], "flag --pull_wire_dtype=int4: value should be one of"),
        (["--push_wire_dtype=float64"], "flag --push_wire_dtype=float64: value should be one of"),
        (["--push_top_k=0"], "--push_top_k=0.0: must be 1e-06 or more"),
        (["--push_top_k=1.5"], "--push_top_k=1.5: must be 1.0 or less"),
        (["--pushes_per_closure=0"], "--pushes_per_closure=0: must be 1 or more"),
        (["--closures_per_worker=0"], "--closures_per_worker=0: must be 1 or more"),
        (["--replay_memory=lots"], "--replay_memory=lots: not a size: write bytes, a number"),
        (
            ["--replay_memory=20kB", "--num_workers=1"],
            # How many that is depends on a row's size.
            "--min_replay_size=1000: must not exceed --replay_memory=20kB (768 transitions)",
        ),
        (
            ["--replay_compression=lz4", "--replay_memory=1GiB"],
            "--replay_compression=lz4: is for images of bytes, and observations here are float32; "
            "leave it out",
        ),
        (
            ["--replay_capacity=1000000000000", "--num_workers=3"],
            # 333,333,333,334 transitions of 26 bytes each.
            "3 workers' replays of 7.9 TiB cannot fit into the ",
        ),
        (["--replay=rollout"], "--target_update_period=128: does not go with --replay=rollout"),
        (["--jit_compile"], "jit_compile"),
        (["--learning_rate=1e30"], "--learning_rate=1e+30: must be 1000.0 or less"),
        (["--env_kwargs={\n'size': 8\n}"], "not JSON"),
        (["--env_kwargs=[1]"], "--env_kwargs=[1]: must be a JSON object"),
        (["--env_kwargs="], "--env_kwargs=: not JSON"),
        (["--env_id=NoSuchEnv-v7"], "--env_id=NoSuchEnv-v7: cannot be made"),
        (["--env_id="], "--env_id=: cannot be made"),
        (['--env_kwargs={"wings": 2}'], "--env_id=CartPole-v1: cannot be made"),
        (["--env_id=Pendulum-v1"], "--env_id=Pendulum-v1: its actions are Box(-2.0, 2.0"),
        (["--env_module=no.such.module"], "--env_module=no.such.module: cannot be imported"),
        (["--resume"], "--resume: no run with a checkpoint under runs/"),
        (["--resume", "--run_dir=nowhere"], "--resume: no checkpoint in --run_dir=nowhere"),
        (["--cluster=remote"], "no cluster is described: set TF_CONFIG"),
        (["--chief_host=c:1", "--ps_hosts=p:1"], "no worker in the cluster"),
        (["--flagfile=no_such.flags"], "no_such.flags"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_bad_flags(refusal: Callable[..., str], words: list[str], says: str) -> None:
    assert says in refusal(*words)
    assert list(pathlib.Path().iterdir()) == []  # nothing was written


@pytest.mark.parametrize(
    "words",
    [
        ["--max_staleness=0"],
        ["--local_updates=1", "--update_period=64", "--staleness_decay=0.1"],
        ["--aggregation=sync", "--backup_workers=1", "--num_workers=2"],
        ["--aggregation=sync", "--outer_learning_rate=0", "--outer_momentum=0.5"],
        # What a run writes down of options it did not use.
        ["--aggregation=sync", "--staleness_decay=0", "--staleness_cutoff=0"],
        ["--local_updates=1", "--update_period=64", "--backup_workers=0"],
    ],
    ids=" ".join,
)
def test_combinations_that_work(refusal: Callable[..., str], words: list[str]) -> None:
    with pytest.raises(AssertionError, match="about to start"):
        refusal(*words)


@pytest.mark.parametrize("folder", ["file/run", "file"])
def test_run_directory_that_cannot_be_written(refusal: Callable[..., str], folder: str) -> None:
    # Even root cannot make a folder below a regular file.
    pathlib.Path("file").write_text("")

    says = refusal(f"--run_dir={folder}")

    assert says.startswith(f"--run_dir={folder}: cannot be written (")


def test_environment_module_whose_error_has_several_lines(
    refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "broken_environment.py").write_text('raise ValueError("first\\nsecond")')
    monkeypatch.syspath_prepend(folder)

    says = refusal("--env_module=broken_environment")

    assert "ValueError: first second" in says


def test_flags_of_a_resumed_run_are_checked_again(refusal: Callable[..., str]) -> None:
    checkpoints = pathlib.Path("run", directory.CHECKPOINTS)
    checkpoints.mkdir(parents=True)
    (checkpoints / "updates-000000000001.npz").write_bytes(b"damaged")
    pathlib.Path("run", directory.FLAGFILE).write_text("--gamma=0.5\n--env_id=Pendulum-v1\n")

    # The run's own flags are read …
    assert "Pendulum-v1: its actions are" in refusal("--run_dir=run")
    # … those of the command line override them …
    assert "--gamma=7.0: must be" in refusal("--run_dir=run", "--gamma=7")
    # … and so does --resume, even with no --run_dir, once the run is where runs are.
    pathlib.Path("runs").mkdir()
    pathlib.Path("run").rename("runs/run")
    assert "Pendulum-v1: its actions are" in refusal("--resume")
    pathlib.Path("runs/run", directory.FLAGFILE).write_text("--gamma=0.5\n")
    assert "can be read: all are damaged" in refusal("--resume")


def test_resumed_run_without_its_flags(refusal: Callable[..., str]) -> None:
    checkpoints = pathlib.Path("run", directory.CHECKPOINTS)
    checkpoints.mkdir(parents=True)
    (checkpoints / "updates-000000000001.npz").write_bytes(b"")

    assert directory.FLAGFILE in refusal("--resume", "--run_dir=run")
