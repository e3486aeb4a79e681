"""Each rule finds its illness, in a run that has it, and only there."""

import dataclasses
import math
from typing import Any, NamedTuple

import pytest
from support.command_lines import parsed
from support.patients import findings, patient, trained

from ps_dqn.doctor import diagnosis, speed
from ps_dqn.flags import experiment

NO_EVALUATION = {"eval__episode_return": math.nan}


class Ill(NamedTuple):
    """A run, what is said of it, what to change, and how it is well."""

    rule: str
    flags: tuple[str, ...]
    rows: dict[str, Any]
    seen: str
    change: str
    well_flags: tuple[str, ...]
    well_rows: dict[str, Any]
    about: dict[str, Any] = {}  # noqa: RUF012 - never changed
    well_about: dict[str, Any] = {}  # noqa: RUF012


CASES = (
    Ill("learns_late", ("--min_replay_size=7000",), {},
        "learning begins after --min_replay_size=7,000 of 9,000 env steps; 1,125 updates so far",
        "--min_replay_size=450", ("--min_replay_size=4000",), {}),
    Ill("not_finite", (), {"push__withheld": [0, 2] + [1] * 7},
        "kept back 9 pushes", "--learning_rate=0.0001",
        ("--outlier_gate=4",), {"push__withheld": 1}),  # which keeps back outliers
    Ill("not_finite", ("--precision=bfloat16",), {"push__withheld": [0] * 8 + [2]},
        "kept back 2 pushes", "--learning_rate=0.0001",
        ("--precision=float16",), {"push__withheld": 1}),  # which keeps back overflows
    Ill("not_finite", ("--learning_rate=0.004",), {"train__td_loss": [1.0] * 8 + [math.inf]},
        "train/td_loss not finite", "--learning_rate=0.0004", (), {}),
    Ill("q_values_diverge", ("--learning_rate=0.004",),
        {"train__q_values": [10.0**i for i in range(9)]},
        "as far as 100,000,000 from 0 in the mean (now 100,000,000), and no return was beyond 430",
        "--learning_rate=0.001", (), {"train__q_values": [40.0 * i for i in range(9)]}),
    Ill("q_values_diverge", ("--target_update_period=0", "--nodouble_dqn"),
        {"train__q_values": [10.0**i for i in range(9)]},
        "Q-values were", "--target_update_period=128", ("--nodouble_dqn",), {}),
    Ill("q_values_diverge", ("--nodouble_dqn",),
        {"train__q_values": [10.0**i for i in range(9)]},
        "Q-values were", "--double_dqn=true", ("--nodouble_dqn",), {}),
    Ill("returns_leave_the_atoms", ("--value_distribution=c51", "--gamma=1"),
        {"train__returns_outside_atoms": 0.5},
        "50% of late episodes had discounted returns outside of --v_min=-10 to --v_max=10",
        "--v_max=860", ("--value_distribution=c51",), {"train__returns_outside_atoms": 0.05}),
    Ill("returns_leave_the_atoms", ("--value_distribution=hl_gauss", "--gamma=1"),
        {"train__returns_outside_atoms": 0.5, "train__episode_return": [-30.0] * 9,
         "eval__episode_return": [-30.0] * 8 + [5.0]},
        "(returns were -30 to 5)", "--v_min=-60",
        ("--value_distribution=hl_gauss", "--value_rescaling"),
        {"train__returns_outside_atoms": 0.5}),
    Ill("replay_ratio", ("--update_period=512",), {"sequential_updates": 17, "updates": 17},
        "learned from 0.136 times: 64 for each update, an update every 512 env steps",
        "--update_period=8", ("--update_period=64",), {}),
    Ill("replay_ratio", ("--update_period=0.5", "--batch_size=256"),
        {"sequential_updates": [2000.0 * i for i in range(1, 10)]},
        "each transition is learned from 576 times", "--update_period=32",
        ("--batch_size=256",), {}),
    Ill("epsilon_ends_early", ("--epsilon_decay_steps=500",), {},
        "epsilon was at 0.05 after 500 of 9,000 env steps, and the first update needs 1,000",
        "--epsilon_decay_steps=10%", ("--epsilon_decay_steps=2000",), {}),
    Ill("epsilon_ends_early", ("--epsilon_decay_steps=500",), {}, "", "--epsilon_decay_steps=10%",
        ("--epsilon_decay_steps=500", "--noisy"), {}),
    Ill("epsilon_stays_high", (), {"train__epsilon": 0.7},
        "70% of the actions were still random after 9,000 env steps",
        "--epsilon_decay_steps=10%", ("--epsilon_ladder",), {"train__epsilon": 0.7}),
    Ill("epsilon_stays_high", (), {"train__epsilon": 0.7}, "70%", "--epsilon_decay_steps=10%",
        ("--total_env_steps=90000",), {"train__epsilon": 0.7}, {}, {"state": "solved"}),
    Ill("epsilon_stays_high", ("--epsilon_schedule=constant",), {"train__epsilon": 1.0},
        "100%", "--epsilon_schedule=linear", (), {}),
    Ill("epsilon_stays_high", ("--epsilon_end=0.5",), {"train__epsilon": 0.5},
        "50%", "--epsilon_end=0.05", ("--total_env_steps=90000",), {"train__epsilon": 0.7},
        {}, {"state": "goes on"}),
    Ill("gradients_are_clipped", ("--max_grad_norm=10",), {"train__grad_norm": 37.0},
        "their norm is 37 in the mean, --max_grad_norm is 10", "--max_grad_norm=74",
        ("--max_grad_norm=10",), {"train__grad_norm": [37.0] * 8 + [4.0]}),
    Ill("target_never_updated", ("--target_update_period=50000",), {},
        "1,125 sequential updates, --target_update_period is 50,000",
        "--target_update_period=64", ("--tau=0.01", "--target_update_period=128"), {}),
    Ill("replay_too_small", ("--replay_capacity=1300",),
        {"replay__size": 800.0, "episodes": [10 * i for i in range(1, 10)]},
        "holds 800 transitions, the last 8 episodes of 100 steps each, of 90 so far",
        "--replay_capacity=10000", (), {}),
    Ill("dormant_units", ("--learning_rate=0.003",), {},
        "42% of the hidden units hardly ever answer", "--learning_rate=0.001", (), {},
        {"dormant_units": 0.42}, {"dormant_units": 0.2}),
    Ill("no_evaluations", ("--eval_period=50000",), NO_EVALUATION,
        "no evaluation in 9,000 env steps; --eval_period is 50,000", "--eval_period=900",
        ("--eval_period=50000",), NO_EVALUATION, {}, {"state": "goes on"}),
    Ill("never_beyond_random", ("--learning_rate=0.003",), {"eval__episode_return": 21.0},
        "the best of 9 evaluations is 21, and random actions made 20", "--learning_rate=0.001",
        (), {}),
    Ill("never_beyond_random", ("--epsilon_decay_steps=2000",),
        {"eval__episode_return": -200.0, "train__episode_return": -200.0},
        "no episode was ever better than another", "--epsilon_decay_steps=50%",
        (), {"eval__episode_return": -110.0, "train__episode_return": -200.0}),
    Ill("never_beyond_random", (),
        {"eval__episode_return": -200.0, "train__episode_return": -200.0},
        "no episode was ever better than another", "--epsilon_decay_steps=100%",
        (), {"eval__episode_return": -110.0, "train__episode_return": -200.0}),
    Ill("learning_collapses", ("--learning_rate=0.003",),
        {"eval__episode_return": [30.0, 100.0, 490.0, 480.0, 500.0, 90.0, 9.0, 9.0, 10.0]},
        "evaluations fell from 500 to 10 at the end; random actions made 20",
        "--learning_rate=0.001", (),
        {"eval__episode_return": [30.0, 100.0, 490.0, 480.0, 500.0, 90.0, 9.0, 9.0, 400.0]}),
    Ill("learning_rate_ends_early", ("--learning_rate_decay_steps=500", "--learning_rate_end=1e-6"),
        {}, "from 0.001 to 1e-06 in the first 500 of 9,000 env steps",
        "--learning_rate_decay_steps=80%", ("--learning_rate_decay_steps=500",), {}),
    Ill("evaluation_takes_long", (), {"time__evaluation": 9.0},
        "50% of the workers' time goes into 9 evaluations of 20 episodes", "--eval_period=90000",
        (), {}),
    Ill("dispatch_takes_long", ("--pushes_per_closure=1",), {"time__dispatch": 9.0},
        "49% of the workers' time they wait", "--pushes_per_closure=4", (), {}),
    Ill("slow_worker", ("--num_workers=3",), {"workers__slowest": 3.0},
        "the slowest worker takes 3 times", "--backup_workers=1",
        ("--num_workers=3", "--aggregation=async"), {"workers__slowest": 3.0}),
    Ill("stale_pushes", ("--aggregation=async",), {"train__staleness": 9.5},
        "9.5 versions old in the mean (at most 3), with 2 workers", "--max_staleness=4",
        ("--aggregation=async", "--num_workers=5"), {"train__staleness": 9.5}),
    Ill("refused_pushes", ("--aggregation=async", "--max_staleness=1"), {"push__refused": 10},
        "50% of 180 pushes were refused as older than --max_staleness=1", "--max_staleness=2",
        ("--aggregation=async", "--max_staleness=1"), {"push__refused": 1}),
    Ill("environments_fail", (), {"env_failures__raised": 3, "env_failures__hung": 1},
        "raised 27 times, hung 9 times", "ps-dqn reproduce failure.json", (), {},
        {"failure_file": "failure.json"}),
    Ill("environments_fail", ("--env_timeout=5",), {"env_failures__hung": 1},
        "hung 9 times", "--env_timeout=10", (), {}),
    Ill("environments_fail", (), {"env_failures__not_finite": 1},
        "not_finite 9 times", "--vectorization=async", (), {}),
    Ill("tasks_fail", (), {}, "failures of tasks (worker 0): 2 lost", "--replay_memory=25%", (), {},
        {"task_failures": [{"task": "worker 0", "kind": "lost", "failures": 2}]},
        {"task_failures": []}),
    Ill("tasks_fail", ("--worker_timeout=30",), {}, "1 overdue", "--worker_timeout=60", (), {},
        {"task_failures": [{"task": "worker 1", "kind": "overdue", "failures": 1}]}),
    Ill("tasks_fail", (), {}, "4 silent", "--ps_timeout=12", (), {},
        {"task_failures": [{"task": "parameter server 0", "kind": "silent", "failures": 4}]}),
    Ill("updates_lost", (), {}, "256 updates were lost with parameter servers (1 recoveries)",
        "--snapshot_period=1", (), {}, {"updates_lost": 256, "recoveries": 1}),
    Ill("cut_off", (), {}, "after 9,000 env steps without a word of its end; worker-0.log: Boom",
        "ps-dqn train --resume --run_dir=runs/patient", (), {},
        {"state": "cut off", "last_words": "worker-0.log: Boom"}, {"state": "stopped"}),
    Ill("cut_off", (), {}, "no log says why", "ps-dqn train --flagfile=runs/patient/flags.txt", (),
        {}, {"state": "cut off", "can_go_on": False}, {"state": "stopped"}),
)  # fmt: skip
IDS = [f"{case.rule}-{i}" for i, case in enumerate(CASES)]


