"""The dashboard: about metrics that there are, of tasks that are found."""

import collections
import itertools
import json
import pathlib
import re
import subprocess
from collections.abc import Iterator

import yaml
from support.monitoring import (
    ALERTS,
    DASHBOARD,
    MONITORING,
    OTHERS,
    OURS,
    metric_names,
    needs_kubectl,
    needs_promtool,
    promtool,
)

PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def dashboard_expressions() -> Iterator[str]:
    for panel in PANELS:
        for target in panel["targets"]:
            yield target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield re.fullmatch(r"label_values\((.*), \w+\)", variable["query"]["query"])[1]


def test_the_dashboard_shows_metrics_that_there_are() -> None:
    shown = set().union(*map(metric_names, dashboard_expressions()))
    assert shown <= OURS | OTHERS
    # What a role tells and nobody sees is likely forgotten.
    assert OURS - shown == {
        "ps_dqn_updates_total",  # of the workers: these go on when the coordinator is resumed
        "ps_dqn_episodes_total",
        "ps_dqn_version",
        "ps_dqn_worker_closures_total",
        "ps_dqn_ps_version",
        "ps_dqn_ps_parameters",
    }


def test_every_query_is_of_the_chosen_namespace_and_run() -> None:
    for panel in PANELS:
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
        for target in panel["targets"]:
            chosen = target["expr"].count('{namespace=~"$namespace", app_kubernetes_io_instance=~')
            assert chosen == len(re.findall(r"\{", target["expr"])) > 0, target["expr"]
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource", "namespace", "instance"}


def test_panels_have_ids_and_places_of_their_own() -> None:
    everything = DASHBOARD["panels"]
    ids = collections.Counter(panel["id"] for panel in everything)
    assert ids.most_common(1)[0][1] == 1
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in everything)
    for first, second in itertools.combinations(everything, 2):
        a, b = first["gridPos"], second["gridPos"]
        apart = (
            a["x"] + a["w"] <= b["x"]
            or b["x"] + b["w"] <= a["x"]
            or a["y"] + a["h"] <= b["y"]
            or b["y"] + b["h"] <= a["y"]
        )
        assert apart, f"{first['title']} and {second['title']} overlap"


def test_queries_of_a_panel_have_letters_of_their_own() -> None:
    for panel in PANELS:
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == sorted(set(letters)), panel["title"]


@needs_promtool
def test_queries_of_the_dashboard_are_promql(tmp_path: pathlib.Path) -> None:
    rules = [
        {"record": f"query_{i}", "expr": expression.replace("$__rate_interval", "1m")}
        for i, expression in enumerate(dashboard_expressions())
    ]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", path)


@needs_kubectl
def test_grafana_finds_the_dashboard_by_its_label() -> None:
    ran = subprocess.run(
        ["kubectl", "kustomize", str(MONITORING)], capture_output=True, text=True, check=True
    )
    [config] = yaml.safe_load_all(ran.stdout)
    assert config["kind"] == "ConfigMap"
    assert config["metadata"] == {
        "name": "ps-dqn-dashboard",
        "labels": {"grafana_dashboard": "1"},
    }
    assert json.loads(config["data"]["dashboard.json"]) == DASHBOARD


# How tasks are found.


def test_both_ways_to_find_tasks_give_them_the_labels_that_are_asked_for() -> None:
    used = set(re.findall(r"app_kubernetes_io_\w+", json.dumps([DASHBOARD, ALERTS])))

    monitor = yaml.safe_load((MONITORING / "operator" / "pod-monitor.yaml").read_text())
    assert [each["port"] for each in monitor["spec"]["podMetricsEndpoints"]] == ["health"]
    assert {re.sub(r"\W", "_", name) for name in monitor["spec"]["podTargetLabels"]} == used

    [job] = yaml.safe_load((MONITORING / "scrape.yaml").read_text())["scrape_configs"]
    [keep, label_map, namespace, pod] = job["relabel_configs"]
    assert (keep["action"], keep["regex"]) == ("keep", "ps-dqn;health")
    assert (namespace["target_label"], pod["target_label"]) == ("namespace", "pod")
    for label in used:
        mapped = re.fullmatch(label_map["regex"], f"__meta_kubernetes_pod_label_{label}")
        assert mapped
        assert mapped[1] == label


@needs_promtool
def test_prometheus_takes_the_scrape_config(tmp_path: pathlib.Path) -> None:
    config = yaml.safe_load((MONITORING / "scrape.yaml").read_text())
    [job] = config["scrape_configs"]
    # A promtool may be built without Kubernetes.
    assert job.pop("kubernetes_sd_configs") == [{"role": "pod"}]
    path = tmp_path / "prometheus.yaml"
    path.write_text(yaml.safe_dump(config))
    assert "is valid prometheus config file" in promtool("check", "config", path)
