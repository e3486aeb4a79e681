"""The alerts: about metrics that there are, and right about what is wrong."""

import pathlib
import shutil
import subprocess
from typing import NamedTuple

import pytest
import yaml
from support.monitoring import (
    ALERTS,
    MONITORING,
    OURS,
    metric_names,
    needs_kubectl,
    needs_promtool,
    promtool,
)

from ps_dqn.telemetry import figures

RULES = {rule["alert"]: rule for group in ALERTS["groups"] for rule in group["rules"]}


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("up == 0", {"up"}),
        ('a{b="c{d}", e=~"$f"} / ignoring (g) group_left sum by (h) (rate(i:j[5m]))', {"a", "i:j"}),
        ("topk(10, k) unless on (l, m) n offset 5m", {"k", "n"}),
        ("2e3 * x > bool 1.5 and ignoring(y) z", {"x", "z"}),
    ],
)
def test_the_reader_of_promql_finds_the_metrics(expression: str, names: set[str]) -> None:
    assert metric_names(expression) == names


def test_alerts_are_about_metrics_that_there_are() -> None:
    for name, rule in RULES.items():
        assert metric_names(rule["expr"]) <= OURS | {"up"}, name


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    assert len(RULES) == 6
    for name, rule in RULES.items():
        assert rule["labels"]["severity"] in {"warning", "critical"}, name
        assert set(rule["annotations"]) == {"summary", "description"}, name
        assert rule["for"], name


def test_the_operators_rules_are_the_plain_ones() -> None:
    rules = yaml.safe_load((MONITORING / "operator" / "rules.yaml").read_text())
    assert rules["kind"] == "PrometheusRule"
    assert rules["spec"] == ALERTS


@needs_kubectl
def test_the_component_for_the_operator_can_be_listed(tmp_path: pathlib.Path) -> None:
    shutil.copytree(MONITORING / "operator", tmp_path / "operator")
    (tmp_path / "kustomization.yaml").write_text("components: [operator]\nnamespace: runs\n")
    ran = subprocess.run(
        ["kubectl", "kustomize", str(tmp_path)], capture_output=True, text=True, check=True
    )
    found = {each["kind"]: each["metadata"] for each in yaml.safe_load_all(ran.stdout)}
    assert set(found) == {"PodMonitor", "PrometheusRule"}
    assert all(each["namespace"] == "runs" for each in found.values())


@needs_promtool
def test_prometheus_takes_the_alerts() -> None:
    assert "6 rules found" in promtool("check", "rules", MONITORING / "alerts.yaml")


class Case(NamedTuple):
    """What Prometheus has scraped, a sample a minute, and what must come of it."""

    name: str
    alert: str
    series: dict[str, str]
    at: str  # time since the first sample
    firing: list[str]  # by namespace


def of_task(component: str, namespace: str = "a", instance: str = "x") -> str:
    return (
        f'namespace="{namespace}",app_kubernetes_io_name="ps-dqn",'
        f'app_kubernetes_io_component="{component}",app_kubernetes_io_instance="{instance}"'
    )


def run(state: str = "training", **metrics: str) -> dict[str, str]:
    """What a coordinator says for an hour, in one state all the time; metrics less their prefix."""
    labels = of_task("coordinator")
    states = {
        f'ps_dqn_state{{{labels},state="{each}"}}': f"{int(each == state)}x60"
        for each in figures.STATES
    }
    return states | {f"ps_dqn_{name}{{{labels}}}": values for name, values in metrics.items()}


def up(component: str, values: str, namespace: str = "a", instance: str = "x") -> dict[str, str]:
    return {f"up{{{of_task(component, namespace, instance)}}}": values}


