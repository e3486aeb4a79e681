"""What a worker's methods return, against the specs that closures are traced with."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.worker_calls import SIZE, SLOTS, Worker

from ps_dqn import environments
from ps_dqn.replay.batch import zero_batch
from ps_dqn.worker import calls
from ps_dqn.worker.calls import (
    Acting,
    Packed,
    Plan,
    Played,
    Playing,
    Pulled,
    Reported,
    Sampled,
)

NUM_PS = 2
KINDS = {
    "transitions": {},
    "sequences": {"recurrent_size": 3, "burn_in": 3, "sequence_length": 4, "n_step": 3},
}


def arrays(value: Any) -> list[Any]:
    """The arrays, or specs, of records and lists, in the order in which the bridge has them."""
    if isinstance(value, tuple | list):
        return [array for each in value for array in arrays(each)]
    return [value]


def assert_fits(returned: Any, specs: Any) -> None:
    if isinstance(specs, tuple):
        assert type(returned) is type(specs), "its fields have names"
    for array, spec in zip(arrays(returned), arrays(specs), strict=True):
        assert array.dtype == spec.dtype
        assert len(array.shape) == len(spec.shape)
        for size, expected in zip(array.shape, spec.shape, strict=True):
            assert expected in (size, None)


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    made = Worker(num_ps=NUM_PS, min_replay_size=24, **request.param)
    yield made
    made.host.close()


def test_what_a_closure_is_given_fits_its_specs(worker: Worker) -> None:
    config = worker.config
    environment = environments.describe(config.environment)
    acting = Acting.specs(2, environment, config.state_size)
    assert_fits(worker.begin(), calls.requests(NUM_PS))
    pulled = worker.ask()
    assert_fits(pulled, Pulled.specs(SIZE, 0))
    sizes = calls.Sizes(1, NUM_PS, SIZE, SLOTS, 0)
    assert_fits(worker.plan(pulled), Plan.specs(sizes, acting))
    acted = calls.Acted(np.zeros(2, np.int32), np.zeros((2, config.state_size), np.float32))
    assert_fits(worker.within("step", *acted), acting)
    worker.collect()
    assert_fits(worker.sample(), Sampled.specs(zero_batch(config, environment), acting))
    assert_fits(worker.pack(1.0), Packed.specs(sizes))
    worker.push()
    assert_fits(worker.requests, calls.requests(NUM_PS))
    assert_fits(worker.within("report"), Reported.specs())


def test_what_an_evaluation_is_given_fits_its_specs(worker: Worker) -> None:
    config = worker.config
    environment = environments.describe(config.environment)
    acting = Acting.specs(3, environment, config.state_size)
    assert_fits(worker.begin_evaluation(3), Playing.specs(acting))
    assert_fits(worker.closure, calls.NUMBER)
    acted = calls.Acted(np.zeros(3, np.int32), np.zeros((3, config.state_size), np.float32))
    assert_fits(worker.within("evaluate_step", *acted), Playing.specs(acting))
    assert_fits(worker.within("evaluate_end"), Played.specs(3))