def test_every_rule_has_a_case() -> None:
    assert {case.rule for case in CASES} == {rule.__name__ for rule in diagnosis.RULES}


def test_a_run_that_does_well_is_healthy() -> None:
    assert findings(patient("--learning_rate_decay_steps=50%", "--epsilon_decay_steps=50%")) == {}


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_rule_finds_its_illness(case: Ill) -> None:
    found = findings(patient(*case.flags, rows=trained(**case.rows), **case.about))

    assert case.rule in found
    assert case.seen in found[case.rule].seen
    assert found[case.rule].change == case.change
    assert found[case.rule].expect


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_rule_finds_nothing_where_nothing_is(case: Ill) -> None:
    well = patient(*case.well_flags, rows=trained(**case.well_rows), **case.well_about)
    assert case.rule not in findings(well)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_what_is_to_be_changed_can_be(case: Ill) -> None:
    if case.change.startswith("--"):
        values = parsed("--total_env_steps=9000", *case.flags, case.change)
        assert experiment.read(values) != experiment.read(parsed(*case.flags))


def test_every_rule_stands_a_run_that_has_measured_nothing() -> None:
    for state in ("goes on", "stopped"):
        who = patient(rows=[], state=state)
        assert findings(who) == {}
        assert diagnosis.make(who).bottleneck is None


