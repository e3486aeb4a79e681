"""Another metric: a line of the table, and a line where a worker measures it."""

import json
import pathlib

from support import warm
from support.programs import ROOT

# The line comes before what follows from the table is imported, as if it stood in the table.
PROGRAM = """
import json, pathlib, sys
import numpy as np
from ps_dqn.telemetry import metrics
from ps_dqn.telemetry.metrics import Family, Metric, mean

metrics.METRICS += (
    Metric("train/q_gap", "", mean("q_gap", over=("updates",)), worker="q_gap", display="gap",
           prometheus=Family("ps_dqn_q_gap", "Largest Q minus the second largest.")),
)

from prometheus_client import CollectorRegistry, generate_latest
from rich.console import Console
from ps_dqn.config import Config
from ps_dqn.run import directory
from ps_dqn.run.disk import Disk
from ps_dqn.state import Counters
from ps_dqn.telemetry import prometheus
from ps_dqn.telemetry.display import PlainDisplay
from ps_dqn.telemetry.figures import RunFigures
from ps_dqn.telemetry.observer import Observer
from ps_dqn.telemetry.progress import Progress
from ps_dqn.telemetry.report import Report
from ps_dqn.telemetry.vitals import Vitals
from ps_dqn.telemetry.writers import Writers

folder = pathlib.Path(sys.argv[1])
directory.create(folder)
start = Counters(0, 0, 0, 0, 0)
progress, vitals = Progress(start), Vitals(RunFigures.planned(Config(), 2))
display = PlainDisplay(Console(quiet=True), 60.0)
observer = Observer(vitals, display, Writers(folder), Disk(print))

# What a worker does: it measures by the measure's name, and its report goes as a vector.
for worker, gap in ((0, 3.0), (1, 9.0)):
    measured = {"worker": worker, "updates": 2 + worker, "q_gap": gap}
    fields = {name: measured.get(name, 0.0) for name in Report._fields}
    progress.add(Report.decode(np.array(Report(**fields), np.float64)))

observer.trained(progress, [{"bytes_in": 1, "bytes_out": 1, "staleness": {}}], 1.0)
vitals.show(RunFigures(
    "training", 1, 2, 1.0, None, recent=progress.recent_values(1.0), session={}))
observer.close()
registry = CollectorRegistry()
registry.register(prometheus.coordinator(vitals.read))
print(json.dumps({
    "metrics": directory.read_metrics(folder)[0]["train/q_gap"],
    "workers": [row["q_gap"] for row in directory.read_table(folder / directory.WORKERS)],
    "events": b"train/q_gap" in next((folder / directory.TENSORBOARD).iterdir()).read_bytes(),
    "prometheus": [line for line in generate_latest(registry).decode().splitlines()
                   if "q_gap" in line],
}))
"""


def test_a_line_of_the_table_is_shown_everywhere(tmp_path: pathlib.Path) -> None:
    ran = warm.run_python(["-c", PROGRAM, tmp_path], ROOT)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {
        "metrics": "2.4",  # 12 by 5 updates
        "workers": ["1.5", "3"],
        "events": True,
        "prometheus": [
            "# HELP ps_dqn_q_gap Largest Q minus the second largest.",
            "# TYPE ps_dqn_q_gap gauge",
            "ps_dqn_q_gap 2.4",
        ],
    }
