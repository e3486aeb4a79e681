"""The mathematics of the model: against closed forms and sums made by hand."""

import dataclasses
import itertools
import math
from typing import Any

import pytest

from ps_dqn import cost_model
from ps_dqn.config import Config
from ps_dqn.cost_model import COORDINATOR, CORES, PARAMETER_SERVERS, Costs

COSTS = Costs(
    env_step_seconds=0.002,
    acting_seconds=0.004,
    sampling_seconds=0.0003,
    update_seconds=0.001,
    start_seconds=5.0,
    pull_bytes=6e6,
    push_bytes=3e6,
    bandwidth=1e9,
    latency_seconds=0.001,
    pull_seconds=0.002,
    push_seconds=0.004,
    dispatch_seconds=0.008,
    coordinator_seconds=0.002,
    evaluation_seconds=0.5,
)


def config(**values: Any) -> Config:
    defaults = {"overlap": "off", "num_envs": 64, "eval_period": 10_240, "aggregation": "async"}
    chosen = defaults | values
    return Config.from_values(chosen)


def machine_repairmen(think: float, service: float, customers: int) -> float:
    """Throughput of M/M/1//N by the balance of its states (customers/s)."""
    weights = [
        math.perm(customers, waiting) * (service / think) ** waiting
        for waiting in range(customers + 1)
    ]
    return (1.0 - weights[0] / sum(weights)) / service


def test_one_worker_takes_the_sum_of_its_parts() -> None:
    # 512 steps for 64 updates: 8 steps of 64 environments; a quarter of a closure.
    env = 512 * 0.002 + 8 * 0.004
    own = env + 64 * (0.001 + 0.0003) + 0.5 * 512 / 10_240 + 0.001
    shared = 0.002 + 0.004 + 9e6 / 1e9 + 0.002 / 4
    prediction = cost_model.predict(COSTS, config(), 1)
    seconds = own + shared + 0.008 / 4
    assert prediction.env_steps_per_second == pytest.approx(512 / seconds)
    assert prediction.updates_per_second == pytest.approx(64 / seconds)
    assert prediction.sequential_updates_per_second == pytest.approx(64 / seconds)
    assert prediction.seconds(1024) == pytest.approx(5.0 + 2 * seconds)
    assert prediction.staleness == 0


def test_overlap_takes_the_longer_of_collecting_and_learning_and_pushing() -> None:
    apart = cost_model.push(COSTS, config(), 1)
    slow_env = cost_model.push(COSTS, config(overlap="on"), 1)
    there_and_back = 0.001 + 0.002 + 0.004 + 9e6 / 1e9
    assert apart.alone - slow_env.alone == pytest.approx(64 * 0.001 + there_and_back)
    costs = dataclasses.replace(COSTS, update_seconds=1.0)
    slow_update = cost_model.push(costs, config(overlap="on"), 1)
    both = cost_model.push(costs, config(), 1)
    drawn = 64 * 0.0003
    assert both.alone - slow_update.alone == pytest.approx(512 * 0.002 + 8 * 0.004 + drawn)


def test_workers_collect_less_for_each_push() -> None:
    assert cost_model.push(COSTS, config(), 8).env_steps == 64
    rollout = {"replay": "rollout", "target_update_period": 0, "double_dqn": False, "n_step": 1}
    assert cost_model.push(COSTS, config(**rollout), 8).env_steps == 512


def test_servers_share_the_bytes() -> None:
    one, four = (cost_model.push(COSTS, config(), 1, servers) for servers in (1, 4))
    assert one.demands[PARAMETER_SERVERS] == pytest.approx(0.006 + 0.009)
    assert four.demands[PARAMETER_SERVERS] == pytest.approx(0.006 + 0.009 / 4)


@pytest.mark.parametrize("customers", [1, 2, 7, 60])
def test_one_station_is_the_repairman_of_machines(customers: int) -> None:
    times = cost_model.mean_values(3.0, {"repair": 0.25}, customers)
    wanted = machine_repairmen(3.0, 0.25, customers)
    assert customers / (3.0 + times["repair"]) == pytest.approx(wanted)


def test_equal_stations_are_a_balanced_network() -> None:
    # Without own time, N customers at K equal stations: N / (D (N + K - 1)).
    times = cost_model.mean_values(0.0, dict.fromkeys("abc", 0.2), 5)
    assert 5 / sum(times.values()) == pytest.approx(5 / (0.2 * 7))


