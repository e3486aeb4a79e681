"""`python -m ps_dqn.doctor`: on folders made by hand, and on runs that are ill."""

import json
import os
import pathlib
import socket

import pytest
from support.catch_env import FLAGS as CATCH
from support.command_lines import only_error
from support.made_runs import make
from support.patients import trained
from support.programs import run_python
from support.tiers import tiered

from ps_dqn.config import Config
from ps_dqn.doctor import __main__ as doctor
from ps_dqn.doctor.patient import Patient
from ps_dqn.telemetry.measured import Measured

ILL = trained(env_failures__hung=1)


def _found(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> dict:
    assert doctor.main(["doctor", str(folder), "--format=json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_what_people_are_told(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make(tmp_path / "run", "--total_env_steps=9000", "--env_timeout=5", rows=ILL)

    assert doctor.main(["doctor", str(folder)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{folder}: CartPole-v1, 9,000 of 9,000 env steps, finished"
    assert lines[2].startswith("bottleneck: gradient takes 63% of the workers' time (environment")
    assert lines[3] == "  change  --update_period=16 (now 8.0)"
    at = lines.index("environments_fail: environments failed: hung 9 times")
    assert lines[at + 1] == "  change  --env_timeout=10 (now 5.0)"
    assert lines[-1].endswith("rules have found something; change one thing at a time")


def test_a_run_that_goes_on_and_one_that_was_cut_off(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make(tmp_path / "run", "--total_env_steps=90000", rows=ILL, reason="")
    lock = folder / "lock"
    lock.write_text(f"{os.getpid()} {socket.gethostname()}\n")
    assert _found(folder, capsys)["state"] == "goes on"

    lock.unlink()
    (folder / "logs").mkdir()
    (folder / "logs" / "worker-0.log").write_text(
        "I0000 chatter\nTraceback (most recent call last):\n  File x\nmy.OwnError: of no use\nbye\n"
    )
    found = _found(folder, capsys)
    assert found["state"] == "cut off"
    (said,) = [each["seen"] for each in found["findings"] if each["rule"] == "cut_off"]
    assert said.endswith("without a word of its end; worker-0.log: my.OwnError: of no use")


def test_a_run_that_has_only_begun(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make(tmp_path / "run", reason="")
    (folder / "lock").write_text(f"{os.getpid()} {socket.gethostname()}\n")
    assert doctor.main(["doctor", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "bottleneck: nothing is known yet" in out
    assert out.endswith("nothing has been measured yet: look again after --metrics_period\n")


def test_mistakes_are_one_line(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = make(tmp_path / "a" / "run")
    (made / "flags.txt").write_text("--no_such_flag_any_more=3\n")
    make(tmp_path / "a" / "other")
    for words, said in (
        ([], "no run is named"),
        ([str(tmp_path / "a")], "one run at a time, and there are 2"),
        ([str(made)], "flags.txt: cannot be read by this version"),
        ([str(made), "--format=xml"], "--format"),
        ([str(made), "--trust_run_dir"], "--trust_run_dir: has no effect without --units"),
    ):
        with pytest.raises(SystemExit) as left:
            doctor.main(["doctor", *words])
        assert left.value.code == 2
        assert said in only_error(capsys.readouterr().err)


RUNS = {
    "hardly anything goes right": (
        (
            *("--value_distribution=c51", "--v_min=-0.1", "--v_max=0.1", "--num_atoms=5"),
            *("--epsilon_schedule=constant", "--target_update_period=100000"),
            *("--min_replay_size=200", "--max_grad_norm=1e-5"),
        ),
        {
            "returns_leave_the_atoms": "--v_m",
            "epsilon_stays_high": "--epsilon_schedule=linear",
            "target_never_updated": "--target_update_period=",
            "gradients_are_clipped": "--max_grad_norm=",
        },
    ),
    "nothing is learned": (
        ("--min_replay_size=4000", "--eval_period=100000", "--epsilon_decay_steps=100"),
        {
            "learns_late": "--min_replay_size=",
            "epsilon_ends_early": "--epsilon_decay_steps=10%",
        },
    ),
    "steps are far too long": (
        ("--learning_rate=100", "--optimizer=sgd", "--max_grad_norm=0", "--min_replay_size=200"),
        {"not_finite|q_values_diverge": "--learning_rate=", "dormant_units": "--learning_rate="},
    ),
    "environments fail": (
        (
            *("--env_module=support.misbehaving_env", "--env_id=Misbehaving-v0"),
            *('--env_kwargs={"how": "raises", "at": 60}', "--min_replay_size=200"),
        ),
        {"environments_fail": "ps-dqn reproduce "},
    ),
}


@pytest.mark.parametrize(
    "name", tiered(RUNS, slow=("hardly anything goes right", "environments fail"))
)
def test_real_runs_that_are_ill(coordinate, tmp_path: pathlib.Path, name: str) -> None:
    flags, wanted = RUNS[name]
    folder, ended = coordinate(
        "run",
        *CATCH,
        *("--total_env_steps=3000", "--metrics_period=300", "--eval_period=1000"),
        *("--target_return=inf", "--replay_capacity=5000"),
        *flags,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr

    more = ["--units"] if "dormant_units" in wanted else []
    said = run_python(["-m", "ps_dqn.doctor", folder, "--format=json", *more], tmp_path)
    assert said.returncode == 0, said.stdout + said.stderr

    changes = {each["rule"]: each["change"] for each in json.loads(said.stdout)["findings"]}
    for rules, change in wanted.items():
        proposed = [changes[rule] for rule in rules.split("|") if rule in changes]
        assert proposed, f"{rules} is not in {changes}"
        assert proposed[0].startswith(change)


@pytest.mark.parametrize(
    ("flags", "workers"),
    [
        (["--num_workers=3"], 3),
        (["--worker_hosts=c:1"], 1),
        (["--worker_hosts=c-{}:1", "--num_workers=4"], 4),
        (["--preset=ape_x,cartpole"], 3),
    ],
)
def test_it_knows_how_many_workers_there_are(
    flags: list[str], workers: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []
    examine = doctor.examine

    def hear(run: Measured, config: Config, num_workers: int) -> Patient:
        found.append(num_workers)
        return examine(run, config, num_workers)

    monkeypatch.setattr(doctor, "examine", hear)
    assert doctor.main(["doctor", str(make(tmp_path / "run", *flags))]) == 0
    assert found == [workers]
