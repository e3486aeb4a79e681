"""The command lines: every option has a flag, and every mistake has one line."""

import dataclasses
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from absl import flags as absl_flags

from flags import command_line, experiment, task_main, tasks
from ps_dqn import config as configuration
from ps_dqn import coordinator, parameter_server, run_directory, worker
from ps_dqn.config import Config

CLUSTER = {"chief": ["localhost:1"], "ps": ["localhost:2"], "worker": ["localhost:3"]}
PRESETS = sorted(command_line.PRESETS.glob("*.flags"))
OPTIONS: list[tuple[configuration.Group, dataclasses.Field]] = [
    (group, field) for group in configuration.groups() for field in dataclasses.fields(group.type)
]

# Where a good value that is not the default cannot be worked out from the default.
NOT_DEFAULT: dict[str, Any] = {
    "env_id": "Acrobot-v1",
    "env_module": "json",
    "env_kwargs": '{"name": "a b, c"}',
    "hidden_sizes": (7, 5),
    "target_return": -12.5,
    "max_staleness": 3,
    "outer_learning_rate": 0.7,
    "outer_momentum": 0.25,
}
# What has an effect only beside another option that is not the default.
NEEDS: dict[str, dict[str, Any]] = {"backup_workers": {"aggregation": "sync"}}
# What has none with one or the other way of applying pushes.
NOT_WITH = {
    "async": ("backup_workers",),
    "sync": ("max_staleness", "staleness_decay", "staleness_cutoff"),
}


def _flags(*words: str) -> absl_flags.FlagValues:
    """The coordinator's flags but for the files', parsed."""
    values = command_line.new_flags()
    experiment.define(values)
    tasks.define_addresses(values)
    tasks.define_placement(values)
    command_line.parse(values, ["program", *words])
    return values


def _config(*words: str) -> Config:
    return experiment.read(_flags(*words))


def _not_default(field: dataclasses.Field) -> Any:
    """A valid value, so that the defaults of the other options still go with it."""
    if field.name in NOT_DEFAULT:
        return NOT_DEFAULT[field.name]
    if field.metadata["choices"]:
        return next(each for each in field.metadata["choices"] if each != field.default)
    if isinstance(field.default, bool):
        return not field.default
    if isinstance(field.default, int):
        return 2 * field.default or 1
    assert isinstance(field.default, float), f"say a value for {field.name} in NOT_DEFAULT"
    return field.default / 2 or 0.5


