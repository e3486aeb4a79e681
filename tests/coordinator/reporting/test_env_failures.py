"""What is said of environments that fail, and when they are too many."""

import json

import pytest
from support.reports import report

from ps_dqn.config.faults import ENV_FAILURES, FAILURE_WINDOW
from ps_dqn.coordinator.reporting.env_failures import EnvFailures


def failures_of(most: int, said: list[str]) -> EnvFailures:
    return EnvFailures(most, said.append, lambda worker: f"the log of {worker}")


def test_the_first_of_a_kind_is_said_and_each_time_there_are_ten_times_as_many():
    said = []
    failures = failures_of(10**6, said)
    for _ in range(120):
        failures.hear(report(worker=1, env_steps=10, env_raised=1))
    failures.hear(report(worker=0, env_steps=10, env_hung=2))
    after = "no such step is learned from; its log says more"
    assert said == [
        f"environments of worker 1 raised (once): {after}",
        f"environments of worker 1 raised (10 times so far): {after}",
        f"environments of worker 1 raised (100 times so far): {after}",
        f"environments of worker 0 did not answer within --env_timeout (2 times so far): {after}",
    ]
    assert failures.too_many == ""


@pytest.mark.parametrize("kind", ENV_FAILURES)
def test_each_kind_is_said(kind):
    said = []
    failures_of(10, said).hear(report(worker=0, env_steps=10, **{f"env_{kind}": 1}))
    assert len(said) == 1


def test_no_failure_is_nothing_to_say():
    said = []
    failures = failures_of(0, said)
    failures.hear(report(worker=0, env_steps=5000))
    assert (said, failures.too_many) == ([], "")


def test_too_many_within_a_window_end_the_run():
    failures = failures_of(5, [])
    for _ in range(40):  # half as many as are allowed
        failures.hear(report(worker=0, env_steps=FAILURE_WINDOW / 4, env_raised=0.625))
    assert failures.too_many == ""
    failures.hear(report(worker=1, env_steps=400, env_raised=3, env_malformed=2))
    assert failures.too_many == ""
    failures.hear(report(worker=1, env_steps=200, env_raised=1))
    assert failures.too_many == (
        "environments of worker 1 failed 6 times in 600 steps, more often than "
        "--max_env_failures=5 in 1,000 allows; the log of 1"
    )


def test_a_long_closure_may_have_as_many_more():
    failures = failures_of(5, [])
    failures.hear(report(worker=0, env_steps=4 * FAILURE_WINDOW, env_raised=20))
    assert failures.too_many == ""
    failures.hear(report(worker=0, env_steps=4 * FAILURE_WINDOW, env_raised=21))
    assert failures.too_many


def test_environments_that_never_make_a_step():
    failures = failures_of(5, [])
    failures.hear(report(worker=0, env_steps=0, env_raised=6))
    assert failures.too_many


def test_where_no_step_can_be_learned_from_the_run_ends_in_one_line(coordinate):
    kwargs = json.dumps({"how": "nan observation", "at": 1, "goes_on": True})
    folder, ended = coordinate(
        "nothing",
        "--env_id=support.misbehaving_env:Misbehaving",
        f"--env_kwargs={kwargs}",
        "--overlap=off",  # else its first steps are tried out before
        "--cluster=in_process",
        "--num_workers=1",
        "--hidden_sizes=8",
        "--jit_compile=none",
        "--min_replay_size=200",
    )
    assert ended.returncode == 1
    shown = ended.stdout + ended.stderr
    [line] = [line for line in shown.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: environments of worker 0 failed ")
    assert "Traceback" not in shown
    said = "environments of worker 0 said what is not finite ("
    assert said in shown
    assert json.loads((folder / "summary.json").read_text())["reason"] == "stopped"
