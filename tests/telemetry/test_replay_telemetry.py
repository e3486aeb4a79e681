"""How quickly replay servers are added to and drawn from, and what each tells Prometheus."""

import pytest

from ps_dqn.telemetry import prometheus
from ps_dqn.telemetry.figures import ReplayFigures
from ps_dqn.telemetry.replay_rates import ReplayRates

REPLAY = ReplayFigures(
    rows=4_000,
    bytes_held=2**30,
    adds=5_000,
    samples=64_000,
    updates=63_000,
    bytes_in=150_000,
    bytes_out=3_000_000,
    seconds=1.5,
    alive_seconds=60.0,
)
REPLAY_SAMPLES = {
    "ps_dqn_replay_rows": 4_000,
    "ps_dqn_replay_held_bytes": 2**30,
    "ps_dqn_replay_adds_total": 5_000,
    "ps_dqn_replay_samples_total": 64_000,
    "ps_dqn_replay_updates_total": 63_000,
    "ps_dqn_replay_sent_bytes_total": 3_000_000,
    "ps_dqn_replay_received_bytes_total": 150_000,
    "ps_dqn_replay_busy_seconds_total": 1.5,
}


def ledger(adds: int, samples: int, bytes_in: int, bytes_out: int) -> dict[str, int]:
    return {"adds": adds, "samples": samples, "bytes_in": bytes_in, "bytes_out": bytes_out}


def test_every_metric_says_what_the_figures_say() -> None:
    pytest.importorskip("prometheus_client")
    found = {
        sample.name: sample.value
        for family in prometheus.replay_server(lambda: REPLAY).collect()
        for sample in family.samples
    }
    assert found == REPLAY_SAMPLES
    assert list(prometheus.replay_server(lambda: None).collect()) == []


def test_rates_are_of_all_servers_since_the_last_row() -> None:
    rates = ReplayRates()
    assert rates.row([], 5.0) == {}, "each worker has its own replay"

    first = rates.row([ledger(100, 400, 3_000, 9_000), ledger(60, 400, 2_000, 9_000)], 10.0)
    assert first["replay/adds_per_second"] == 16
    assert first["replay/samples_per_second"] == 80
    assert (first["replay/bytes_in"], first["replay/bytes_out"]) == (5_000, 18_000)

    # The second one was lost and began anew.
    then = rates.row([ledger(140, 600, 4_000, 12_000), ledger(20, 100, 500, 2_000)], 15.0)
    assert then["replay/adds_per_second"] == (40 + 20) / 5
    assert then["replay/samples_per_second"] == (200 + 100) / 5
    assert then["replay/bytes_out"] == 14_000


@pytest.mark.parametrize("held", [0, 90_000])
def test_rates_of_a_run_that_goes_on_are_of_its_new_connection(held: int) -> None:
    rates = ReplayRates()
    rates.begin([ledger(held, held, 0, 0)], 36_000.0)
    row = rates.row([ledger(held + 5_000, held + 400, 1, 1)], 36_010.0)
    assert row["replay/adds_per_second"] == 500
    assert row["replay/samples_per_second"] == 40