@pytest.mark.parametrize(
    ("phase", "flags", "change"),
    [
        ("environment", (), "--num_envs=128"),
        ("environment", ("--num_envs_per_worker=8",), "--num_envs_per_worker=16"),
        ("acting", (), "--num_envs=128"),
        ("sampling", ("--replay=prioritized",), "--replay=uniform"),
        ("sampling", (), "--batch_size=32"),
        ("gradient", ("--update_period=4",), "--update_period=8"),
        ("pull", ("--local_updates=1",), "--local_updates=16"),
        ("pull", (), "--pull_wire_dtype=bfloat16"),
        ("push", (), "--push_wire_dtype=bfloat16"),
        ("push", ("--push_wire_dtype=int8", "--local_updates=32"), "--local_updates=64"),
        ("waiting", (), "--aggregation=async"),
        ("dispatch", (), "--pushes_per_closure=16"),
        ("evaluation", ("--eval_period=1000",), "--eval_period=14000"),
    ],
)
def test_the_bottleneck_says_what_to_change(
    phase: str, flags: tuple[str, ...], change: str
) -> None:
    times = {"time__gradient": 4.0, "time__environment": 1.0, "time__evaluation": 0.0}
    metrics = {**times, f"time__{phase}": 8.0}
    if phase in ("environment", "acting"):
        metrics["time__environment"] = 0.9  # of 1,000 steps, less than a millisecond each
        metrics[f"time__{phase}"] = 0.9
        metrics["time__gradient"] = 0.1
        if phase == "acting":
            metrics["time__environment"] = 0.2

    found = speed.bottleneck(patient(*flags, rows=trained(**metrics)))

    assert found is not None
    assert (found.rule, found.change) == (phase, change)
    assert f"{phase} takes" in found.seen
    experiment.read(parsed(*flags, change))