def _word(name: str, value: Any) -> str:
    """The flag as a person writes it."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no{name}"
    if isinstance(value, tuple):
        value = ",".join(str(each) for each in value)
    return f"--{name}={value}"


def _flat(config: Config) -> dict[str, Any]:
    groups = dataclasses.asdict(config).values()
    return {name: value for group in groups for name, value in group.items()}


def _all_not_default(aggregation: str) -> dict[str, Any]:
    """Every option that goes with this one, each with a value that is not its default."""
    given = {field.name: _not_default(field) for _, field in OPTIONS}
    kept = {name: value for name, value in given.items() if name not in NOT_WITH[aggregation]}
    return kept | {"aggregation": aggregation}


def test_flags_have_the_defaults_of_the_config() -> None:
    assert _config() == Config()


def test_every_option_has_one_flag_with_its_help() -> None:
    values = _flags()

    names = [name for names in experiment.topics().values() for name in names]
    assert sorted(names) == sorted(_flat(Config()))
    for _, field in OPTIONS:
        assert values[field.name].help.endswith(field.metadata["help"])


@pytest.mark.parametrize(("group", "field"), OPTIONS, ids=[field.name for _, field in OPTIONS])
def test_option_arrives_in_the_config(group: configuration.Group, field: dataclasses.Field) -> None:
    value = _not_default(field)
    assert value != field.default

    beside = NEEDS.get(field.name, {})
    config = _config(_word(field.name, value), *(_word(*each) for each in beside.items()))

    given = getattr(getattr(config, group.name), field.name)
    assert given == value
    assert type(given) is type(value)
    # And nothing else changes.
    assert _flat(config) == {**_flat(Config()), **beside, field.name: value}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--gamma=0.5", "--gamma=0.6"), 0.6),
        (("--gamma", "0.5"), 0.5),
        (("--gamma=1",), 1.0),
        (("--gamma=1e-3",), 0.001),
    ],
)
def test_ways_to_write_a_number(words: Sequence[str], expected: float) -> None:
    assert _config(*words).learning.gamma == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), None),
        (("--target_return=inf",), float("inf")),
        (("--target_return=0",), 0.0),  # 0 is a target, not "none"
    ],
)
def test_target_return(words: Sequence[str], expected: float | None) -> None:
    assert _config(*words).run.target_return == expected


@pytest.mark.parametrize("aggregation", NOT_WITH)
def test_flagfile_round_trip(tmp_path: pathlib.Path, aggregation: str) -> None:
    given = _all_not_default(aggregation)
    values = _flags(*(_word(name, value) for name, value in given.items()))
    path = tmp_path / "flags.txt"

    path.write_text(command_line.as_flagfile(values, list(given)))

    assert _flat(_config(f"--flagfile={path}")) == _flat(Config()) | given


def test_flagfile_round_trip_of_the_defaults(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "flags.txt"
    path.write_text(command_line.as_flagfile(_flags(), list(_flat(Config()))))

    assert _config(f"--flagfile={path}") == Config()


def test_flagfile_round_trip_of_json_on_several_lines(tmp_path: pathlib.Path) -> None:
    # What --env_kwargs="$(cat kwargs.json)" gives.
    kwargs = {"goal_velocity": 0.1, "maps": ["a", "b"]}
    values = _flags(f"--env_kwargs={json.dumps(kwargs, indent=2)}")
    path = tmp_path / "flags.txt"

    path.write_text(command_line.as_flagfile(values, ["env_kwargs"]))

    read = _config(f"--flagfile={path}").environment.env_kwargs
    assert json.loads(read) == kwargs


def test_flags_after_a_flagfile_override_it(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "some.flags"
    path.write_text("# A comment.\n--gamma=0.5\n\n--n_step=7\n--nodouble_dqn\n")

    config = _config(f"--flagfile={path}", "--n_step=2")

    assert config.learning == configuration.Learning(gamma=0.5, n_step=2, double_dqn=False)


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_presets_are_experiments_of_their_own(path: pathlib.Path) -> None:
    assert _config(f"--flagfile={path}") != Config()


def test_flags_of_a_local_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    values = _flags(
        "--num_ps=2",
        "--num_workers=3",
        "--start_method=spawn",
        "--intra_op_threads=4",
        "--inter_op_threads=5",
    )

    placement = tasks.read_placement(values)

    assert (len(placement.spec.ps), len(placement.spec.workers)) == (2, 3)
    assert (placement.kind, placement.start_method) == ("local", "spawn")
    assert (placement.intra_op_threads, placement.inter_op_threads) == (4, 5)


def test_tf_config_makes_the_cluster_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", _tf_config("chief"))

    placement = tasks.read_placement(_flags())

    assert placement.kind == "remote"
    assert placement.spec.as_dict() == CLUSTER


def test_host_flags_make_the_cluster_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)

    placement = tasks.read_placement(
        _flags("--chief_host=c:1", "--ps_hosts=p:1,q:1", "--worker_hosts=w:1")
    )

    assert placement.kind == "remote"
    assert placement.spec.as_dict() == {"chief": ["c:1"], "ps": ["p:1", "q:1"], "worker": ["w:1"]}


def test_local_wins_over_tf_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", _tf_config("chief"))

    assert tasks.read_placement(_flags("--cluster=local")).kind == "local"


# Help.


def test_help_goes_by_topic_and_does_not_import_tensorflow() -> None:
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ps_dqn.coordinator", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert ended.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "flags.experiment" in imported  # the list of imports is there
    assert "tensorflow" not in imported
    _assert_help_goes_by_topic(ended.stdout)


def _assert_help_goes_by_topic(text: str) -> None:
    topics = {
        **experiment.topics(),
        "Where the tasks run.": list(coordinator.PLACEMENT_FLAGS),
        "Where the files go.": list(coordinator.FILE_FLAGS),
    }
    lines = text.splitlines()
    shown: dict[str, list[str]] = {}
    for line in lines:
        if line in topics:
            shown[line] = []
        elif flag := re.match(r"  --(?:\[no\])?(\w+)", line):
            shown[list(shown)[-1]].append(flag[1])
    assert shown == topics
    assert list(shown) == list(topics)
    assert max(len(line) for line in lines) <= 160  # "--flagfile=…" names a path


@pytest.mark.parametrize("word", ["--help", "-h", "-help", "--helpfull"])
def test_ways_to_ask_for_help(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert coordinator.main(["program", "--gamma=abc", word]) == 0

    _assert_help_goes_by_topic(capsys.readouterr().out)


def test_help_says_defaults_choices_and_units(capsys: pytest.CaptureFixture[str]) -> None:
    coordinator.main(["program", "--help"])

    text = capsys.readouterr().out
    gamma, sizes = Config().learning.gamma, Config().network.hidden_sizes
    assert f"  --gamma (default {gamma})\n      Discount per environment step.\n" in text
    assert "  --loss [huber|squared] (default huber)\n      Loss of the TD error.\n" in text
    assert f"  --hidden_sizes (default {','.join(map(str, sizes))})\n" in text
    assert "  --target_return (default none)\n" in text
    assert "  --[no]double_dqn (default true)\n" in text


# Mistakes. Each is refused before anything is started or written.


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
        return _only_error(err)

    # The first thing a run does once its flags are found good; what would follow would fork.
    monkeypatch.setattr("ps_dqn.terminal.redirect_to", started)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # as main() does, but undone
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return call


def _only_error(text: str) -> str:
    """The one line a refusal is, without its prefix."""
    assert text.startswith("error: ")
    assert text.endswith("\n")
    assert len(text.splitlines()) == 1
    return text.removeprefix("error: ").rstrip("\n")


def _tf_config(job: str, index: int = 0) -> str:
    return json.dumps({"cluster": CLUSTER, "task": {"type": job, "index": index}})


def test_good_flags_would_start(refusal: Callable[..., str]) -> None:
    """So a refusal below is not for want of something that every run needs."""
    with pytest.raises(AssertionError, match="about to start"):
        refusal("--gamma=0.5")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--learning_rat=1"],
            "Unknown command line flag 'learning_rat'. Did you mean: learning_r",
        ),
        (["-x"], "Unknown command line flag 'x'"),
        (["--gamma=abc"], "flag --gamma=abc: could not convert"),
        (["--gamma="], "flag --gamma=: could not convert"),
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
        (["--loss=log_cosh"], "flag --loss=log_cosh: value should be one of <huber|squared>"),
        (["--cluster=moon"], "flag --cluster=moon: value should be one of"),
        (["train"], "'train' is not a flag"),
        (["--gamma=0.9", "0.5"], "'0.5' is not a flag"),
        (
            ["--local_updates=3", "--update_period=5", "--num_envs_per_worker=4"],
            "--local_updates=3 times --update_period=5 is 15 environment steps a push, which "
            "--num_envs_per_worker=4 does not divide",
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
            ["--backup_workers=1"],
            "--backup_workers=1: has no effect without --aggregation=sync; leave it out",
        ),
        *(
            (
                ["--aggregation=sync", f"--{word}"],
                f"--{word}: has no effect without --aggregation=async; leave it out",
            )
            # Even 0 versions is a bound.
            for word in ("max_staleness=0", "staleness_decay=0.1", "staleness_cutoff=8")
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
        (["--env_kwargs={"], "--env_kwargs={: not JSON"),
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


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "TF_CONFIG is not JSON"),
        (_tf_config("worker"), "TF_CONFIG says this task is worker 0: the coordinator is"),
        (_tf_config("evaluator"), "TF_CONFIG says this task is evaluator 0: the coordinator is"),
        (_tf_config("chief", 1), "task index 1 is out of range"),
    ],
)
def test_bad_tf_config(
    refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    monkeypatch.setenv("TF_CONFIG", text)

    assert says in refusal()


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
    checkpoints = pathlib.Path("run", run_directory.CHECKPOINTS)
    checkpoints.mkdir(parents=True)
    (checkpoints / "updates-000000000001.npz").write_bytes(b"damaged")
    pathlib.Path("run", run_directory.FLAGFILE).write_text("--gamma=0.5\n--env_id=Pendulum-v1\n")

    # The run's own flags are read …
    assert "Pendulum-v1: its actions are" in refusal("--run_dir=run")
    # … those of the command line override them …
    assert "--gamma=7.0: must be" in refusal("--run_dir=run", "--gamma=7")
    # … and so does --resume, even with no --run_dir, once the run is where runs are.
    pathlib.Path("runs").mkdir()
    pathlib.Path("run").rename("runs/run")
    assert "Pendulum-v1: its actions are" in refusal("--resume")
    # A checkpoint that is no checkpoint.
    assert "can be read: all are damaged" in refusal("--resume", "--env_id=CartPole-v1")


def test_resumed_run_without_its_flags(refusal: Callable[..., str]) -> None:
    checkpoints = pathlib.Path("run", run_directory.CHECKPOINTS)
    checkpoints.mkdir(parents=True)
    (checkpoints / "updates-000000000001.npz").write_bytes(b"")

    assert run_directory.FLAGFILE in refusal("--resume", "--run_dir=run")


# Workers and parameter servers.


@pytest.mark.parametrize(
    ("job", "environment", "words", "says"),
    [
        ("worker", "", [], "no cluster is described: set TF_CONFIG"),
        ("ps", "", [], "no cluster is described: set TF_CONFIG"),
        ("worker", _tf_config("ps"), [], "this task is ps 0, but this program is a worker task"),
        ("ps", _tf_config("worker"), [], "this task is worker 0, but this program is a ps task"),
        ("worker", "{", [], "TF_CONFIG is not JSON"),
        ("worker", _tf_config("worker", 1), [], "task index 1 is out of range"),
        ("worker", _tf_config("worker"), ["--gamma=0.9"], "Unknown command line flag 'gamma'"),
        ("worker", _tf_config("worker"), ["0"], "'0' is not a flag"),
        ("worker", _tf_config("worker"), ["--inter_op_threads=0"], "inter_op_threads"),
        (
            "worker",
            "",
            ["--chief_host=c:1", "--ps_hosts=p:1", "--worker_hosts=w:1", "--task_index=1"],
            "task index 1 is out of range: the cluster has 1 worker task, numbered from 0",
        ),
    ],
)
def test_bad_place_of_a_task(
    job: str,
    environment: str,
    words: list[str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def serve(*_: object) -> None:
        raise AssertionError("the place was not refused: the task was about to serve")

    monkeypatch.setenv("TF_CONFIG", environment)
    monkeypatch.setattr(sys, "argv", ["program", *words])

    with pytest.raises(SystemExit) as caught:
        task_main.run(job, serve)

    assert caught.value.code == 2
    assert says in _only_error(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("job", "environment", "words", "index"),
    [
        ("worker", _tf_config("worker"), [], 0),
        ("ps", _tf_config("ps"), [], 0),
        (
            "worker",
            # The host flags win.
            _tf_config("worker"),
            ["--chief_host=c:1", "--ps_hosts=p:1", "--worker_hosts=v:1,w:1", "--task_index=1"],
            1,
        ),
    ],
)
def test_good_place_of_a_task(
    job: str,
    environment: str,
    words: list[str],
    index: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    served: list[Any] = []
    monkeypatch.setenv("TF_CONFIG", environment)
    monkeypatch.setattr(sys, "argv", ["program", "--intra_op_threads=3", *words])

    assert task_main.run(job, lambda *given: served.append(given)) == 0

    [(spec, task, intra_op_threads, inter_op_threads)] = served
    assert task == tasks.Task(job, index)
    assert (intra_op_threads, inter_op_threads) == (3, 2)
    assert capsys.readouterr().out == f"{task} serves at {spec.addresses(job)[index]}\n"


@pytest.mark.parametrize(
    ("module", "environment"),
    [
        (worker.__name__, {}),
        (worker.__name__, {"TF_CONFIG": _tf_config("ps")}),
        (parameter_server.__name__, {"TF_CONFIG": _tf_config("worker")}),
    ],
)
def test_task_process_that_is_refused(
    module: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    ended = subprocess.run(
        [sys.executable, "-m", module], capture_output=True, text=True, timeout=60
    )

    assert ended.returncode == 2
    assert ended.stdout == ""
    _only_error(ended.stderr)
