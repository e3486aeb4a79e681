"""What N workers bring and what holds them up: a model of the cost, solved in milliseconds.

A run is a closed queueing network with N customers, the workers. A cycle of a worker is one push:
it spends its own time (environments, acting, minibatches, learning, the way there and back), in
which nobody is in its way, and it queues at what all workers share: the parameter servers, the
coordinator, and the processors where the cluster is on one machine. Exact mean value analysis
(Reiser and Lavenberg 1980, doi:10.1145/322186.322195) gives its rates. It takes N steps of a few
operations, so nothing has to be approximated for 10,000 workers.

What a push is (environment steps, sequential updates) is `config.scaling`'s rule. Since that makes
the work of a push shrink as workers are added, the demands are those of the N that is asked for.
"""

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping

from ps_dqn.config import scaling
from ps_dqn.config.topics import Topics

MOST_WORKERS = 10**9  # where one looks for saturation
PARAMETER_SERVERS, COORDINATOR, CORES = "parameter servers", "coordinator", "cores"


@dataclasses.dataclass(frozen=True)
class Costs:
    """What each part of the work takes.

    Attributes:
        env_step_seconds: one environment's step; a worker steps its own one after another.
        env_step_cpu_seconds: of that, what a processor computes.
        acting_seconds: choosing actions for all of a worker's environments, once.
        sampling_seconds: drawing the minibatch of an update.
        update_seconds: one update.
        start_seconds: what a worker does once: TensorFlow compiles the update.
        pull_bytes: the parameters, as they travel.
        push_bytes: what is pushed, as it travels.
        bandwidth: of the way to and from a server, which its workers share (bytes/s).
        latency_seconds: a pull and a push on their way, however many there are.
        pull_seconds: a server's own time to answer a pull.
        push_seconds: a server's own time to decide on a push and apply it.
        server_seconds_per_byte: what each byte adds to these.
        dispatch_seconds: a worker's idle time between two closures, where nobody queues.
        coordinator_seconds: the coordinator's own time for a closure.
        evaluation_seconds: of a worker, for one evaluation.
        spread: standard deviation of a worker's own time over its mean.
        cores: processors that all tasks share; infinite where each has its own.
    """

    env_step_seconds: float
    update_seconds: float
    env_step_cpu_seconds: float = 0.0
    acting_seconds: float = 0.0
    sampling_seconds: float = 0.0
    start_seconds: float = 0.0
    pull_bytes: float = 0.0
    push_bytes: float = 0.0
    bandwidth: float = math.inf
    latency_seconds: float = 0.0
    pull_seconds: float = 0.0
    push_seconds: float = 0.0
    server_seconds_per_byte: float = 0.0
    dispatch_seconds: float = 0.0
    coordinator_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    spread: float = 0.0
    cores: float = math.inf


