"""What each role tells Prometheus: read when it is asked for, from what the role knows anyway.

A role hands over a function that returns its figures. It is called on the thread that serves
metrics while the role goes on, so it must read, not change, and iterate over copies. A figure that
is None or NaN is not known, and left out.
"""

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ps_dqn.telemetry import metrics
from ps_dqn.telemetry.figures import (
    ActorFigures,
    EvaluatorFigures,
    ReplayFigures,
    RunFigures,
    ServerFigures,
    WorkerFigures,
)
from ps_dqn.telemetry.metrics import Family

# A number, or one for each value of the family's label or labels.
_Value = float | None | Mapping[Any, float]


def _from_figure(name: str, help_text: str, figure: str, *labels: str) -> tuple[Family, Any]:
    """A family whose value is an attribute of the role's figures."""
    return Family(name, help_text, labels), operator.attrgetter(figure)


def _from_tasks(name: str, help_text: str, number: str) -> tuple[Family, Any]:
    """A family of what has failed of each task."""

    def read(figures: RunFigures) -> _Value:
        return figures.recovery.of_tasks(number)

    return Family(name, help_text, ("task", "kind")), read


def _from_metrics() -> Iterable[tuple[Family, Callable[[RunFigures], _Value]]]:
    """The families that the run's metrics name."""
    members: dict[Family, list[metrics.Metric]] = {}
    for metric in metrics.METRICS:
        if metric.prometheus is not None:
            members.setdefault(metric.prometheus, []).append(metric)
    return [(family, _reader(family, each)) for family, each in members.items()]


def _reader(family: Family, members: list[metrics.Metric]) -> Callable[[RunFigures], _Value]:
    def read(figures: RunFigures) -> _Value:
        values = figures.session if family.kind == "counter" else figures.recent
        if family.labels:
            return {each.key: values[each.name] for each in members if each.name in values}
        return values.get(members[0].name)

    return read


