"""What each role tells Prometheus: every name of the table, with what the role's figures say."""

import dataclasses
import http.client
import math
import shutil
import subprocess
import threading
from collections.abc import Callable

import pytest
from prometheus_client import parser

from ps_dqn.cluster import health
from ps_dqn.state import Counters
from ps_dqn.telemetry import prometheus
from ps_dqn.telemetry.figures import (
    STATES,
    EvaluatorFigures,
    RecoveryFigures,
    RunFigures,
    ServerFigures,
    TaskFailure,
    WorkerFigures,
)
from ps_dqn.telemetry.metrics import PHASES

RUN = RunFigures(
    state="training",
    env_steps_goal=500_000,
    workers=8,
    checkpoint_period=60.0,
    staleness_bound=20,
    counters=Counters(70, updates=4480, env_steps=35_840, episodes=123, sequential_updates=2240),
    eval_return=-3.25,
    best_return=0.0,
    workers_reporting=7,
    checkpoint_age=12.5,
    closures_lost=3,
    failed_writes=2,
    recovery=RecoveryFigures(
        recoveries=2,
        recovery_seconds=7.5,
        pushes_again=40,
        updates_lost=0,
        goodput=0.875,
        task_failures=[TaskFailure("worker 3", "silent", 2, 12.5, 1, 4.0)],
    ),
    recent={
        "train/episode_return": 101.5,
        "train/epsilon": 0.05,
        "train/staleness": 6.5,
        "train/staleness_max": 13.0,
        "push/applied": 5.0,
        "inference/batch_size": 2.5,
    },
    session={
        "train/epsilon": 0.5,
        "push/applied": 70.0,
        "push/refused": 2.0,
        "push/withheld": 0.0,
        "push/collected": 4.0,
        "env_failures/hung": 4.0,
        **{f"time/{phase}": float(i) for i, phase in enumerate(PHASES)},
    },
)
RUN_SAMPLES = {
    "ps_dqn_env_steps_total": 35_840,
    "ps_dqn_updates_total": 4480,
    "ps_dqn_episodes_total": 123,
    "ps_dqn_version": 70,
    "ps_dqn_env_steps_goal": 500_000,
    "ps_dqn_episode_return": 101.5,
    "ps_dqn_eval_return": -3.25,
    "ps_dqn_best_return": 0,
    "ps_dqn_epsilon": 0.05,
    "ps_dqn_staleness_mean": 6.5,
    "ps_dqn_staleness_max": 13,
    "ps_dqn_inference_batch_size": 2.5,
    "ps_dqn_staleness_bound": 20,
    "ps_dqn_workers": 8,
    "ps_dqn_workers_reporting": 7,
    "ps_dqn_checkpoint_age_seconds": 12.5,
    "ps_dqn_checkpoint_period_seconds": 60,
    "ps_dqn_pushes_total{outcome=applied}": 70,
    "ps_dqn_pushes_total{outcome=refused}": 2,
    "ps_dqn_pushes_total{outcome=withheld}": 0,
    "ps_dqn_pushes_total{outcome=collected}": 4,
    "ps_dqn_env_failures_total{kind=hung}": 4,
    "ps_dqn_closures_lost_total": 3,
    "ps_dqn_failed_writes_total": 2,
    "ps_dqn_task_failures_total{kind=silent,task=worker 3}": 2,
    "ps_dqn_task_detection_seconds_total{kind=silent,task=worker 3}": 12.5,
    "ps_dqn_task_recoveries_total{kind=silent,task=worker 3}": 1,
    "ps_dqn_task_recovery_seconds_total{kind=silent,task=worker 3}": 4,
    "ps_dqn_recoveries_total": 2,
    "ps_dqn_recovery_seconds_total": 7.5,
    "ps_dqn_pushes_again_total": 40,
    "ps_dqn_updates_lost_total": 0,
    "ps_dqn_goodput": 0.875,
    "ps_dqn_phase_seconds_total{phase=environment}": 0,
    "ps_dqn_phase_seconds_total{phase=acting}": 1,
    "ps_dqn_phase_seconds_total{phase=adding}": 2,
    "ps_dqn_phase_seconds_total{phase=sampling}": 3,
    "ps_dqn_phase_seconds_total{phase=gradient}": 4,
    "ps_dqn_phase_seconds_total{phase=pull}": 5,
    "ps_dqn_phase_seconds_total{phase=push}": 6,
    "ps_dqn_phase_seconds_total{phase=waiting}": 7,
    "ps_dqn_phase_seconds_total{phase=dispatch}": 8,
    "ps_dqn_phase_seconds_total{phase=evaluation}": 9,
    "ps_dqn_state{state=connecting}": 0,
    "ps_dqn_state{state=training}": 1,
    "ps_dqn_state{state=stopping}": 0,
    "ps_dqn_state{state=ended}": 0,
}
WORKER = WorkerFigures(
    env_steps=5120,
    updates=640,
    closures=10,
    replay_rows=5000,
    replay_bytes=2_000_000,
    phase_seconds={"environment": 1.5, "waiting": 0.0},
)
WORKER_SAMPLES = {
    "ps_dqn_worker_env_steps_total": 5120,
    "ps_dqn_worker_updates_total": 640,
    "ps_dqn_worker_closures_total": 10,
    "ps_dqn_worker_replay_rows": 5000,
    "ps_dqn_worker_replay_bytes": 2_000_000,
    "ps_dqn_worker_phase_seconds_total{phase=environment}": 1.5,
    "ps_dqn_worker_phase_seconds_total{phase=waiting}": 0,
}
SERVER = ServerFigures(
    version=70,
    parameters=17_411,
    pulls=81,
    pushes=72,
    sent_bytes=2**40,
    received_bytes=4096,
    busy_seconds=0.125,
)
SERVER_SAMPLES = {
    "ps_dqn_ps_version": 70,
    "ps_dqn_ps_parameters": 17_411,
    "ps_dqn_ps_pulls_total": 81,
    "ps_dqn_ps_pushes_total": 72,
    "ps_dqn_ps_sent_bytes_total": 2**40,
    "ps_dqn_ps_received_bytes_total": 4096,
    "ps_dqn_ps_busy_seconds_total": 0.125,
}
EVALUATOR = EvaluatorFigures(mean_return=487.5, env_steps=30_000, evaluations=4)
EVALUATOR_SAMPLES = {
    "ps_dqn_evaluator_return": 487.5,
    "ps_dqn_evaluator_env_steps": 30_000,
    "ps_dqn_evaluations_total": 4,
}
ROLES: dict[str, tuple[Callable[..., object], object, dict[str, float]]] = {
    "coordinator": (prometheus.coordinator, RUN, RUN_SAMPLES),
    "worker": (prometheus.worker, WORKER, WORKER_SAMPLES),
    "parameter_server": (prometheus.parameter_server, SERVER, SERVER_SAMPLES),
    "evaluator": (prometheus.evaluator, EVALUATOR, EVALUATOR_SAMPLES),
}


