"""The files of k8s/monitoring, and the tools that understand them."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

from ps_dqn.telemetry import prometheus

MONITORING = pathlib.Path(__file__).parents[2] / "k8s" / "monitoring"
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
ALERTS = yaml.safe_load((MONITORING / "alerts.yaml").read_text())

OURS = {metric.name for metrics in prometheus.METRICS.values() for metric in metrics}
# Prometheus' own, and what prometheus-client says of any process.
OTHERS = {"up", "process_resident_memory_bytes"}

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool, part of Prometheus"
)
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")


def promtool(*arguments: object) -> str:
    """Runs it; what it says."""
    ran = subprocess.run(
        ["promtool", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def metric_names(expression: str) -> set[str]:
    """The metrics that a PromQL expression reads."""
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)  # strings, which may have anything
    text = re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", text)  # label matchers, ranges
    text = re.sub(
        r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", text
    )  # label names
    text = re.sub(r"\b[a-zA-Z_]\w*(?=\s*\()", " ", text)  # functions and aggregations
    words = re.findall(r"(?<![\w.$])[a-zA-Z_:][\w:]*", text)
    return set(words) - {"and", "or", "unless", "bool", "offset", "group_left", "group_right"}