def test_environments_that_take_long_get_processes_of_their_own() -> None:
    rows = trained(time__environment=30.0)
    for flags, change in (
        ((), "--vectorization=async"),
        (("--vectorization=async",), "--num_workers=3"),
    ):
        found = speed.bottleneck(patient(*flags, rows=rows))
        assert found is not None
        assert found.change == change


def test_slowest_of_many_is_not_waited_for() -> None:
    rows = trained(time__waiting=9.0, workers__slowest=4.0)
    found = speed.bottleneck(patient("--num_workers=4", rows=rows))
    assert found is not None
    assert found.change == "--backup_workers=1"


ADDING_UP = ("--strategy=all_reduce", "--local_updates=1", "--num_workers=4")


@pytest.mark.parametrize(
    ("rows", "about"),
    [
        *[({f"time__{phase}": 9.0}, {}) for phase in ("pull", "push", "waiting", "gradient")],
        ({"workers__slowest": 4.0}, {}),
        ({}, {"updates_lost": 640, "recoveries": 1}),
    ],
)
def test_what_is_to_be_changed_goes_with_adding_up(
    rows: dict[str, Any], about: dict[str, Any]
) -> None:
    diagnosed = diagnosis.make(patient(*ADDING_UP, rows=trained(**rows), **about))
    told = [diagnosed.bottleneck, *diagnosed.findings]
    changes = {each.change for each in told if each is not None and each.change.startswith("--")}
    assert changes
    for change in changes:
        experiment.read(parsed("--total_env_steps=9000", *ADDING_UP, change))


def test_patients_are_not_changed() -> None:
    who = patient(dormant_units=0.125)  # a number: NaN is not equal to itself
    copy = dataclasses.replace(who)
    diagnosis.make(who)
    assert who == copy