WORKERS = up("worker", "1x60")
NONE = "PsDqnNoCoordinator"
WAITS = "PsDqnWaitsForTasks"
STALLED = "PsDqnNoProgress"
MISSING = "PsDqnWorkersMissing"
STALE = "PsDqnStalenessOverBound"
OLD = "PsDqnCheckpointTooOld"
CASES = [
    Case("workers_alone", NONE, WORKERS, "11m", ["a"]),
    Case("workers_alone_for_a_moment", NONE, WORKERS, "9m", []),
    Case("not_reached", NONE, WORKERS | up("coordinator", "0x60"), "11m", ["a"]),
    Case("reached", NONE, WORKERS | up("coordinator", "1x60"), "30m", []),
    Case("gone_later", NONE, WORKERS | up("coordinator", "1x9 stale"), "25m", ["a"]),
    Case("of_another_run", NONE, WORKERS | up("coordinator", "1x60", "a", "y"), "11m", ["a"]),
    Case("of_another_namespace", NONE, WORKERS | up("coordinator", "1x60", "b"), "11m", ["a"]),
    Case("workers_gone_too", NONE, up("worker", "0x60"), "30m", []),
    Case("connects", WAITS, run("connecting"), "6m", ["a"]),
    Case("connects_briefly", WAITS, run("connecting"), "4m", []),
    Case("connected", WAITS, run("training"), "30m", []),
    Case("stands_still", STALLED, run(env_steps_total="0+100x10 1000x60"), "27m", ["a"]),
    Case("stood_still_for_a_moment", STALLED, run(env_steps_total="0+100x10 1000x60"), "20m", []),
    Case("goes_on", STALLED, run(env_steps_total="0+1x60"), "60m", []),
    Case("slow", STALLED, run(env_steps_total="0x11 9x11 18x11"), "23m", []),
    Case("begun_and_still", STALLED, run(env_steps_total="0x60"), "11m", ["a"]),
    Case("resumed_further_back", STALLED, run(env_steps_total="900+1x10 100+1x30"), "25m", []),
    Case("ended", STALLED, run("ended", env_steps_total="1000x60"), "60m", []),
    Case("connects_without_steps", STALLED, run("connecting"), "60m", []),
    Case("some_report", MISSING, run(workers="8x60", workers_reporting="7x60"), "6m", ["a"]),
    Case("some_begin", MISSING, run(workers="8x60", workers_reporting="0 4 8x60"), "1m", []),
    Case("all_report", MISSING, run(workers="8x60", workers_reporting="8x60"), "60m", []),
    Case("seldom", MISSING, run(workers="8x60", workers_reporting="8 1x8 8 1x8 8 1x8"), "19m", []),
    Case("one_lost", MISSING, run(workers="8x60", workers_reporting="8x10 7x60"), "27m", ["a"]),
    Case("replaced", MISSING, run(workers="8x60", workers_reporting="8x10 7x5 8x60"), "27m", []),
    Case("stops", MISSING, run("stopping", workers="8x60", workers_reporting="0x60"), "60m", []),
    Case("too_stale", STALE, run(staleness_mean="21x60", staleness_bound="20x60"), "6m", ["a"]),
    Case("too_stale_yet", STALE, run(staleness_mean="21x60", staleness_bound="20x60"), "4m", []),
    Case(
        "too_stale_with_gaps",
        STALE,
        run(staleness_mean="21" + " stale 21" * 10, staleness_bound="20x60"),
        "9m",
        ["a"],
    ),
    Case(
        "stale_for_a_moment",
        STALE,
        run(staleness_mean="9x10 21x6 9x60", staleness_bound="20x60"),
        "17m",
        [],
    ),
    Case("at_the_bound", STALE, run(staleness_mean="20x60", staleness_bound="20x60"), "60m", []),
    Case("unbounded", STALE, run(staleness_mean="2000x60"), "60m", []),
    Case(
        "does_not_save",
        OLD,
        run(checkpoint_age_seconds="0+60x60", checkpoint_period_seconds="60x60"),
        "8m",
        ["a"],
    ),
    Case(
        "does_not_save_yet",
        OLD,
        run(checkpoint_age_seconds="0+60x60", checkpoint_period_seconds="60x60"),
        "6m",
        [],
    ),
    Case(
        "saves_late",
        OLD,
        run(checkpoint_age_seconds="0 60 120 180 240 300 0 60", checkpoint_period_seconds="60x60"),
        "5m",
        [],
    ),
    Case(
        "saves_seldom",
        OLD,
        run(checkpoint_age_seconds="0+60x60", checkpoint_period_seconds="3600x60"),
        "60m",
        [],
    ),
    Case(
        "never_saves_as_asked",
        OLD,
        run(checkpoint_age_seconds="0+60x60", checkpoint_period_seconds="Inf Inf Inf Inf Inf Inf"),
        "8m",
        [],
    ),
    Case(
        "has_ended",
        OLD,
        run("ended", checkpoint_age_seconds="0+60x60", checkpoint_period_seconds="60x60"),
        "60m",
        [],
    ),
]


@needs_promtool
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert}-{case.name}")
def test_alert(case: Case, tmp_path: pathlib.Path) -> None:
    firing = [
        {"labels": f'firing{{namespace="{namespace}"}}', "value": 1} for namespace in case.firing
    ]
    query = (
        f'label_replace(count by (namespace) (ALERTS{{alertname="{case.alert}",'
        f'alertstate="firing"}}), "__name__", "firing", "", "")'
    )
    unit = {
        "interval": "1m",
        "input_series": [{"series": name, "values": each} for name, each in case.series.items()],
        "promql_expr_test": [{"expr": query, "eval_time": case.at, "exp_samples": firing}],
    }
    path = tmp_path / "test.yaml"
    rules = str(MONITORING / "alerts.yaml")
    path.write_text(yaml.safe_dump({"rule_files": [rules], "tests": [unit]}))
    assert "SUCCESS" in promtool("test", "rules", path)


def test_each_alert_is_seen_to_fire_and_not_to_fire() -> None:
    for alert in RULES:
        outcomes = {bool(case.firing) for case in CASES if case.alert == alert}
        assert outcomes == {True, False}, alert