# By role: the families, and how each is read off the role's figures.
_FAMILIES: dict[str, tuple[tuple[Family, Callable[[Any], _Value]], ...]] = {
    "coordinator": (
        _from_figure(
            "ps_dqn_env_steps_total",
            "Environment steps of the run, those before it was resumed included.",
            "counters.env_steps",
        ),
        _from_figure(
            "ps_dqn_updates_total",
            "Minibatch gradients applied, those before the run was resumed included.",
            "counters.updates",
        ),
        _from_figure(
            "ps_dqn_episodes_total",
            "Finished episodes, those before the run was resumed included.",
            "counters.episodes",
        ),
        _from_figure("ps_dqn_version", "Changes of the parameters by pushes.", "counters.version"),
        _from_figure(
            "ps_dqn_env_steps_goal", "Environment steps that end the run.", "env_steps_goal"
        ),
        _from_figure("ps_dqn_eval_return", "Mean return of the last evaluation.", "eval_return"),
        _from_figure("ps_dqn_best_return", "Mean return of the best checkpoint.", "best_return"),
        _from_figure(
            "ps_dqn_staleness_bound",
            "Staleness above which pushes are refused (versions); absent where none are.",
            "staleness_bound",
        ),
        _from_figure("ps_dqn_workers", "Workers that the run is for.", "workers"),
        _from_figure(
            "ps_dqn_workers_reporting",
            "Workers heard of since they began or were last lost.",
            "workers_reporting",
        ),
        _from_figure(
            "ps_dqn_checkpoint_age_seconds",
            "Time since the newest checkpoint, or since training began.",
            "checkpoint_age",
        ),
        _from_figure(
            "ps_dqn_checkpoint_period_seconds",
            "Time from one checkpoint to the next, as asked for.",
            "checkpoint_period",
        ),
        _from_figure(
            "ps_dqn_closures_lost_total",
            "Closures whose result was lost with their worker.",
            "closures_lost",
        ),
        _from_figure(
            "ps_dqn_failed_writes_total",
            "Writes to the run directory that failed, each of which was tried again.",
            "failed_writes",
        ),
        _from_tasks(
            "ps_dqn_task_failures_total",
            "Tasks that were lost, did not answer or did not end a closure, in this process.",
            "failures",
        ),
        _from_tasks(
            "ps_dqn_task_detection_seconds_total",
            "Time from the last sign of tasks that failed until it was noticed.",
            "detection_seconds",
        ),
        _from_tasks(
            "ps_dqn_task_recoveries_total",
            "Failures of tasks after which they have worked again.",
            "recoveries",
        ),
        _from_tasks(
            "ps_dqn_task_recovery_seconds_total",
            "Time from the notice of those failures until they worked again.",
            "recovery_seconds",
        ),
        _from_figure(
            "ps_dqn_recoveries_total",
            "Connections to the tasks made again after one was lost.",
            "recovery.recoveries",
        ),
        _from_figure(
            "ps_dqn_recovery_seconds_total",
            "Time without a connection to train on.",
            "recovery.recovery_seconds",
        ),
        _from_figure(
            "ps_dqn_pushes_again_total",
            "Pushes made again that lost parameter servers had applied.",
            "recovery.pushes_again",
        ),
        _from_figure(
            "ps_dqn_updates_lost_total",
            "Updates that were applied and are lost.",
            "recovery.updates_lost",
        ),
        _from_figure(
            "ps_dqn_goodput",
            "Share of the time since training began with a connection to train on.",
            "recovery.goodput",
        ),
        _from_figure("ps_dqn_state", "1 for the run's state, 0 for others.", "states", "state"),
        *_from_metrics(),
    ),
    "worker": (
        _from_figure("ps_dqn_worker_env_steps_total", "Environment steps made.", "env_steps"),
        _from_figure("ps_dqn_worker_updates_total", "Minibatch gradients computed.", "updates"),
        _from_figure("ps_dqn_worker_closures_total", "Training closures ended.", "closures"),
        _from_figure("ps_dqn_worker_replay_rows", "Rows that can be sampled.", "replay_rows"),
        _from_figure(
            "ps_dqn_worker_replay_bytes",
            "Memory or disk that replay takes once it is full.",
            "replay_bytes",
        ),
        _from_figure(
            "ps_dqn_worker_phase_seconds_total",
            "Time in each phase of what it does.",
            "phase_seconds",
            "phase",
        ),
    ),
    "parameter_server": (
        _from_figure("ps_dqn_ps_version", "Version of the parameters.", "version"),
        _from_figure("ps_dqn_ps_parameters", "Parameters in this server's shard.", "parameters"),
        _from_figure("ps_dqn_ps_pulls_total", "Pulls answered.", "pulls"),
        _from_figure("ps_dqn_ps_pushes_total", "Pushes received.", "pushes"),
        _from_figure("ps_dqn_ps_sent_bytes_total", "Bytes of pulls answered.", "sent_bytes"),
        _from_figure(
            "ps_dqn_ps_received_bytes_total", "Bytes of pushes received.", "received_bytes"
        ),
        _from_figure(
            "ps_dqn_ps_busy_seconds_total",
            "Time spent on deciding and applying pushes.",
            "busy_seconds",
        ),
    ),
    "replay_server": (
        _from_figure("ps_dqn_replay_rows", "Rows that can be drawn.", "rows"),
        _from_figure(
            "ps_dqn_replay_held_bytes", "Memory or disk of it all once it is full.", "bytes_held"
        ),
        _from_figure("ps_dqn_replay_adds_total", "Transitions added.", "adds"),
        _from_figure("ps_dqn_replay_samples_total", "Transitions drawn.", "samples"),
        _from_figure("ps_dqn_replay_updates_total", "Priorities changed.", "updates"),
        _from_figure("ps_dqn_replay_sent_bytes_total", "Bytes of draws.", "bytes_out"),
        _from_figure("ps_dqn_replay_received_bytes_total", "Bytes of what was added.", "bytes_in"),
        _from_figure("ps_dqn_replay_busy_seconds_total", "Time spent on all of it.", "seconds"),
    ),
    "actor": (
        _from_figure("ps_dqn_actor_connected", "1 where a learner has it.", "connected"),
        _from_figure("ps_dqn_actor_env_steps_total", "Environment steps made.", "env_steps"),
        _from_figure("ps_dqn_actor_inferences_total", "Times it was told what to do.", "steps"),
        _from_figure(
            "ps_dqn_actor_waiting_seconds_total", "Time it waited for actions.", "waited_seconds"
        ),
        _from_figure(
            "ps_dqn_actor_environment_seconds_total",
            "Time in its environments.",
            "env_seconds",
        ),
    ),
    "evaluator": (
        _from_figure(
            "ps_dqn_evaluator_return",
            "Mean return of greedy episodes with the checkpoint played last.",
            "mean_return",
        ),
        _from_figure(
            "ps_dqn_evaluator_env_steps",
            "Environment steps of the run when that checkpoint was saved.",
            "env_steps",
        ),
        _from_figure("ps_dqn_evaluations_total", "Checkpoints played.", "evaluations"),
    ),
}
METRICS = {role: tuple(family for family, _ in each) for role, each in _FAMILIES.items()}


class _Collector:
    """A Prometheus collector of one role's metrics."""

    def __init__(self, role: str, read: Callable[[], Any]):
        self._families, self._read = _FAMILIES[role], read

    def collect(self) -> Iterable[Any]:
        """The metrics now; none where there are no figures."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        families = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
        figures = self._read()
        if figures is None:
            return
        for family, value_of in self._families:
            shown = families[family.kind](family.name, family.help, labels=family.labels)
            value = value_of(figures)
            for key, number in (value if isinstance(value, Mapping) else {(): value}).items():
                if number is not None and not math.isnan(number):
                    shown.add_metric([key] if isinstance(key, str) else key, number)
            yield shown


def coordinator(read: Callable[[], RunFigures]) -> _Collector:
    """The collector of a coordinator."""
    return _Collector("coordinator", read)


def worker(read: Callable[[], WorkerFigures | None]) -> _Collector:
    """The collector of a worker, which has no figures until it has joined a run."""
    return _Collector("worker", read)


def parameter_server(read: Callable[[], ServerFigures | None]) -> _Collector:
    """The collector of a parameter server, which has no figures until it holds parameters."""
    return _Collector("parameter_server", read)


def replay_server(read: Callable[[], ReplayFigures | None]) -> _Collector:
    """The collector of a replay server, which has no figures until it is in a run."""
    return _Collector("replay_server", read)


def actor(read: Callable[[], ActorFigures]) -> _Collector:
    """The collector of an actor task."""
    return _Collector("actor", read)


def evaluator(read: Callable[[], EvaluatorFigures]) -> _Collector:
    """The collector of an evaluator."""
    return _Collector("evaluator", read)
