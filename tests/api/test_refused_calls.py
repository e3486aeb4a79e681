"""Calls that cannot train: what they raise, and that they leave nothing."""

import pathlib
import sys
import threading

import gymnasium
import pytest

from ps_dqn import Run, TrainingError, UsageError, load, train
from ps_dqn.run import directory


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"learning_rat": 1}, "train() has no option 'learning_rat'; did you mean learning_rate?"),
        ({"call_back": print}, "train() has no option 'call_back'; did you mean callback?"),
        ({"undefok": "x"}, "train() has no option 'undefok'"),
        ({"preset": "cartpol"}, "there is no preset cartpol; did you mean cartpole?"),
        ({"gamma": "much"}, "flag --gamma=much: could not convert string to float"),
        ({"hidden_sizes": "wide"}, "flag --hidden_sizes=wide: must be whole numbers"),
        ({"env_id": "Acrobot-v1"}, "env_id='Acrobot-v1': the environment is given already"),
        ({"callback": 3}, "callback=3: is no function of the rows of metrics"),
        ({"dueling": "maybe"}, "flag --dueling=maybe: must be true or false"),
        ({"run_dir": 5}, "run_dir=5: is no path"),
        ({"preset": ["rainbow", "moon"]}, "--preset=rainbow,moon: there is no preset moon"),
        ({"run_dir": __file__}, "run_dir=" + __file__ + ": is a file, not a folder: say another"),
        ({"env_kwargs": {"a": {1}}}, "env_kwargs={'a': {1}}: cannot be taken to other processes"),
        ({"resume": True}, "resume=True: no run with a checkpoint under runs/"),
        # These are the coordinator's to refuse.
        ({"gamma": 1.5}, "--gamma=1.5: must be 1.0 or less"),
        ({"env_kwargs": {"size": 3}}, "--env_id=CartPole-v1: cannot be made (TypeError:"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_is_wrong_is_refused_in_one_line(
    options: dict[str, object], says: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(UsageError) as caught:
        train("CartPole-v1", verbose=False, **options)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.glob("runs/*")) == []


def test_an_environment_that_cannot_be_taken_along_is_refused() -> None:
    lock = threading.Lock()

    def make() -> gymnasium.Env:
        with lock:
            return gymnasium.make("CartPole-v1")

    with pytest.raises(UsageError, match="environment=make: cannot be taken to other processes"):
        train(make)
    with pytest.raises(UsageError, match="environment=Environment: remote tasks cannot import it"):
        train(
            lambda: gymnasium.make("CartPole-v1"),
            chief_host="localhost:2222",
            ps_hosts=["localhost:2223"],
            worker_hosts=["localhost:2224", "localhost:2225"],
        )
    with pytest.raises(UsageError, match="is neither a name nor a class"):
        train(7)  # type: ignore[arg-type]


def test_a_refused_environment_leaves_the_one_that_was_there(tmp_path: pathlib.Path) -> None:
    def make() -> gymnasium.Env:
        return gymnasium.make("CartPole-v1")

    for folder in (None, "new"):
        with pytest.raises(UsageError, match="cannot be made"):
            train(make, run_dir=folder, verbose=False, env_kwargs={"size": 3})
    assert list(tmp_path.glob("runs/*")) == []
    assert not (tmp_path / "new").exists()
    there = tmp_path / "there" / directory.GIVEN / "ps_dqn_environment.pickle"
    there.parent.mkdir(parents=True)
    there.write_bytes(b"another one")
    with pytest.raises(UsageError, match="cannot be made"):
        train(make, run_dir="there", verbose=False, env_kwargs={"size": 3})
    assert [path.name for path in there.parent.iterdir()] == [there.name]
    assert there.read_bytes() == b"another one"


def test_a_folder_that_is_none_of_a_run_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match="is not the folder of a run"):
        Run(tmp_path)


def test_what_is_no_path_is_refused() -> None:
    for read in (Run, load):
        with pytest.raises(UsageError, match="run_dir=5: is no path"):
            read(5)  # type: ignore[operator]


def test_a_run_without_a_summary_has_no_best_evaluation(tmp_path: pathlib.Path) -> None:
    (tmp_path / directory.FLAGFILE).touch()
    run = Run(tmp_path)
    assert run.best is None
    assert repr(run) == f"<Run {tmp_path.name}: unfinished, best evaluation None>"


def test_a_run_that_fails_raises_with_its_last_lines(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # In the place of Python, so that it fails quickly.
    program = tmp_path / "program"
    program.write_text(
        "#!/bin/sh\necho one line\necho 'error: lost a parameter server' >&2\necho more\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(TrainingError) as caught:
        train("CartPole-v1", run_dir="mine")
    first, second, *lines = str(caught.value).splitlines()
    assert first == "lost a parameter server"
    assert second == "the last lines of mine:"
    assert lines == ["    one line", "    error: lost a parameter server", "    more"]
    assert capsys.readouterr().out == "one line\nerror: lost a parameter server\nmore\n"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    with pytest.raises(TrainingError, match="the run ended with exit code -9"):
        train("CartPole-v1", run_dir="mine", verbose=False)