def test_many_workers_reach_what_the_busiest_station_can_serve() -> None:
    prediction = cost_model.predict(COSTS, config(pushes_per_closure=4), 10_000)
    assert prediction.updates_per_second == pytest.approx(64 / (0.006 + 0.009), rel=1e-6)
    assert prediction.utilisation[PARAMETER_SERVERS] == pytest.approx(1.0)
    assert prediction.utilisation[COORDINATOR] == pytest.approx(0.0005 / 0.015)


@pytest.mark.parametrize("aggregation", ["async", "sync"])
def test_more_workers_are_never_slower_in_updates(aggregation: str) -> None:
    options = config(aggregation=aggregation)
    counts = (1, 2, 3, 8, 20, 64, 500, 3000)
    rates = [cost_model.predict(COSTS, options, n).updates_per_second for n in counts]
    assert all(more >= fewer * (1 - 1e-9) for fewer, more in itertools.pairwise(rates))


def test_pushes_of_the_others_make_it_stale() -> None:
    # Nearly all of a cycle lies between the pull and the push.
    costs = Costs(env_step_seconds=1.0, update_seconds=0.0)
    assert cost_model.predict(costs, config(), 8).staleness == pytest.approx(7.0)
    # Half of it is between two closures, when no parameters are on their way.
    costs = Costs(env_step_seconds=1.0, update_seconds=0.0, dispatch_seconds=64.0)
    options = config(pushes_per_closure=1)
    assert cost_model.predict(costs, options, 8).staleness == pytest.approx(3.5)


def test_a_station_saturates_where_its_asymptotes_cross() -> None:
    # 0.1 s of updates and 0.01 s at the server: 11 workers, if a push had no environment steps.
    costs = Costs(env_step_seconds=0.0, update_seconds=0.1 / 64, push_seconds=0.01)
    assert cost_model.saturation(costs, config())[PARAMETER_SERVERS] == 11
    # With 512 / N steps of 10 ms: N = (0.11 + 5.12 / N) / 0.01, so 28.8 workers.
    costs = dataclasses.replace(costs, env_step_seconds=0.01)
    found = cost_model.saturation(costs, config())
    assert found[PARAMETER_SERVERS] == 29
    assert found[COORDINATOR] == math.inf
    assert next(iter(found)) == PARAMETER_SERVERS


def test_few_processors_hold_workers_up() -> None:
    costs = Costs(env_step_seconds=0.0, update_seconds=0.01, cores=2)
    rates = [cost_model.predict(costs, config(), n).updates_per_second for n in (1, 2, 100)]
    assert rates[0] == pytest.approx(100)
    assert 130 < rates[1] < 200
    assert rates[2] == pytest.approx(200, rel=0.01)
    assert cost_model.saturation(costs, config())[CORES] == 2


def test_a_worker_that_overlaps_uses_two_processors() -> None:
    costs = Costs(0.01, update_seconds=0.08, env_step_cpu_seconds=0.01, cores=1)
    rate = cost_model.predict(costs, config(overlap="on"), 1).updates_per_second
    assert rate == pytest.approx(64 / (512 * 0.01 + 64 * 0.08))


# Rounds.


def test_a_round_that_overlaps_hides_pushes_until_they_take_longer() -> None:
    costs = Costs(env_step_seconds=0.01, update_seconds=0.001, push_seconds=0.002)
    options = config(aggregation="sync", overlap="on")

    def seconds(workers: int) -> float:
        return workers * 64 / cost_model.predict(costs, options, workers).updates_per_second

    # 512 / N steps of 10 ms; 64 updates of 1 ms and N pushes of 2 ms.
    assert seconds(16) == pytest.approx(32 * 0.01)
    assert seconds(128) == pytest.approx(0.064 + 128 * 0.002)


def test_a_round_waits_for_the_slowest() -> None:
    costs = Costs(env_step_seconds=0.0, update_seconds=1.0 / 64, push_seconds=0.01, spread=0.2)
    options = config(aggregation="sync")
    assert cost_model.predict(costs, options, 1).updates_per_second == pytest.approx(64 / 1.01)
    # The largest of 8 of a normal distribution is expected 1.4236 above the mean (tables).
    seconds = 1.0 + 0.2 * 1.4236 + 8 * 0.01
    prediction = cost_model.predict(costs, options, 8)
    assert prediction.updates_per_second == pytest.approx(8 * 64 / seconds, rel=2e-3)
    assert prediction.staleness == 0
