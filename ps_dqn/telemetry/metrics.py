"""What a run measures, each metric declared once: its name, its unit, its sum and who shows it.

A line of `METRICS` is all that another metric needs, beside the place that measures it. Where that
is a worker, it adds to a measure that the line names (`worker/roles/session.py`), and the measure
travels in the worker's `Report`.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from ps_dqn.config.faults import ENV_FAILURES

# Where a worker's time goes: into its work, and the rest. Adding is handing experience over to
# replay servers. Where actors have the environments, a learner waits for them in environment.
# Waiting is for other workers, in rounds and where actors and learners keep pace;
# dispatch is for the coordinator, from the end of one closure to the beginning of the next;
# evaluation is playing for others to see. Learning, pulls and pushes may go on beside the
# environments; then their phases have only what the worker waited for when it had made its steps.
WORK = ("environment", "acting", "adding", "sampling", "gradient", "pull", "push")
PHASES = (*WORK, "waiting", "dispatch", "evaluation")


class Totals(Protocol):
    """Measures added up: of one worker or of all, over some time."""

    def total(self, *measures: str) -> float:
        """The sum of measures."""

    def count(self, measure: str) -> int:
        """How many reports had a measure."""

    def largest(self, measure: str) -> float:
        """The largest of the measure; NaN where there was none."""


class Formula(NamedTuple):
    """How a metric follows from measures."""

    compute: Callable[[Totals, float], float]  # of the totals, and the seconds they are of
    measures: tuple[str, ...]
    rule: str = "sum"  # over a worker's reports: "sum", "max" or "last"


def total(*measures: str) -> Formula:
    """The sum of measures over workers and time."""
    return Formula(lambda totals, _: totals.total(*measures), measures)


def per_second(measure: str, nothing: float = 0.0) -> Formula:
    """The sum of a measure, by time; `nothing` where there was none."""

    def compute(totals: Totals, seconds: float) -> float:
        return totals.total(measure) / seconds or nothing

    return Formula(compute, (measure,))


def mean(measure: str, over: tuple[str, ...], scale: float = 1.0) -> Formula:
    """The sum of a measure divided by that of others; NaN where that is 0."""

    def compute(totals: Totals, _: float) -> float:
        count = totals.total(*over)
        return scale * totals.total(measure) / count if count else math.nan

    return Formula(compute, (measure, *over))


def mean_report(measure: str, nothing: float = math.nan) -> Formula:
    """The mean of a measure over the reports that have it; NaN for `nothing`, or where none has."""

    def compute(totals: Totals, _: float) -> float:
        count = totals.count(measure)
        mean = totals.total(measure) / count if count else math.nan
        return math.nan if mean == nothing else mean

    return Formula(compute, (measure,))


def largest(measure: str, scale: float = 1.0, nothing: float = 0.0) -> Formula:
    """The largest of a measure over workers and time; `nothing` where it is 0."""
    return Formula(lambda totals, _: scale * totals.largest(measure) or nothing, (measure,), "max")


def newest(measure: str) -> Formula:
    """Each worker's last, summed over workers."""
    return Formula(lambda totals, _: totals.total(measure), (measure,), "last")


class Family(NamedTuple):
    """A name in Prometheus, of one metric or of several that a label tells apart."""

    name: str
    help: str
    labels: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Prometheus' type, which the name follows."""
        return "counter" if self.name.endswith("_total") else "gauge"


@dataclasses.dataclass(frozen=True)
class Metric:
    """One metric of the workers' doing, or of the run's."""

    name: str  # column of metrics.csv and tag in TensorBoard; "": it is shown by worker only
    unit: str
    value: Formula | None = None  # None: the coordinator measures it
    _: dataclasses.KW_ONLY
    since_start: bool = False  # of the whole session, not of an interval
    worker: str = ""  # column of workers.csv: the same of one worker
    prometheus: Family | None = None  # counters since the session began, gauges of late
    key: str = ""  # value of the family's label
    display: str = ""  # name in the live display
    form: str = ".1f"  # how the display writes it
    is_rare: bool = False  # most runs have none, and the display says nothing of it then


