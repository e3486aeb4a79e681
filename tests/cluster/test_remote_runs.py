"""Tasks that others start learn in every way: one after the other, by one server and one worker."""

import csv
import json
import pathlib
from typing import Any

import pytest
from support.processes import Processes
from support.remote_tasks import MODULES
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from ps_dqn.cluster import ports
from ps_dqn.cluster.spec import ClusterSpec, Task

SHORT = (
    *("--cluster=remote", "--num_envs=8", "--hidden_sizes=16,16", "--jit_compile=none"),
    *("--eval_period=100000", "--eval_episodes=2", "--confirm_episodes=0", "--target_return=inf"),
    *("--total_env_steps=2400", "--metrics_period=400"),
)
VALUES = ("--local_updates=8", "--min_replay_size=200", "--replay_capacity=4000")
SPARSE = ("--pruning=rigl", "--sparsity=0.8", "--pruning_changes=4")


def events(trace: pathlib.Path) -> set[str]:
    """The names of what a task has recorded."""
    space = xplane_pb2.XSpace.FromString(trace.read_bytes())
    return {each.name for plane in space.planes for each in plane.event_metadata.values()}


class Runs:
    """Runs on the same tasks, each of which came to its end."""

    def __init__(self, processes: Processes, spec: ClusterSpec, folder: pathlib.Path):
        self._processes, self._spec, self._folder = processes, spec, folder
        for job in ("ps", "worker"):
            self._start(job)

    def _start(self, job: str, *flags: str) -> Any:
        place = self._spec.tf_config(Task(job, 0))
        return self._processes.start("-m", MODULES[job], *flags, TF_CONFIG=place)

    def run(self, name: str, *flags: str) -> dict[str, Any]:
        """The summary of one."""
        running = self._start("chief", f"--run_dir={self._folder / name}", *SHORT, *flags)
        assert running.ended() == 0, running.text
        summary = json.loads((self._folder / name / "summary.json").read_text())
        assert summary["env_steps"] >= 2_400
        assert summary["updates"] > 0
        return summary

    def traces(self, name: str) -> dict[str, set[str]]:
        """What each task has recorded of itself."""
        paths = (self._folder / name / "tensorboard" / "plugins" / "profile").glob("*/*.xplane.pb")
        return {path.name.removesuffix(".xplane.pb"): events(path) for path in paths}

    def metric(self, name: str, column: str) -> list[float]:
        with (self._folder / name / "metrics.csv").open(newline="") as file:
            return [float(x) for row in csv.DictReader(file) if (x := row[column])]


@pytest.mark.slow
def test_each_way_to_learn_comes_to_its_end(processes: Processes, tmp_path: pathlib.Path) -> None:
    runs = Runs(processes, ports.on_this_machine(1, 1), tmp_path)

    # A policy that is acted with in 8 bits, and most of whose weights are zero.
    options = ("--acting_precision=int8", *SPARSE, "--profile=4:16")
    summary = runs.run("a3c", "--preset=a3c", *options)
    assert summary["sparsity"]["all"] == pytest.approx(0.8, abs=0.01)
    assert len(runs.metric("a3c", "train/entropy")) > 0
    traces = runs.traces("a3c")
    assert traces.keys() == {"coordinator", "ps-0", "worker-0"}
    # Nothing else of a worker is compiled here.
    assert any("CpuExecutable" in name for name in traces["worker-0"])

    summary = runs.run("bfloat16", *VALUES, "--precision=bfloat16", *SPARSE, "--profile=64:128")
    assert summary["sparsity"]["all"] == pytest.approx(0.8, abs=0.01)
    traces = runs.traces("bfloat16")
    assert {"pull", "push"} <= traces["ps-0"]
    assert {"plan", "sample"} <= traces["worker-0"]
    assert not any("CpuExecutable" in name for name in traces["worker-0"])

    runs.run("float16", *VALUES, "--precision=float16")
    assert min(runs.metric("float16", "train/loss_scale")) >= 1
