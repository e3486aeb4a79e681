"""What an actor task tells Prometheus, and what of inference is not there where nobody infers."""

import math

import pytest

from ps_dqn.telemetry import metrics, prometheus
from ps_dqn.telemetry.figures import ActorFigures
from ps_dqn.telemetry.ledger import WorkerLedger
from ps_dqn.telemetry.report import Report

ACTOR = ActorFigures(1, steps=9, env_steps=70, waited_seconds=1.5, env_seconds=2.5)
SAMPLES = {
    "ps_dqn_actor_connected": 1,
    "ps_dqn_actor_env_steps_total": 70,
    "ps_dqn_actor_inferences_total": 9,
    "ps_dqn_actor_waiting_seconds_total": 1.5,
    "ps_dqn_actor_environment_seconds_total": 2.5,
}


def test_every_metric_says_what_the_figures_say() -> None:
    pytest.importorskip("prometheus_client")
    found = {
        sample.name: sample.value
        for family in prometheus.actor(lambda: ACTOR).collect()
        for sample in family.samples
    }
    assert found == SAMPLES


def test_a_worker_that_acts_itself_infers_for_nobody() -> None:
    ledger = WorkerLedger()
    fields = dict.fromkeys(Report._fields, 0.0) | {"updates": 3.0}
    ledger.add(Report(**fields))
    for metric in metrics.METRICS:
        if metric.name.startswith("inference/"):
            assert metric.value is not None
            assert math.isnan(metric.value.compute(ledger, 1.0)), metric.name