# Pushes that came to the parameter servers with a vector, those whose vector a worker kept to
# itself, and all that went there and back; of an actor only counters do.
DECIDED = ("pushes", "refused")
WITHHELD = ("withheld_outliers", "withheld_not_finite", "withheld_overflows")
COLLECTED = "collected"
# Updates whose losses are known: not skipped for an overflow, and of finite numbers.
MEASURED = ("measured",)
EXCHANGES = (*DECIDED, *WITHHELD, COLLECTED)

_PUSHES = Family(
    "ps_dqn_pushes_total",
    "Pushes applied, refused by the parameter servers, or withheld by their worker.",
    ("outcome",),
)
_PHASES = Family(
    "ps_dqn_phase_seconds_total", "Time of all workers in each phase of what they do.", ("phase",)
)


_ENV_FAILURES = Family(
    "ps_dqn_env_failures_total",
    "Failures of environments, none of which is learned from.",
    ("kind",),
)


def _gauge(name: str, help_text: str) -> Family:
    return Family(f"ps_dqn_{name}", help_text)


METRICS: tuple[Metric, ...] = (
    Metric("", "updates", total("updates"), worker="updates_made"),
    Metric("", "env steps", total("env_steps"), worker="env_steps_made"),
    Metric("seconds", "s"),
    Metric("train/episode_return", "", mean("return_sum", over=("episodes",)), display="return",
           prometheus=_gauge("episode_return", "Mean return of recent episodes.")),
    Metric("eval/episode_return", ""),
    Metric("eval/episode_return_min", ""),
    Metric("eval/episode_return_max", ""),
    Metric("eval/confirmed_return", ""),
    Metric("train/td_loss", "", mean("td_loss", over=MEASURED)),
    Metric("train/q_values", "", mean("q_values", over=MEASURED)),
    Metric("train/grad_norm", "", mean("grad_norm", over=MEASURED)),
    Metric("train/entropy", "nats", mean("entropy", over=MEASURED)),
    Metric("train/loss_scale", "", mean_report("loss_scale")),
    Metric("train/sparsity", "share of parameters", mean_report("sparsity", nothing=0.0)),
    Metric("train/skipped_updates", "updates", total("skipped_updates"), worker="updates_skipped"),
    Metric("train/returns_outside_atoms", "share of episodes",
           mean("returns_outside", over=("episodes",))),
    Metric("train/staleness", "versions", mean("staleness", over=DECIDED),
           worker="staleness", display="staleness",
           prometheus=_gauge("staleness_mean", "Mean staleness of recent pushes (versions).")),
    Metric("train/staleness_max", "versions", largest("staleness_max"), worker="staleness_max",
           prometheus=_gauge("staleness_max", "Largest staleness of recent pushes (versions).")),
    Metric("train/epsilon", "probability", mean_report("epsilon"), display="epsilon", form=".3f",
           prometheus=_gauge("epsilon", "Probability of a random action.")),
    Metric("replay/size", "rows", newest("replay_size"), since_start=True),
    # Of replay servers: transitions, and bytes of what was added and of draws since they began.
    Metric("replay/adds_per_second", "transitions/s"),
    Metric("replay/samples_per_second", "transitions/s"),
    Metric("replay/bytes_in", "bytes"),
    Metric("replay/bytes_out", "bytes"),
    # Of the workers' processes, and of what they have started: see `memory`.
    Metric("memory/workers", "bytes", newest("memory"), since_start=True, worker="memory"),
    Metric("rate/env_steps_per_second", "env steps/s", per_second("env_steps"),
           display="env steps/s", form=",.0f"),
    Metric("rate/updates_per_second", "updates/s", per_second("updates"),
           display="updates/s", form=",.0f"),
    # Of learners that infer for actors: environments acted in at once, what an actor waits for its
    # actions, from what it has shown to them, and actors that are connected.
    Metric("inference/batch_size", "environments", mean("inferred", over=("inferences",)),
           worker="inference_batch_size", display="inference batch", is_rare=True,
           prometheus=_gauge("inference_batch_size", "Mean environments acted in at once.")),
    Metric("inference/latency_ms", "ms", mean("answer_took", over=("answers",), scale=1e3),
           worker="inference_latency_ms", display="inference latency (ms)", is_rare=True),
    Metric("inference/latency_ms_max", "ms", largest("answer_max", scale=1e3, nothing=math.nan),
           worker="inference_latency_ms_max"),
    Metric("inference/per_second", "batches/s", per_second("inferences", nothing=math.nan)),
    Metric("inference/actors", "tasks", mean_report("actors", nothing=0.0),
           worker="inference_actors"),
    Metric("push/applied", "pushes", total("pushes"), worker="pushes_applied",
           prometheus=_PUSHES, key="applied"),
    Metric("push/refused", "pushes", total("refused"), worker="pushes_refused",
           prometheus=_PUSHES, key="refused"),
    Metric("push/withheld", "pushes", total(*WITHHELD), worker="pushes_withheld",
           prometheus=_PUSHES, key="withheld"),
    Metric("push/collected", "pushes", total(COLLECTED), worker="pushes_collected",
           prometheus=_PUSHES, key="collected"),
    Metric("wire/bytes_pulled", "bytes", total("bytes_pulled"), since_start=True,
           worker="bytes_pulled"),
    Metric("wire/bytes_pushed", "bytes", total("bytes_pushed"), since_start=True,
           worker="bytes_pushed"),
    Metric("wire/bytes_pulled_per_update", "bytes", mean("bytes_pulled", over=("updates",))),
    Metric("wire/bytes_pushed_per_update", "bytes", mean("bytes_pushed", over=("updates",))),
    Metric("wire/pull_ms", "ms", mean("pull_took", over=EXCHANGES, scale=1e3), worker="pull_ms"),
    Metric("wire/pull_ms_max", "ms", largest("pull_max", scale=1e3)),
    Metric("wire/push_ms", "ms", mean("push_took", over=EXCHANGES, scale=1e3), worker="push_ms"),
    Metric("wire/push_ms_max", "ms", largest("push_max", scale=1e3)),
    # Load of the busiest parameter server, as a multiple of the mean.
    Metric("wire/shard_balance", "mean load"),
    # Time for an update, as a multiple of the median worker's.
    Metric("workers/slowest", "median worker's time", worker="slowness"),
    Metric("workers/failed_writes", "writes", total("failed_writes"), worker="failed_writes"),
    *(
        Metric(f"env_failures/{kind}", "failures", total(f"env_{kind}"), worker=f"env_{kind}",
               prometheus=_ENV_FAILURES, key=kind)
        for kind in ENV_FAILURES
    ),
    *(
        Metric(f"time/{phase}", "s", total(f"time_{phase}"), worker=f"time_{phase}",
               prometheus=_PHASES, key=phase)
        for phase in PHASES
    ),
)  # fmt: skip


def known(row: Mapping[str, float]) -> dict[str, float]:
    """What a row measures: NaN stands for what it does not."""
    return {name: value for name, value in row.items() if not math.isnan(value)}


def columns() -> tuple[str, ...]:
    """The columns of metrics.csv after the counters; empty where a row does not measure them."""
    return tuple(metric.name for metric in METRICS if metric.name)


def worker_columns() -> tuple[str, ...]:
    """The columns of workers.csv after the counters and the worker's index."""
    return tuple(metric.worker for metric in METRICS if metric.worker)


def measures() -> dict[str, str]:
    """What workers measure for the metrics, and the rule by which each adds up."""
    formulas = [metric.value for metric in METRICS if metric.value is not None]
    return {measure: each.rule for each in formulas for measure in each.measures}