def scrape(collector: object) -> str:
    """What Prometheus would get."""
    server = health.start(0, lambda: "", lambda: "", collector)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request("GET", health.METRICS)
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, text
        return text
    finally:
        connection.close()
        server.close()


def samples(text: str) -> dict[str, float]:
    """The samples of this package's metrics, by name and label."""
    found = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith("ps_dqn_"):
                labels = ",".join(f"{name}={value}" for name, value in sample.labels.items())
                found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


@pytest.mark.parametrize("role", ROLES)
def test_every_metric_says_what_the_figures_say(role: str) -> None:
    make, figures, expected = ROLES[role]

    assert samples(scrape(make(lambda: figures))) == expected


@pytest.mark.parametrize("role", ROLES)
def test_the_table_has_the_names_and_types_that_are_served(role: str) -> None:
    make, figures, expected = ROLES[role]
    assert {metric.name for metric in prometheus.METRICS[role]} == {
        name.split("{")[0] for name in expected
    }

    lines = scrape(make(lambda: figures)).splitlines()

    for metric in prometheus.METRICS[role]:
        assert f"# TYPE {metric.name} {metric.kind}" in lines
        assert f"# HELP {metric.name} {metric.help}" in lines


def test_what_only_grows_is_a_counter() -> None:
    counters = {
        metric.name
        for metrics in prometheus.METRICS.values()
        for metric in metrics
        if metric.kind == "counter"
    }
    assert {"ps_dqn_env_steps_total", "ps_dqn_ps_busy_seconds_total"} <= counters
    assert not {"ps_dqn_version", "ps_dqn_worker_replay_bytes"} & counters


def test_a_coordinator_that_connects_tells_what_it_knows() -> None:
    figures = RunFigures(
        state="connecting",
        env_steps_goal=1000,
        workers=2,
        checkpoint_period=math.inf,
        staleness_bound=None,
    )

    # Counters that began at 0 would seem to leap when the run turns out to be resumed.
    assert samples(scrape(prometheus.coordinator(lambda: figures))) == {
        "ps_dqn_env_steps_goal": 1000,
        "ps_dqn_workers": 2,
        "ps_dqn_checkpoint_period_seconds": math.inf,
        "ps_dqn_state{state=connecting}": 1,
        "ps_dqn_state{state=training}": 0,
        "ps_dqn_state{state=stopping}": 0,
        "ps_dqn_state{state=ended}": 0,
    }


def test_an_evaluator_that_waits_has_played_nothing() -> None:
    figures = EvaluatorFigures()
    assert samples(scrape(prometheus.evaluator(lambda: figures))) == {"ps_dqn_evaluations_total": 0}


@pytest.mark.parametrize("make", [prometheus.worker, prometheus.parameter_server])
def test_a_task_that_has_not_been_called_yet_has_the_metrics_of_its_process(
    make: Callable[..., object],
) -> None:
    text = scrape(make(lambda: None))
    assert samples(text) == {}
    assert "\nprocess_resident_memory_bytes " in text


def test_figures_are_read_when_they_are_asked_for() -> None:
    read: list[threading.Thread] = []

    def figures() -> EvaluatorFigures:
        read.append(threading.current_thread())
        return EvaluatorFigures(evaluations=len(read))

    collector = prometheus.evaluator(figures)
    assert not read
    for number in (1, 2):
        assert samples(scrape(collector))["ps_dqn_evaluations_total"] == number
    assert threading.current_thread() not in read


@pytest.mark.parametrize("state", STATES)
def test_a_run_is_in_one_state(state: str) -> None:
    figures = dataclasses.replace(RUN, state=state)
    shown = samples(scrape(prometheus.coordinator(lambda: figures)))
    states = {name: value for name, value in shown.items() if name.startswith("ps_dqn_state{")}
    assert len(states) == len(STATES)
    assert [name for name, value in states.items() if value] == [f"ps_dqn_state{{state={state}}}"]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool, part of Prometheus")
def test_names_follow_the_conventions_of_prometheus(role: str) -> None:
    make, figures, _ = ROLES[role]
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=scrape(make(lambda: figures)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
