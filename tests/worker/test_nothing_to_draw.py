"""A worker none of whose steps can be learned from ends its closures, and says what failed."""

import json

import pytest
from support.worker_calls import Open, Worker

from ps_dqn.replay.samplers import NothingToDrawError

# Gymnasium warns of what fails here.
pytestmark = pytest.mark.filterwarnings("ignore:.*WARN:UserWarning")

FAILING = {
    "env_id": "support.misbehaving_env:Misbehaving",
    "env_kwargs": json.dumps({"how": "nan observation", "at": 1, "goes_on": True}),
}


def closure(worker: Worker) -> int:
    """One without a push; how many steps of its environments have failed in it."""
    assert worker.pull().acting.should_act == 1, "each closure tries again"
    worker.collect()
    sampled = worker.sample()
    assert sampled.should_push == 0
    assert sampled.acting.should_act == 0
    report = worker.report()
    assert report.env_steps == report.exchanges == 0
    return int(report.env_not_finite)


@pytest.mark.parametrize("values", [{}, {"recurrent_size": 2, "burn_in": 1, "sequence_length": 3}])
@pytest.mark.parametrize("overlap", ["off", "on"])
def test_where_every_step_fails_closures_end_without_a_push_and_report_it(
    opened: Open, overlap: str, values: dict[str, int]
) -> None:
    worker = opened(**FAILING, overlap=overlap, **values)
    assert closure(worker) >= 6
    failures = 0
    for _ in range(4):
        worker.begin()
        failures += closure(worker)
    assert failures == 2 * 2, "each second step of both environments is a reset"


def test_without_a_failure_it_is_an_error_of_the_programs_own(opened: Open) -> None:
    worker = opened(min_replay_size=12)
    worker.pull()
    with pytest.raises(NothingToDrawError):
        worker.sample()
