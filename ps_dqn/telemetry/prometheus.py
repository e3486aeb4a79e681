"""What each role tells Prometheus: read when it is asked for, from what the role knows anyway.

A role hands over a function that returns its figures. It is called on the thread that serves
metrics while the role goes on, so it must read, not change, and iterate over copies. A figure that
is None or NaN is not known, and left out.
"""

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ps_dqn.telemetry.figures import EvaluatorFigures, RunFigures, ServerFigures, WorkerFigures


class Metric(NamedTuple):
    """One metric of a role."""

    name: str
    help: str
    figure: str  # attribute of the role's figures: a number, or one for each value of the label
    label: str = ""

    @property
    def kind(self) -> str:
        """Prometheus' type, which the name follows."""
        return "counter" if self.name.endswith("_total") else "gauge"


# By role.
METRICS = {
    "coordinator": (
        Metric(
            "ps_dqn_env_steps_total",
            "Environment steps of the run, those before it was resumed included.",
            "counters.env_steps",
        ),
        Metric(
            "ps_dqn_updates_total",
            "Minibatch gradients applied, those before the run was resumed included.",
            "counters.updates",
        ),
        Metric(
            "ps_dqn_episodes_total",
            "Finished episodes, those before the run was resumed included.",
            "counters.episodes",
        ),
        Metric("ps_dqn_version", "Changes of the parameters by pushes.", "counters.version"),
        Metric("ps_dqn_env_steps_goal", "Environment steps that end the run.", "env_steps_goal"),
        Metric("ps_dqn_episode_return", "Mean return of recent episodes.", "episode_return"),
        Metric("ps_dqn_eval_return", "Mean return of the last evaluation.", "eval_return"),
        Metric("ps_dqn_best_return", "Largest mean return of an evaluation.", "best_return"),
        Metric("ps_dqn_epsilon", "Probability of a random action.", "epsilon"),
        Metric(
            "ps_dqn_staleness_mean",
            "Mean staleness of recent pushes (versions).",
            "staleness_mean",
        ),
        Metric(
            "ps_dqn_staleness_max",
            "Largest staleness of recent pushes (versions).",
            "staleness_max",
        ),
        Metric(
            "ps_dqn_staleness_bound",
            "Staleness above which pushes are refused (versions); absent where none are.",
            "staleness_bound",
        ),
        Metric("ps_dqn_workers", "Workers that the run is for.", "workers"),
        Metric("ps_dqn_workers_reporting", "Workers heard of lately.", "workers_reporting"),
        Metric(
            "ps_dqn_checkpoint_age_seconds",
            "Time since the newest checkpoint, or since training began.",
            "checkpoint_age",
        ),
        Metric(
            "ps_dqn_checkpoint_period_seconds",
            "Time from one checkpoint to the next, as asked for.",
            "checkpoint_period",
        ),
        Metric(
            "ps_dqn_pushes_total",
            "Pushes applied, refused by the parameter servers, or withheld by their worker.",
            "pushes",
            "outcome",
        ),
        Metric(
            "ps_dqn_closures_lost_total",
            "Closures whose result was lost with their worker.",
            "closures_lost",
        ),
        Metric(
            "ps_dqn_phase_seconds_total",
            "Time of all workers in each phase of their closures.",
            "phase_seconds",
            "phase",
        ),
        Metric("ps_dqn_state", "1 for the run's state, 0 for others.", "states", "state"),
    ),
    "worker": (
        Metric("ps_dqn_worker_env_steps_total", "Environment steps made.", "env_steps"),
        Metric("ps_dqn_worker_updates_total", "Minibatch gradients computed.", "updates"),
        Metric("ps_dqn_worker_closures_total", "Training closures ended.", "closures"),
        Metric("ps_dqn_worker_replay_rows", "Rows that can be sampled.", "replay_rows"),
        Metric(
            "ps_dqn_worker_replay_bytes",
            "Memory or disk that replay takes once it is full.",
            "replay_bytes",
        ),
        Metric(
            "ps_dqn_worker_phase_seconds_total",
            "Time in each phase of closures.",
            "phase_seconds",
            "phase",
        ),
    ),
    "parameter_server": (
        Metric("ps_dqn_ps_version", "Version of the parameters.", "version"),
        Metric("ps_dqn_ps_parameters", "Parameters in this server's shard.", "parameters"),
        Metric("ps_dqn_ps_pulls_total", "Pulls answered.", "pulls"),
        Metric("ps_dqn_ps_pushes_total", "Pushes received.", "pushes"),
        Metric("ps_dqn_ps_sent_bytes_total", "Bytes of pulls answered.", "sent_bytes"),
        Metric("ps_dqn_ps_received_bytes_total", "Bytes of pushes received.", "received_bytes"),
        Metric(
            "ps_dqn_ps_busy_seconds_total",
            "Time spent on deciding and applying pushes.",
            "busy_seconds",
        ),
    ),
    "evaluator": (
        Metric(
            "ps_dqn_evaluator_return",
            "Mean return of greedy episodes with the checkpoint played last.",
            "mean_return",
        ),
        Metric(
            "ps_dqn_evaluator_env_steps",
            "Environment steps of the run when that checkpoint was saved.",
            "env_steps",
        ),
        Metric("ps_dqn_evaluations_total", "Checkpoints played.", "evaluations"),
    ),
}


class _Collector:
    """A Prometheus collector of one role's metrics."""

    def __init__(self, role: str, read: Callable[[], Any]):
        self._metrics, self._read = METRICS[role], read

    def collect(self) -> Iterable[Any]:
        """The metrics now; none where there are no figures."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        families = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
        figures = self._read()
        if figures is None:
            return
        for metric in self._metrics:
            labels = [metric.label] if metric.label else []
            family = families[metric.kind](metric.name, metric.help, labels=labels)
            value = operator.attrgetter(metric.figure)(figures)
            for key, number in (value if labels else {"": value}).items():
                if number is not None and not math.isnan(number):
                    family.add_metric([key] if labels else [], number)
            yield family


def coordinator(read: Callable[[], RunFigures]) -> _Collector:
    """The collector of a coordinator."""
    return _Collector("coordinator", read)


def worker(read: Callable[[], WorkerFigures | None]) -> _Collector:
    """The collector of a worker, which has no figures until it has joined a run."""
    return _Collector("worker", read)


def parameter_server(read: Callable[[], ServerFigures | None]) -> _Collector:
    """The collector of a parameter server, which has no figures until it holds parameters."""
    return _Collector("parameter_server", read)


def evaluator(read: Callable[[], EvaluatorFigures]) -> _Collector:
    """The collector of an evaluator."""
    return _Collector("evaluator", read)