def calibrated(known: Costs, config: Topics, row: Mapping[str, str]) -> Costs:
    """What a run of one worker shows, beside what is known otherwise.

    While a worker overlaps, learning, pulls and pushes hide behind the environments, so its
    `gradient` phase is little but TensorFlow's compiling of the update: it counts as start, and
    `update_seconds` and `latency_seconds` are taken as known. Where it does not, updates and the
    way to the servers are what these phases are.

    Args:
        known: what such a run does not show: servers, coordinator, dispatch, bytes, cores.
        config: the run's.
        row: of one worker, by the columns of benchmarks/scaling.py.
    """
    whole, env_steps = float(row["training_seconds"]), float(row["env_steps"])
    names = ("environment", "acting", "sampling", "gradient", "pull", "push", "evaluation")
    took = {name: float(row[name]) * whole for name in names}
    pushes, updates = float(row["version"]), float(row["updates"])
    overlaps = config.parameter_server.overlap == "on"
    evaluations = max(env_steps / config.run.eval_period, 1.0)
    served = push(known, config, 1).demands[PARAMETER_SERVERS]
    on_the_way = max((took["pull"] + took["push"]) / pushes - served, 0.0)
    return dataclasses.replace(
        known,
        env_step_seconds=took["environment"] / env_steps,
        acting_seconds=took["acting"] / env_steps * config.environment.envs_per_worker,
        sampling_seconds=took["sampling"] / updates,
        update_seconds=known.update_seconds if overlaps else took["gradient"] / updates,
        start_seconds=took["gradient"] if overlaps else known.start_seconds,
        latency_seconds=known.latency_seconds if overlaps else on_the_way,
        evaluation_seconds=took["evaluation"] / evaluations,
    )


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What so many workers bring.

    Attributes:
        workers: N.
        env_steps_per_second: of all workers.
        updates_per_second: of all workers.
        sequential_updates_per_second: those that workers make side by side count as one.
        staleness: versions that others make between a pull and its push (mean); 0 in rounds.
        utilisation: of each station, by name (0 to 1).
        start_seconds: before the first push.
    """

    workers: int
    env_steps_per_second: float
    updates_per_second: float
    sequential_updates_per_second: float
    staleness: float
    utilisation: Mapping[str, float]
    start_seconds: float

    def seconds(self, env_steps: float) -> float:
        """How long a run of so many environment steps takes, start included."""
        return self.start_seconds + env_steps / self.env_steps_per_second


@dataclasses.dataclass(frozen=True)
class Push:
    """One worker's cycle, from a push to the next (seconds).

    Attributes:
        env_steps: collected for it (environment steps).
        own: the worker's own time, in which nobody is in its way.
        between: of that, what lies between a push and the next pull.
        beside: of that, learning and the way to the servers where environments are stepped
            meanwhile; None where they are not.
        demands: of each station, by name.
    """

    env_steps: float
    own: float
    between: float
    beside: float | None
    demands: Mapping[str, float]

    @property
    def alone(self) -> float:
        """The cycle where nobody queues (seconds)."""
        return self.own + sum(self.demands.values())


def push(costs: Costs, config: Topics, workers: int, servers: int = 1) -> Push:
    """The cycle of one of so many workers.

    Args:
        costs: of each part.
        config: the run's, not shared out; with overlap=auto a worker does not overlap.
        workers: N.
        servers: each has an equal part of the parameters; a worker asks them side by side.
    """
    options = config.parameter_server
    env_steps = scaling.env_steps_per_push(config, workers)
    vector_steps = env_steps / _share(config, workers).environment.envs_per_worker
    acting = costs.acting_seconds * vector_steps
    sampling = costs.sampling_seconds * options.local_updates
    collecting = costs.env_step_seconds * env_steps + acting + sampling
    learning = costs.update_seconds * options.local_updates
    evaluating = costs.evaluation_seconds * env_steps / config.run.eval_period
    per_byte = costs.server_seconds_per_byte + 1.0 / costs.bandwidth
    moved = (costs.pull_bytes + costs.push_bytes) / servers
    served = costs.pull_seconds + costs.push_seconds + moved * per_byte
    beside = learning + costs.latency_seconds
    overlaps = options.overlap == "on"
    together = max if overlaps else math.fsum
    working = together((collecting, beside + served)) + evaluating
    pushes = scaling.pushes_per_closure(options, workers, working, costs.dispatch_seconds)
    between = costs.dispatch_seconds / pushes
    # The servers' time is a station's, also where it hides behind the environments.
    own = working - served + between
    demands = {PARAMETER_SERVERS: served, COORDINATOR: costs.coordinator_seconds / pushes}
    if math.isfinite(costs.cores):
        stepping = costs.env_step_cpu_seconds * env_steps
        computed = stepping + acting + sampling + learning + evaluating
        # C processors are one of C times the speed, and a delay of the rest (Seidmann et al. 1987);
        # a worker that overlaps uses more than one at a time.
        demands[CORES] = computed / costs.cores
        own = max(own - demands[CORES], 0.0)
    return Push(env_steps, own, between, beside if overlaps else None, demands)


def _share(config: Topics, workers: int) -> Topics:
    """What each of so many workers has of a run, and how they push."""
    names = (each.name for each in dataclasses.fields(Topics))
    return scaling.share_out(Topics(**{name: getattr(config, name) for name in names}), workers)


def mean_values(own: float, demands: Mapping[str, float], customers: int) -> dict[str, float]:
    """Exact mean value analysis of a closed network.

    Args:
        own: time of a cycle that is not spent at any station (seconds).
        demands: time of a cycle that each station needs, by name (seconds).
        customers: at least 1.

    Returns:
        The time of a cycle that is spent at each station, queueing included, by name (seconds).
    """
    queues = dict.fromkeys(demands, 0.0)
    times = dict(demands)
    for present in range(1, customers + 1):
        # Who arrives sees the queues that there are without it.
        times = {name: demand * (1.0 + queues[name]) for name, demand in demands.items()}
        rate = present / (own + sum(times.values()))
        queues = {name: rate * time for name, time in times.items()}
    return times


def predict(costs: Costs, config: Topics, workers: int, servers: int = 1) -> Prediction:
    """What so many workers bring.

    Args:
        costs: of each part.
        config: the run's, not shared out; with overlap=auto a worker does not overlap.
        workers: N.
        servers: parameter servers.
    """
    cycle = push(costs, config, workers, servers)
    options, staleness = _share(config, workers).parameter_server, 0.0
    if options.is_synchronous:
        rate = workers / _round_seconds(cycle, workers, costs.spread)
    else:
        times = mean_values(cycle.own, cycle.demands, workers)
        seconds = cycle.own + sum(times.values())
        rate = workers / seconds
        # No parameters are on their way from a push until the next pull is answered.
        without = cycle.between + times[COORDINATOR] + times[PARAMETER_SERVERS] / 2.0
        staleness = (workers - 1) * (1.0 - without / seconds)
    return Prediction(
        workers=workers,
        env_steps_per_second=rate * cycle.env_steps,
        updates_per_second=rate * options.local_updates,
        sequential_updates_per_second=rate * scaling.sequential_updates(options, workers),
        staleness=staleness,
        utilisation={name: rate * demand for name, demand in cycle.demands.items()},
        start_seconds=costs.start_seconds,
    )


def _round_seconds(cycle: Push, workers: int, spread: float) -> float:
    """One push of every worker: the slowest one's own time, then all are served one by one.

    The largest of N times of a normal distribution is expected Φ⁻¹((N - 3/8) / (N + 1/4)) standard
    deviations above their mean, nearly (Blom 1958). Where workers overlap, they collect while they
    learn and are served and all compute on shared cores: a round is as long as the longest.
    """
    above = statistics.NormalDist().inv_cdf((workers - 0.375) / (workers + 0.25))
    demands = dict(cycle.demands)
    computing = demands.pop(CORES, 0.0)
    slowest = (cycle.own + computing) * (1.0 + spread * above)
    if cycle.beside is None:
        return slowest + (workers - 1) * computing + workers * sum(demands.values())
    served = demands.pop(PARAMETER_SERVERS)
    exchanging = cycle.between + cycle.beside + workers * served
    together = max(slowest + served, exchanging, workers * computing)
    return together + workers * sum(demands.values())


def saturation(costs: Costs, config: Topics, servers: int = 1) -> dict[str, float]:
    """The workers at which each station would be saturated, were there no other.

    That is where N workers bring it as much as it can do: N · demand = the cycle where nobody
    queues, the asymptotes' crossing (Denning and Buzen 1978), both with the demands of that N.

    Returns:
        By station, the first that saturates first; infinite where none would.
    """
    found = {}
    for name in push(costs, config, 1, servers).demands:

        def is_saturated(workers: int, name: str = name) -> bool:
            cycle = push(costs, config, workers, servers)
            return workers * cycle.demands[name] >= cycle.alone

        found[name] = _first(is_saturated)
    return dict(sorted(found.items(), key=lambda each: each[1]))


def _first(is_true: Callable[[int], bool]) -> float:
    """The smallest count for which something is true that stays so for more; infinite if none."""
    if not is_true(MOST_WORKERS):
        return math.inf
    low, high = 0, MOST_WORKERS  # false, true
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_true(middle) else (middle, high)
    return high
